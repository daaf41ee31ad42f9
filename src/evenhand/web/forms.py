"""What a browser may send: every limit of the pages, and the fields of a query string or form, read within them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

from evenhand.errors import UsageError, shown


@dataclass(frozen=True)
class PageLimits:
    """Limits of one server.

    Attributes:
        body: bytes of a request body.
        query: characters of the part of an address after the question mark.
        fields: fields of a form or query.
        field: characters of a field.
        text: characters of a pasted text.
        words: words of a list.
        word: characters of a word or a filler.
        sentence: characters of a sentence.
        sentences: sentence pairs, or filled sentences, that a model reads for one answer.
        neighbours: neighbours shown of a word.
        runs: runs listed.
        compared: runs compared at once.
        methods: methods of an audit that the page starts.
        seconds: what an answer may take; the computation goes on, and its result is kept for the next request.
        reading_seconds: what a page about a saved run may take. It is made anew for each request, so it must be
            finished within one, also where the machine is busy with other work.
        waiting: computations that run or wait at once.
        reading: pages about saved runs that are made or wait at once.
        body_seconds: time to send a request body.
        audit_seconds: what an audit started here may take.
        cached: fitted methods kept.
        cached_bytes: memory of the changed vectors kept.
        corpus_bytes: size of a corpus that the page scores.
    """

    body: int = 200_000
    query: int = 16_000
    fields: int = 60
    field: int = 4_000
    text: int = 100_000
    words: int = 60
    word: int = 60
    sentence: int = 300
    sentences: int = 240
    neighbours: int = 50
    runs: int = 200
    compared: int = 6
    methods: int = 4
    seconds: float = 15.0
    reading_seconds: float = 60.0
    waiting: int = 12
    reading: int = 64
    body_seconds: float = 10.0
    audit_seconds: float = 900.0
    cached: int = 12
    cached_bytes: int = 1 << 30
    corpus_bytes: int = 256 << 20


BETWEEN_WORDS = re.compile(r"[\s,;]+")
BETWEEN_PHRASES = re.compile(r"[\r\n,;]+")


class FormFields:
    """Field values by name. Every method returns a value within the limits or raises `UsageError`."""

    def __init__(self, pairs: Sequence[tuple[str, str]], limits: PageLimits) -> None:
        self.limits = limits
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    @classmethod
    def parse(cls, encoded: str, limits: PageLimits) -> FormFields:
        """Read a query string or a form body; raise `UsageError` for too many fields or invalid UTF-8."""
        try:
            pairs = parse_qsl(encoded, keep_blank_values=True, max_num_fields=limits.fields, errors="strict")
        except UnicodeDecodeError:
            raise UsageError("the form is not valid UTF-8", hint="send the form from the page") from None
        except ValueError:
            raise UsageError(f"the form has more than {limits.fields} fields", hint="send fewer") from None
        return cls(pairs, limits)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def with_defaults(self, defaults: Mapping[str, str]) -> FormFields:
        """Return the fields with these values for the names that were not sent."""
        sent = [(name, value) for name, values in self._values.items() for value in values]
        return FormFields([*((n, v) for n, v in defaults.items() if n not in self._values), *sent], self.limits)

    def sent(self, name: str) -> tuple[str, ...]:
        """Return every value that was sent under a name."""
        return tuple(self._values.get(name, ()))

    def raw(self, name: str) -> str:
        """Return what was sent, shortened, for showing it again."""
        return self._values.get(name, [""])[-1][: self.limits.text]

    def text(self, name: str, default: str = "", *, most: int | None = None) -> str:
        """Return a text without surrounding white space."""
        most = most or self.limits.field
        value = self._values.get(name, [default])[-1]
        if len(value) > most:
            raise UsageError(
                f"{name} has {len(value):,} characters, and at most {most:,} are allowed", hint="shorten it"
            )
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise UsageError(f"{name} is not valid text", hint="remove the broken characters")
        return value.strip()

    def sentence(self, name: str, default: str = "") -> str:
        """Return one sentence, in one line."""
        return " ".join(self.text(name, default, most=self.limits.sentence).split())

    def words(self, name: str) -> list[str]:
        """Return a list of words separated by white space or commas, each once."""
        return self._list(name, BETWEEN_WORDS.split(self.text(name)))

    def phrases(self, name: str) -> list[str]:
        """Return a list of words or phrases separated by commas or line breaks, each once."""
        return self._list(name, [" ".join(part.split()) for part in BETWEEN_PHRASES.split(self.text(name))])

    def sentences(self, name: str) -> list[str]:
        """Return sentences, one in each line."""
        lines = [" ".join(line.split()) for line in self.text(name).splitlines()]
        for line in lines:
            if len(line) > self.limits.sentence:
                raise UsageError(f"{name} has a sentence of {len(line)} characters: {shown(line)}", hint="shorten it")
        return list(dict.fromkeys(filter(None, lines)))

    def _list(self, name: str, parts: Sequence[str]) -> list[str]:
        words = list(dict.fromkeys(filter(None, parts)))
        if len(words) > self.limits.words:
            raise UsageError(
                f"{name} has {len(words)} words, and at most {self.limits.words} are allowed", hint="leave some out"
            )
        for word in words:
            if len(word) > self.limits.word:
                raise UsageError(f"{name} has a word of {len(word)} characters: {shown(word)}", hint="shorten it")
        return words

    def choice(self, name: str, choices: Mapping[str, str] | Sequence[str], default: str) -> str:
        """Return one of the choices."""
        value = self._values.get(name, [default])[-1] or default
        if value not in choices:
            raise UsageError(f"{name} {shown(value)} is not offered", hint="choose one of the list")
        return value

    def choices(self, name: str, choices: Mapping[str, str] | Sequence[str], *, most: int) -> list[str]:
        """Return the chosen values, each once."""
        values = list(dict.fromkeys(filter(None, self._values.get(name, []))))
        if len(values) > most:
            raise UsageError(f"{len(values)} values of {name} were chosen, and at most {most} are allowed")
        for value in values:
            if value not in choices:
                raise UsageError(f"{name} {shown(value)} is not offered", hint="choose from the list")
        return values

    def number(self, name: str, default: int, *, least: int, most: int) -> int:
        """Return a whole number within bounds."""
        text = self._values.get(name, [str(default)])[-1].strip() or str(default)
        if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
            raise UsageError(f"{name} must be a whole number from {least} to {most}, got {shown(text)}")
        return int(text)
