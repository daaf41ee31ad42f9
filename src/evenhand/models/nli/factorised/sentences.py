"""A probe as token numbers in their order: what a model reads that a word's place matters to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.nli.factorised.layout import Subjects, Tokens, by_length
from evenhand.models.nli.tokens import Lookup
from evenhand.words.probes import Probe


@dataclass(frozen=True)
class Frames:
    """Phrases with the same number of tokens before and after the same determiner, and the subjects between them."""

    phrases: Rows
    before: Rows  # (phrases, tokens)
    after: Rows
    premise: tuple[Subjects, ...]
    hypothesis: tuple[Subjects, ...]


@dataclass(frozen=True)
class Sentences:
    """All frames of a probe, their tokens numbered among `rows`, the table's rows that occur."""

    rows: Rows
    frames: tuple[Frames, ...]


def sentences(probe: Probe, lookup: Lookup, *, null: bool, subjects: int) -> Sentences:
    """The probe's sentences, at most so many subjects in a group.

    With `null`, one token more, numbered after all words, stands in front of each.
    """
    found = list(_frames(probe, lookup, subjects))
    parts = [part for frames in found for part in (frames.before, frames.after)]
    parts += [group.tokens for frames in found for group in (*frames.premise, *frames.hypothesis)]
    rows = np.unique(np.concatenate([part.ravel() for part in parts]))
    return Sentences(rows, tuple(_renumbered(frames, rows, null=null) for frames in found))


def _frames(probe: Probe, lookup: Lookup, subjects: int) -> Iterator[Frames]:
    shaped: dict[tuple[str, int, int], list[tuple[int, Tokens, Tokens]]] = defaultdict(list)
    for number, phrase in enumerate(probe.phrases.all):
        before, after = lookup.sentence(phrase.before), lookup.sentence(phrase.after)
        shaped[phrase.determiner, len(before), len(after)].append((number, before, after))
    for (determiner, _, _), listed in shaped.items():
        numbers, befores, afters = zip(*listed, strict=True)
        sides = (
            tuple(by_length([lookup.sentence(text) for text in probe.subjects(side, determiner)], at_once=subjects))
            for side in ("premise", "hypothesis")
        )
        yield Frames(np.array(numbers), _matrix(befores), _matrix(afters), *sides)


def _matrix(tokens: Sequence[Tokens]) -> Rows:
    return np.array(tokens, dtype=np.int64).reshape(len(tokens), -1)


def _renumbered(frames: Frames, rows: Rows, *, null: bool) -> Frames:
    def number(tokens: Rows) -> Rows:
        return np.asarray(np.searchsorted(rows, tokens), dtype=np.int64)

    def side(given: tuple[Subjects, ...]) -> tuple[Subjects, ...]:
        return tuple(Subjects(group.places, number(group.tokens)) for group in given)

    before = number(frames.before)
    front = np.full((len(before), int(null)), len(rows), dtype=np.int64)
    return Frames(
        frames.phrases,
        np.concatenate([front, before], axis=1),
        number(frames.after),
        side(frames.premise),
        side(frames.hypothesis),
    )
