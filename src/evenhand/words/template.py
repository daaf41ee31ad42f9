"""Sentence templates with slots, expanded lazily."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from evenhand.errors import UsageError
from evenhand.words.grammar import agrees, with_articles
from evenhand.words.wordset import Cited, FrozenMap, Source, Words, WordSet, checked_words, source_dict

SLOT = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, init=False)
class Template(Cited):
    """A sentence with `{slots}`, and word sets for some or all of them.

    `a/an` before a slot becomes the article of its filler: by first letter with `articles="letter"`, as in the code of
    Dev et al. (2020), or by sound with "phonetic". With "french", marks such as `Le/La` and `parti(e)` stay until the
    gender of the subject is known (`agreement.agree`). Slots without fillers are free; the caller fills them.

    Example:
        >>> t = Template("demo", "The {subject} ate a/an {food}.", {"food": ["apple", "meal"]})
        >>> list(t.expand(subject="nurse"))
        ['The nurse ate an apple.', 'The nurse ate a meal.']
    """

    name: str
    text: str
    fillers: Mapping[str, WordSet]
    articles: str
    source: Source | None
    note: str

    def __init__(
        self,
        name: str,
        text: str,
        fillers: Mapping[str, Words] | None = None,
        articles: str = "phonetic",
        source: Source | None = None,
        *,
        note: str = "",
    ) -> None:
        agrees(articles)  # raises an error for an unknown rule
        slots = set(SLOT.findall(text))
        if not slots or "{" in SLOT.sub("", text) or "}" in SLOT.sub("", text):
            raise UsageError(f"template {name!r}: {text!r} has no slot or a stray brace", hint="write slots as {word}")
        sets = {slot: w if isinstance(w, WordSet) else WordSet(slot, w, source) for slot, w in (fillers or {}).items()}
        for slot, words in sets.items():
            if slot not in slots or not len(words):
                raise UsageError(f"template {name!r}: fillers for {slot!r} are empty, or the text has no such slot")
        vars(self).update(name=name, text=text, fillers=FrozenMap(sets), articles=articles, source=source, note=note)

    def __repr__(self) -> str:
        return f"Template({self.name!r}, {self.text!r}, {self.size} sentences)"

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots in the order of the text."""
        return tuple(dict.fromkeys(SLOT.findall(self.text)))

    @property
    def free(self) -> tuple[str, ...]:
        """The slots without fillers."""
        return tuple(slot for slot in self.slots if slot not in self.fillers)

    @property
    def size(self) -> int:
        """Number of sentences, with one word per free slot."""
        return math.prod(len(words) for words in self.fillers.values())

    def fill(self, /, **words: str) -> str:
        """Return one sentence; every slot needs a word."""
        missing, unknown = set(self.slots) - set(words), set(words) - set(self.slots)
        if missing or unknown:
            raise UsageError(f"template {self.name!r}: missing {sorted(missing)}, not a slot {sorted(unknown)}")
        return with_articles(SLOT.sub(lambda slot: words[slot[1]], self.text), self.articles)

    def combinations(self, /, **chosen: str | Words) -> Iterator[dict[str, str]]:
        """Yield every assignment of words to slots; the last slot of the text varies fastest.

        A keyword gives the word or words of a free slot, or restricts the fillers of another slot.
        """
        pools = {slot: (words,) if isinstance(words, str) else tuple(words) for slot, words in chosen.items()}
        for slot, words in pools.items():
            if not checked_words(words, what=f"slot {slot!r}"):
                raise UsageError(f"template {self.name!r}: the slot {slot!r} has no word")
        choices: dict[str, Iterable[str]] = {**self.fillers, **pools}
        self.fill(**dict.fromkeys(choices, "x"))
        assignments = product(*(choices[slot] for slot in self.slots))
        return (dict(zip(self.slots, words, strict=True)) for words in assignments)

    def expand(self, /, **chosen: str | Words) -> Iterator[str]:
        """Yield every sentence, in the order of `combinations`."""
        return (self.fill(**words) for words in self.combinations(**chosen))

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON, in the form of a word file."""
        plain: dict[str, object] = {"name": self.name, "text": self.text, "articles": self.articles}
        plain["fillers"] = {slot: words.to_dict() for slot, words in self.fillers.items()}
        filled = {key: value for key, value in plain.items() if value}
        return filled | ({"note": self.note} if self.note else {}) | source_dict(self.source)
