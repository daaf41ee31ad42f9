"""A probe as token numbers: phrases grouped by length, subjects by length, common tokens moved to the phrase."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.nli.tokens import Lookup, tokens
from evenhand.words.probes import Probe

Tokens = tuple[int, ...]
FILLERS_AT_ONCE = 512
JOINS = "-'’_"


@dataclass(frozen=True)
class Subjects:
    """Fillers of one side with the same number of tokens: their places in the probe, and their tokens."""

    places: Rows
    tokens: Rows  # (fillers, tokens of each)


@dataclass(frozen=True)
class Shape:
    """Phrases with the same number of shared tokens behind the same determiner, and the subjects that go with them."""

    phrases: Rows
    tokens: Rows  # (phrases, shared tokens)
    premise: tuple[Subjects, ...]
    hypothesis: tuple[Subjects, ...]


def separable(probe: Probe) -> bool:
    """Whether subject and phrase can be told apart token by token: nothing is joined to the slot, as in `{x}'s`."""
    phrases = probe.phrases.all
    apart = all(_open(x.before[-1:]) and _open(x.after[:1]) for x in phrases)
    return apart and all(tokens(x.before + x.after) for x in phrases)


def _open(neighbour: str) -> bool:
    return not neighbour or not (neighbour.isalnum() or neighbour in JOINS)


def shapes(probe: Probe, lookup: Lookup) -> Iterator[Shape]:
    """The probe's phrases by shape."""
    found: dict[tuple[str, int], list[tuple[int, Tokens]]] = defaultdict(list)
    for number, phrase in enumerate(probe.phrases.all):
        shared = lookup.sentence(phrase.before) + lookup.sentence(phrase.after)
        found[phrase.determiner, len(shared)].append((number, shared))
    for (determiner, _), numbered in found.items():
        premise, hypothesis = (
            [lookup.sentence(text) for text in probe.subjects(side, determiner)] for side in ("premise", "hypothesis")
        )
        common = _common([*premise, *hypothesis])
        kept = np.array([shared + common for _, shared in numbered], dtype=np.int64)
        sides = (tuple(by_length([_without(own, common) for own in side])) for side in (premise, hypothesis))
        yield Shape(np.array([number for number, _ in numbered]), kept, *sides)


def _common(subjects: Sequence[Tokens]) -> Tokens:
    """Tokens that every subject of both sides has, such as its determiner; each subject keeps at least one token."""
    shared = Counter(subjects[0])
    for own in subjects[1:]:
        shared &= Counter(own)
    return tuple(shared.elements())[: min(map(len, subjects)) - 1]


def _without(subject: Tokens, common: Tokens) -> Tokens:
    left = Counter(subject) - Counter(common)
    return tuple(left.elements())


def by_length(subjects: Sequence[Tokens], *, at_once: int | None = None) -> Iterator[Subjects]:
    """The subjects of a side in groups of equal length, none of them larger than so many."""
    lengths = np.array([len(own) for own in subjects])
    for length in np.unique(lengths):
        places = np.flatnonzero(lengths == length)
        for some in np.array_split(places, math.ceil(len(places) / (at_once or FILLERS_AT_ONCE))):
            yield Subjects(some, np.array([subjects[place] for place in some], dtype=np.int64))


def renumbered(found: Sequence[Shape]) -> tuple[Rows, list[Shape]]:
    """The rows of all tokens that occur, and the shapes with tokens numbered among these."""
    parts = [shape.tokens for shape in found]
    parts += [subjects.tokens for shape in found for subjects in (*shape.premise, *shape.hypothesis)]
    rows = np.unique(np.concatenate([part.ravel() for part in parts]))

    def number(tokens: Rows) -> Rows:
        return np.asarray(np.searchsorted(rows, tokens), dtype=np.int64)

    def local(side: tuple[Subjects, ...]) -> tuple[Subjects, ...]:
        return tuple(Subjects(subjects.places, number(subjects.tokens)) for subjects in side)

    return rows, [Shape(s.phrases, number(s.tokens), local(s.premise), local(s.hypothesis)) for s in found]
