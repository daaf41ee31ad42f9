"""A probe as token rows: phrases and subjects grouped by length, common tokens moved to the phrase."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.nli.over_vectors import Lookup
from evenhand.models.tokenizing import tokens
from evenhand.words.probes import Probe

Tokens = tuple[int, ...]
FILLERS_AT_ONCE = 512
JOINS = "-'’_"


class SentenceLookup(Protocol):
    """Numbers the tokens of sentences."""

    def sentence(self, text: str) -> Tokens:
        """Return the rows of a sentence's tokens."""


@dataclass(frozen=True)
class Subjects:
    """Fillers of one side with the same number of tokens: their indices in the probe, and their tokens."""

    fillers: Rows
    tokens: Rows  # (fillers, tokens of each)


@dataclass(frozen=True)
class PhraseShape:
    """Phrases with the same determiner and number of shared tokens, and the subjects that go with them."""

    phrases: Rows
    tokens: Rows  # (phrases, shared tokens)
    premise: tuple[Subjects, ...]
    hypothesis: tuple[Subjects, ...]


def is_separable(probe: Probe) -> bool:
    """Return whether subject and phrase have separate tokens: nothing is joined to the slot, as in `{x}'s`."""
    phrases = probe.phrases.all
    apart = all(_open(x.before[-1:]) and _open(x.after[:1]) for x in phrases)
    return apart and all(tokens(x.before + x.after) for x in phrases)


def _open(neighbour: str) -> bool:
    return not neighbour or not (neighbour.isalnum() or neighbour in JOINS)


def phrase_shapes(probe: Probe, lookup: Lookup) -> Iterator[PhraseShape]:
    """Yield the phrases of a probe grouped by shape."""
    groups: dict[tuple[str, int], list[tuple[int, Tokens]]] = defaultdict(list)
    for number, phrase in enumerate(probe.phrases.all):
        shared = lookup.sentence(phrase.before) + lookup.sentence(phrase.after)
        groups[phrase.determiner, len(shared)].append((number, shared))
    for (determiner, _), phrases in groups.items():
        premise, hypothesis = (
            [lookup.sentence(text) for text in probe.subjects(side, determiner)] for side in ("premise", "hypothesis")
        )
        common = _common([*premise, *hypothesis])
        rows = np.array([shared + common for _, shared in phrases], dtype=np.int64)
        sides = (tuple(by_length([_without(own, common) for own in side])) for side in (premise, hypothesis))
        yield PhraseShape(np.array([number for number, _ in phrases]), rows, *sides)


def _common(subjects: Sequence[Tokens]) -> Tokens:
    """Return the tokens that all subjects of both sides share, such as a determiner, leaving each at least one."""
    shared = Counter(subjects[0])
    for own in subjects[1:]:
        shared &= Counter(own)
    return tuple(shared.elements())[: min(map(len, subjects)) - 1]


def _without(subject: Tokens, common: Tokens) -> Tokens:
    left = Counter(subject) - Counter(common)
    return tuple(left.elements())


def by_length(subjects: Sequence[Tokens], *, at_once: int | None = None) -> Iterator[Subjects]:
    """Yield the subjects of a side in groups of equal length, with at most `at_once` in a group."""
    lengths = np.array([len(own) for own in subjects])
    for length in np.unique(lengths):
        fillers = np.flatnonzero(lengths == length)
        for group in np.array_split(fillers, math.ceil(len(fillers) / (at_once or FILLERS_AT_ONCE))):
            yield Subjects(group, np.array([subjects[filler] for filler in group], dtype=np.int64))


def cut_blocks(phrases: int, subjects: int, *, each: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of phrases x subjects with at most `most` rows, `each` for a subject in a phrase.

    A single subject with more rows than that is a block of its own.
    """
    few = max(1, min(phrases, most // (subjects * each)))
    parts = 1 if few > 1 else math.ceil(subjects / max(1, most // each))
    some = math.ceil(subjects / parts)
    for start in range(0, phrases, few):
        for first in range(0, subjects, some):
            yield slice(start, start + few), slice(first, first + some)


def renumber(shapes: Sequence[PhraseShape]) -> tuple[Rows, list[PhraseShape]]:
    """Return the rows of all tokens that occur, and the shapes with tokens numbered among them."""
    parts = [shape.tokens for shape in shapes]
    parts += [subjects.tokens for shape in shapes for subjects in (*shape.premise, *shape.hypothesis)]
    rows = np.unique(np.concatenate([part.ravel() for part in parts]))

    def number(tokens: Rows) -> Rows:
        return np.asarray(np.searchsorted(rows, tokens), dtype=np.int64)

    def local(side: tuple[Subjects, ...]) -> tuple[Subjects, ...]:
        return tuple(Subjects(subjects.fillers, number(subjects.tokens)) for subjects in side)

    return rows, [PhraseShape(s.phrases, number(s.tokens), local(s.premise), local(s.hypothesis)) for s in shapes]
