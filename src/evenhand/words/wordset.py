"""Word sets, pair lists and tables of words, each with its source."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias, TypeVar

from evenhand.errors import UsageError, few, shown, unknown_name


@dataclass(frozen=True)
class Source:
    """The publication, data set or person that a word list comes from."""

    title: str
    authors: str = ""
    year: int = 0
    where: str = ""
    url: str = ""
    licence: str = ""
    note: str = ""
    bibtex: str = ""

    def __post_init__(self) -> None:
        if not self.title.strip():
            raise UsageError("a source needs a title", hint="name the publication or person")
        if not 0 <= self.year <= 9999:
            raise UsageError(f"source {self.title!r}: the year must have at most four digits, or be 0 if unknown")

    @property
    def reference(self) -> str:
        """The reference as one line: authors (year), title, where."""
        who = f"{self.authors} ({self.year})" if self.authors and self.year else self.authors or str(self.year or "")
        return ". ".join(part.rstrip(".") for part in (who, self.title, self.where) if part) + "."

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON, without empty fields."""
        return {name: value for name, value in asdict(self).items() if value}


class Cited:
    """Mixin for records with a source, a citation and a digest of their content."""

    source: Source | None

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        raise NotImplementedError

    @property
    def citation(self) -> str:
        """BibTeX entry of the source; empty if there is none."""
        return self.source.bibtex if self.source else ""

    @property
    def digest(self) -> str:
        """Hash of the content; sources and notes do not count."""
        return digest_of(self.to_dict())


def digest_of(content: object) -> str:
    """Return the hash of plain data, leaving out sources and notes at every level."""
    text = json.dumps(_without_notes(content), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without_notes(content: object) -> object:
    if isinstance(content, dict):
        return {key: _without_notes(value) for key, value in content.items() if key not in ("source", "note", "limits")}
    if isinstance(content, list | tuple):
        return [_without_notes(value) for value in content]
    return content


def source_dict(source: Source | None) -> dict[str, object]:
    """Return the source as an entry of a record's plain data."""
    return {"source": source.to_dict()} if source else {}


Words: TypeAlias = "WordSet | Iterable[str]"
PairList: TypeAlias = "Pairs | Iterable[Sequence[str]]"


@dataclass(frozen=True, init=False)
class WordSet(Cited):
    """A named list of words in the order of its source.

    A published list may contain a word twice; it is kept unchanged, and `duplicates` lists such words. `scores` are
    columns of numbers that the source gives with the words, one number per word.
    """

    name: str
    words: tuple[str, ...]
    source: Source | None
    note: str
    scores: Mapping[str, tuple[float, ...]]

    def __init__(
        self,
        name: str,
        words: Words,
        source: Source | None = None,
        *,
        note: str = "",
        scores: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        items = checked_words(words, what=f"word set {name!r}")
        columns = FrozenMap(
            {column: checked_scores(s, what=f"{name!r}, {column!r}") for column, s in (scores or {}).items()}
        )
        for column, values in columns.items():
            if len(values) != len(items):
                raise UsageError(f"word set {name!r}: {len(values)} scores {column!r} for {len(items)} words")
        vars(self).update(name=name, words=items, source=source, note=note, scores=columns)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.words

    def __repr__(self) -> str:
        return f"WordSet({self.name!r}, {len(self)} words: {few(self.words)})"

    @property
    def duplicates(self) -> tuple[str, ...]:
        """Words that occur more than once."""
        return tuple(word for word, count in Counter(self.words).items() if count > 1)

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON, in the form of a word file."""
        plain: dict[str, object] = {"name": self.name}
        if self.scores:
            plain["columns"] = list(self.scores)
            plain["rows"] = [[word, *values] for word, *values in zip(self.words, *self.scores.values(), strict=True)]
        else:
            plain["words"] = [escaped(word) for word in self.words]
        if self.duplicates or any(word != word.strip() for word in self.words):
            plain["verbatim"] = True
        return plain | ({"note": self.note} if self.note else {}) | source_dict(self.source)


@dataclass(frozen=True, init=False)
class Pairs(Cited):
    """A named list of word pairs; the first member of each belongs to the first, positive pole."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    poles: tuple[str, str]
    source: Source | None
    note: str

    def __init__(
        self,
        name: str,
        pairs: PairList,
        poles: Sequence[str] = ("first", "second"),
        source: Source | None = None,
        *,
        note: str = "",
    ) -> None:
        if isinstance(poles, str) or len(poles) != 2:
            raise UsageError(f"pairs {name!r}: poles must be two names, got {poles!r}")
        items = checked_pairs(pairs, what=f"pairs {name!r}")
        vars(self).update(name=name, pairs=items, poles=(poles[0], poles[1]), source=source, note=note)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return f"Pairs({self.name!r}, {len(self)} pairs {'-'.join(self.poles)}: {few(map('-'.join, self.pairs))})"

    @property
    def first(self) -> tuple[str, ...]:
        """The first members in order, with repeats."""
        return tuple(a for a, _ in self.pairs)

    @property
    def second(self) -> tuple[str, ...]:
        """The second members in order, with repeats."""
        return tuple(b for _, b in self.pairs)

    @property
    def duplicates(self) -> tuple[tuple[str, str], ...]:
        """Pairs that occur more than once."""
        return tuple(pair for pair, count in Counter(self.pairs).items() if count > 1)

    def flipped(self) -> Pairs:
        """Return the pairs with the other pole first."""
        flipped = tuple((b, a) for a, b in self.pairs)
        return Pairs(self.name, flipped, (self.poles[1], self.poles[0]), self.source, note=self.note)

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON, in the form of a word file."""
        plain: dict[str, object] = {"name": self.name, "poles": list(self.poles)}
        plain["pairs"] = [[a, b] for a, b in self.pairs]
        if self.duplicates or any(word != word.strip() for pair in self.pairs for word in pair):
            plain["verbatim"] = True
        return plain | ({"note": self.note} if self.note else {}) | source_dict(self.source)


def escaped(word: str) -> str:
    """Escape a word for a word file: a leading @, which includes another list, is doubled."""
    return "@" + word if word.startswith("@") else word


def checked_words(words: Words, *, what: str) -> tuple[str, ...]:
    """Return the words as a tuple; raise `UsageError` for an invalid word."""
    if isinstance(words, str):
        raise UsageError(
            f"{what} must be a list of words, got the string {shown(words)}", hint=f"write [{shown(words)}]"
        )
    if not isinstance(words, Iterable):
        raise UsageError(f"{what} must be a list of words, got {shown(words)}")
    kept = tuple(words)
    for word in kept:
        _check_word(word, what)
    return kept


def checked_pairs(pairs: PairList, *, what: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs as tuples; raise `UsageError` for an invalid pair."""
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise UsageError(f"{what} must be a list of (first, second), got {shown(pairs)}")
    kept: list[tuple[str, str]] = []
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise UsageError(f"{what}: a pair is two words, got {shown(pair)}")
        first, second = pair
        _check_word(first, what)
        _check_word(second, what)
        if first == second:
            raise UsageError(f"{what}: both members of a pair are {first!r}", hint="a pair needs two different words")
        kept.append((first, second))
    return tuple(kept)


def checked_scores(scores: Sequence[float], *, what: str) -> tuple[float, ...]:
    """Return the scores as floats; raise `UsageError` if a score is not finite."""
    try:
        numbers = tuple(map(float, scores))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"scores {what}: must be numbers, got {shown(scores)}") from error
    if not all(map(math.isfinite, numbers)):
        raise UsageError(f"scores {what}: contains a number that is not finite")
    return numbers


def _check_word(word: object, what: str) -> None:
    if not isinstance(word, str):
        raise UsageError(f"{what}: {shown(word)} is not a word", hint="put quotes around words")
    if not word.strip():
        raise UsageError(f"{what}: contains an empty word")
    if not word.isascii() and any("\ud800" <= letter <= "\udfff" for letter in word):
        raise UsageError(f"{what}: {word!r} contains a lone surrogate", hint="save the list as UTF-8")


V = TypeVar("V")


class FrozenMap(Mapping[str, V]):
    """An immutable ordered mapping that can be hashed and pickled, unlike `types.MappingProxyType`."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, V] | None = None) -> None:
        self._entries = dict(entries or {})

    def __getitem__(self, key: str) -> V:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        # Equality of mappings ignores order, and so does the hash.
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return repr(self._entries)


@dataclass(frozen=True, init=False)
class Table(Cited):
    """Named columns and rows of words; a cell may also be a pair written `first:second`."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    source: Source | None
    note: str

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        source: Source | None = None,
        *,
        note: str = "",
    ) -> None:
        heads = checked_words(columns, what=f"columns of table {name!r}")
        kept = tuple(checked_words(row, what=f"table {name!r}") for row in rows)
        for number, row in enumerate(kept, start=1):
            if len(row) != len(heads):
                raise UsageError(f"table {name!r}: row {number} has {len(row)} cells for {len(heads)} columns: {row!r}")
        if len(set(heads)) != len(heads):
            raise UsageError(f"table {name!r}: two columns have the same name")
        vars(self).update(name=name, columns=heads, rows=kept, source=source, note=note)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self)} rows of {few(self.columns, most=4)})"

    def column(self, name: str) -> WordSet:
        """One column as a word set, repeats included."""
        if name not in self.columns:
            raise unknown_name(f"column of table {self.name!r}", name, self.columns)
        place = self.columns.index(name)
        return WordSet(name, (row[place] for row in self.rows), self.source)

    def pairs(self, name: str) -> Pairs:
        """One column of `first:second` cells as pairs, in the order of the rows."""
        split = [cell.partition(":") for cell in self.column(name)]
        return Pairs(name, [(first, second) for first, _, second in split], source=self.source)

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON, in the form that a word file has."""
        plain: dict[str, object] = {"name": self.name, "columns": list(self.columns)}
        plain["rows"] = [list(row) for row in self.rows]
        return plain | ({"note": self.note} if self.note else {}) | source_dict(self.source)
