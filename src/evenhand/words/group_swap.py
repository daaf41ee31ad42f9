"""Replace the words of one group by their counterparts of another in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

from evenhand.errors import UsageError
from evenhand.words.catalog import pairs, wordset
from evenhand.words.concept import Concept
from evenhand.words.grammar import article
from evenhand.words.pronouns import CONTEXT, GROUP, SPLIT, counterpart
from evenhand.words.proper_names import ADDRESS, TITLES, Role, is_kept

GENDER = "counterfactual-gender"  # a longer list of pairs, for the shipped concept of that name
PRONOUNS = frozenset([*GROUP, "she", "he", "herself", "himself"])
ARTICLE = re.compile(r"\b(an?)(\s+)\Z", re.IGNORECASE)


@dataclass(frozen=True)
class Versions:
    """A text that names one group, and the same text for other groups.

    `group` is the group that the text names; empty where it names several, and the only other version exchanges them.
    """

    group: str
    text: str
    others: tuple[tuple[str, str], ...]


class GroupSwap:
    """Counterparts of the words of a concept.

    The n-th words of all groups are counterparts, and so are the n-th first names. For gender, a longer list of pairs
    is used, her and his are replaced by what the words around them tell, which is sometimes wrong (see `pronouns`), and
    parts of proper names stay (see `proper_names`).

    Args:
        concept: a concept whose groups have the same number of words, or one with two groups and pairs.

    Raises:
        UsageError: If the words have no counterparts.
    """

    def __init__(self, concept: Concept) -> None:
        self.groups = tuple(concept.groups)
        self.gendered = set(self.groups) == {"female", "male"} and concept.language == "en"
        self.counterparts: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._names = {name.lower() for names in concept.names.values() for name in names}
        for row in self._rows(concept):
            for group, word in zip(self.groups, row, strict=True):
                if word:
                    self.counterparts.setdefault(word.lower(), (group, row))

    def _rows(self, concept: Concept) -> Iterator[tuple[str, ...]]:
        """Yield words of all groups that are counterparts of each other."""
        order = [self.groups.index(pole) for pole in concept.pairs.poles] if len(self.groups) == 2 else []
        first_is_first = not order or order[0] == 0
        if self.gendered:
            female = self.groups.index("female") == 0
            yield from ((a, b) if female else (b, a) for a, b in pairs(GENDER))
        if len(self.groups) == 2:
            yield from ((a, b) if first_is_first else (b, a) for a, b in concept.pairs)
        lists = [tuple(concept.groups[group]) for group in self.groups]
        if len({len(words) for words in lists}) == 1:
            yield from zip(*lists, strict=True)
        elif not len(concept.pairs) or len(self.groups) > 2:
            raise UsageError(
                f"the words of {concept.name!r} have no counterparts: its groups have "
                f"{', '.join(str(len(words)) for words in lists)} words",
                hint="give every group the same number of words, in the same order",
            )
        if set(self.groups) <= set(concept.names):
            yield from _complete(zip_longest(*(tuple(concept.names[group]) for group in self.groups)))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        words = set(self.counterparts) | (set(GROUP) if self.gendered else set())
        return _word_pattern(words)

    def versions(self, text: str) -> Versions | None:
        """Return the versions of a text; None where it names no group, or several of more than two."""
        named = {group for match in self._matches(text) if (group := self._group(match[0]))}
        if not named or (len(named) > 1 and len(self.groups) > 2):
            return None
        if len(self.groups) == 2 and len(named) == 2:
            return Versions("", text, (("", self._replaced(text, None)),))
        (group,) = named
        others = tuple((other, self._replaced(text, other)) for other in self.groups if other != group)
        return Versions(group, text, others)

    def _matches(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the group words of a text; for gender without those that are part of a proper name."""
        for match in self._pattern.finditer(text):
            if not (self.gendered and match[0][0].isupper() and self._is_kept(text, match)):
                yield match

    def _is_kept(self, text: str, match: re.Match[str]) -> bool:
        start, stop = match.span()
        before = SPLIT.split(text[max(0, start - CONTEXT) : start])
        parts = [*before, match[0], *SPLIT.split(text[stop : stop + CONTEXT])]
        return is_kept(parts, len(before), self._role(match[0]) or Role.NOUN, self._role)

    def _role(self, word: str) -> Role | None:
        lower = word.lower()
        if lower in self._names:
            return Role.NAME if word[0].isupper() else None
        if lower in PRONOUNS:
            return Role.PLAIN
        if lower not in self.counterparts:
            return None
        return Role.ADDRESS if lower in ADDRESS else Role.TITLE if lower in wordset(TITLES).words else Role.NOUN

    def _group(self, word: str) -> str:
        lower = word.lower()
        if self.gendered and lower in GROUP:
            return GROUP[lower]
        return self.counterparts[lower][0] if lower in self.counterparts else ""

    def _replaced(self, text: str, target: str | None) -> str:
        """Return the text with every group word replaced by that of the target, or of the other of two groups."""
        parts: list[str] = []
        done = 0
        for match in self._matches(text):
            group = self._group(match[0])
            other = target or next(name for name in self.groups if name != group)
            if self.gendered and match[0].lower() in GROUP:
                word = counterpart(text, *match.span())
            else:
                word = self.counterparts[match[0].lower()][1][self.groups.index(other)]
            word = _in_case_of(match[0], word)
            parts += [_with_article(text[done : match.start()], word), word]
            done = match.end()
        return "".join([*parts, text[done:]])


def _complete(rows: Iterable[tuple[str | None, ...]]) -> Iterator[tuple[str, ...]]:
    """Yield the rows in which no group lacks a name."""
    return (tuple(str(word) for word in row) for row in rows if None not in row)


def _in_case_of(pattern: str, word: str) -> str:
    if pattern.isupper() and len(pattern) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if pattern[:1].isupper() else word


def _with_article(before: str, word: str) -> str:
    """Return the text before a word with its article made to agree."""
    match = ARTICLE.search(before)
    if not match:
        return before
    right = article(word) or match[1].lower()
    return before[: match.start()] + _in_case_of(match[1][:1].ljust(2, "x"), right) + match[2]


def mask_group_words(concept: Concept, texts: Iterable[str], mask: str = "_") -> list[str]:
    """Return the texts with every word and first name of a concept replaced by a mask; for gender also the pronouns."""
    words = {word.lower() for group in (*concept.groups.values(), *concept.names.values()) for word in group}
    words |= {word.lower() for pair in concept.pairs for word in pair}
    if set(concept.groups) == {"female", "male"} and concept.language == "en":
        words |= set(GROUP) | {word for pair in pairs(GENDER) for word in pair}
    pattern = _word_pattern(words)
    return [pattern.sub(mask, text) for text in texts]


def _word_pattern(words: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", re.IGNORECASE)
