"""What a model may be biased about: groups of people, the words that name them, and how its direction is learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from evenhand.errors import UsageError, few, shown, unknown_name
from evenhand.language import language as rules_of
from evenhand.words.characters import require_plain_characters
from evenhand.words.query import Query
from evenhand.words.wordset import (
    Cited,
    FrozenMap,
    PairList,
    Pairs,
    Source,
    Words,
    WordSet,
    checked_words,
    digest_of,
    source_dict,
)

How = Literal["pair", "pairs", "two-means", "group-means", "words", "span"]


@dataclass(frozen=True)
class Recipe:
    """How a published direction or subspace of a concept is learned.

    - `pair`: the difference of two words, `words=(positive, negative)`;
    - `pairs`: the first k principal directions of the differences of the concept's pairs;
    - `span`: everything that the differences of the concept's pairs span;
    - `two-means`: mean of the positive group minus mean of the others;
    - `group-means`: the first k principal directions of the means of all groups;
    - `words`: the first k principal components of `words`, or of all group words when it is empty.
    """

    how: How
    words: tuple[str, ...] = ()
    k: int = 1
    centre: bool = False
    normalise: bool = False

    def __post_init__(self) -> None:
        if self.how not in get_args(How):
            raise UsageError(f"unknown recipe {self.how!r}", hint=f"use one of {', '.join(get_args(How))}")
        object.__setattr__(self, "words", checked_words(self.words, what=f"recipe {self.how!r}"))
        if self.how == "pair" and len(self.words) != 2:
            raise UsageError(f"recipe 'pair' needs words=(positive, negative), got {self.words!r}")
        if self.k < 1:
            raise UsageError(f"recipe {self.how!r}: k must be at least 1, got {self.k}")

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {**asdict(self), "words": list(self.words)}


@dataclass(frozen=True, init=False)
class Concept(Cited):
    """A concept such as gender: named groups of words, and what the methods need beyond them.

    `positive` names the group at the positive end of a direction (the first group unless said). `pairs` are
    counterparts, positive member first; `names` are first names for each group; `equalize` are pairs that a method may
    make equidistant; `specific` are words rightly about the concept, exempt from neutralising; `limits` says what
    these lists do not cover. `language` is the code of the language (en). `neutral` are words that should carry none
    of the concept, `queries` and `probes` (ids or files) the questions that an audit asks about it; without queries it
    asks generic ones built from the groups. `adjectives` and `nouns` (plural) describe the people of each group; they
    make the phrases of an intersection, such as "Black women". Plain lists are accepted everywhere. A word that mixes
    alphabets or contains invisible characters is refused.
    """

    name: str
    groups: Mapping[str, WordSet]
    pairs: Pairs
    positive: str
    direction: Recipe | None
    names: Mapping[str, WordSet]
    equalize: Pairs
    specific: WordSet
    source: Source | None
    limits: str
    language: str
    neutral: WordSet
    queries: tuple[Query, ...]
    probes: tuple[str, ...]
    adjectives: Mapping[str, WordSet]
    nouns: Mapping[str, WordSet]

    def __init__(
        self,
        name: str,
        groups: Mapping[str, Words] | None = None,
        pairs: PairList = (),
        positive: str = "",
        direction: Recipe | None = None,
        names: Mapping[str, Words] | None = None,
        equalize: PairList = (),
        specific: Words = (),
        source: Source | None = None,
        limits: str = "",
        *,
        language: str = "en",
        neutral: Words = (),
        queries: Iterable[Query] = (),
        probes: Iterable[str | Path] = (),
        adjectives: Mapping[str, Words] | None = None,
        nouns: Mapping[str, Words] | None = None,
    ) -> None:
        rules_of(language)  # refuses what is not a code
        kept = _groups(groups, pairs, name, source)
        first = positive or next(iter(kept))
        if first not in kept:
            raise UsageError(f"concept {name!r}: positive={positive!r} is none of its groups {list(kept)}")
        poles = _poles(tuple(kept), first)
        vars(self).update(
            name=name,
            groups=kept,
            pairs=_pairs(pairs, f"{name} pairs", poles, source),
            positive=first,
            direction=direction,
            names=_sets(names or {}, f"concept {name!r}: names", source),
            equalize=_pairs(equalize, f"{name} equalize", poles, source),
            specific=specific if isinstance(specific, WordSet) else WordSet(f"{name} specific", specific, source),
            source=source,
            limits=limits,
            language=language,
            neutral=neutral if isinstance(neutral, WordSet) else WordSet(f"{name} neutral", neutral, source),
            queries=tuple(queries),
            probes=tuple(str(probe) for probe in probes),
            adjectives=_sets(adjectives or {}, f"concept {name!r}: adjectives", source),
            nouns=_sets(nouns or {}, f"concept {name!r}: nouns", source),
        )
        for part in (self.names, self.adjectives, self.nouns):
            for group in part:
                if group not in kept:
                    raise UsageError(f"concept {name!r}: {group!r} is none of its groups {list(kept)}")

    @property
    def ordered(self) -> tuple[str, ...]:
        """The groups, the positive one first."""
        return tuple(sorted(self.groups, key=lambda group: group != self.positive))

    def with_questions(self, queries: Iterable[Query], probes: Iterable[str | Path]) -> Concept:
        """Return the same concept with questions of its own."""
        copy = object.__new__(type(self))
        vars(copy).update(vars(self), queries=tuple(queries), probes=tuple(str(probe) for probe in probes))
        return copy

    def restricted(self, first: str, others: Sequence[str], name: str = "") -> Concept:
        """Return the concept of one group against one or several others, for measures of two groups.

        Pairs are kept where one word belongs to each side, the first side first; the published direction is not.

        Args:
            first: the group at the positive end.
            others: the groups of the other end, whose words are joined.
            name: name of the other end; the name of the only other group by default.
        """
        for group in (first, *others):
            if group not in self.groups:
                raise unknown_name(f"group of {self.name}", group, self.groups)
        if not others or first in others:
            raise UsageError(f"{first!r} needs other groups of {self.name!r} to be compared with, got {list(others)}")
        second = name or others[0]
        sides = [_joined(self.groups, (first,)), _joined(self.groups, others)]
        ordered = [(a, b) for a, b in self.pairs if a in sides[0] and b in sides[1]]
        ordered += [(b, a) for a, b in self.pairs if b in sides[0] and a in sides[1]]
        parts = {
            part: {
                end: words
                for end, words in ((first, _joined(lists, (first,))), (second, _joined(lists, others)))
                if words
            }
            for part, lists in (("names", self.names), ("adjectives", self.adjectives), ("nouns", self.nouns))
        }
        return Concept(
            f"{self.name}/{first}-{second}",
            dict(zip((first, second), sides, strict=True)),
            tuple(dict.fromkeys(ordered)),
            first,
            specific=self.specific,
            source=self.source,
            limits=self.limits,
            language=self.language,
            neutral=self.neutral,
            **parts,  # type: ignore[arg-type]
        )

    @cached_property
    def digest(self) -> str:
        """Hash of the words and of the questions that come with them."""
        return digest_of([self.to_dict(), [query.to_dict() for query in self.queries], list(self.probes)])

    def __repr__(self) -> str:
        return f"Concept({self.name!r}, groups: {few(self.groups)}, positive: {self.positive}, {len(self.pairs)} pairs)"

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON, in the form that a word file has."""
        plain: dict[str, object] = {"name": self.name, "positive": self.positive}
        plain |= {part: _plain(getattr(self, part)) for part in ("groups", "names", "pairs", "equalize", "specific")}
        plain["direction"] = self.direction.to_dict() if self.direction else {}
        plain["language"] = self.language if self.language != "en" else ""
        plain |= {part: _plain(getattr(self, part)) for part in ("neutral", "adjectives", "nouns")}
        plain["limits"] = self.limits
        return {key: value for key, value in plain.items() if value} | source_dict(self.source)


def _plain(words: Mapping[str, WordSet] | WordSet | Pairs) -> dict[str, object]:
    """Return a list, or lists by the name of their group, as plain data; nothing where there are no words."""
    if isinstance(words, Mapping):
        return {name: own.to_dict() for name, own in words.items()}
    return words.to_dict() if len(words) else {}


def _groups(
    groups: Mapping[str, Words] | None, pairs: PairList, name: str, source: Source | None
) -> FrozenMap[WordSet]:
    """The groups as given, or the two sides of the pairs when only pairs are given."""
    if not groups:
        known = _pairs(pairs, name, ("first", "second"), source)
        sides = {known.poles[0]: known.first, known.poles[1]: known.second} if len(known) else {}
        groups = {pole: tuple(dict.fromkeys(words)) for pole, words in sides.items()}
    kept = _sets(groups, f"concept {name!r}: groups", source)
    if not kept:
        raise UsageError(f"concept {name!r} has neither groups nor pairs", hint='give groups={"a": [...], "b": [...]}')
    return kept


def _sets(groups: Mapping[str, Words], what: str, source: Source | None) -> FrozenMap[WordSet]:
    if not isinstance(groups, Mapping):
        raise UsageError(f"{what} must map a name to a list of words, got {shown(groups)}")
    kept = {
        name: group if isinstance(group, WordSet) else WordSet(name, group, source) for name, group in groups.items()
    }
    for name, group in kept.items():
        if not len(group):
            raise UsageError(f"{what}: {name!r} is empty")
        require_plain_characters(group, what=f"{what}: {name!r}")
    return FrozenMap(kept)


def _pairs(pairs: PairList, name: str, poles: Sequence[str], source: Source | None) -> Pairs:
    kept = pairs if isinstance(pairs, Pairs) else Pairs(name, pairs, poles, source)
    require_plain_characters(kept.first + kept.second, what=name)
    return kept


def _joined(lists: Mapping[str, WordSet], groups: Iterable[str]) -> tuple[str, ...]:
    """Return the words of some groups together, each once; a group without a list adds none."""
    return tuple(dict.fromkeys(word for group in groups if group in lists for word in lists[group]))


def _poles(groups: tuple[str, ...], positive: str) -> tuple[str, str]:
    """Names of the two ends; with three groups or more a pair has no fixed ends."""
    others = [name for name in groups if name != positive]
    return (positive, others[0]) if len(others) == 1 else ("first", "second")
