"""All sentences of a frame with one side's subjects, as the two directions make them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.nli.backend import Array
from evenhand.models.nli.bilstm_forward import BACKWARDS, ONWARDS, PlacedBiLSTM
from evenhand.models.nli.factorised.prefixes import Branching, Frame, Level, Reader, branchings

Tries = tuple[tuple[Branching, ...], tuple[Branching, ...]]  # read onwards and backwards


@dataclass(frozen=True)
class Encoded:
    """Each array is (phrases, subjects, tokens, hidden)."""

    states: Array
    own: Array  # compare's first matrix applied to the states, with its bias
    other: Array  # its half for what is attended to

    def part(self, phrases: slice, subjects: slice) -> Encoded:
        """Some phrases with some subjects."""
        return Encoded(*(array[phrases, subjects] for array in (self.states, self.own, self.other)))


class Encoder:
    """Both directions over the words of a probe."""

    def __init__(self, placed: PlacedBiLSTM, vectors: Array) -> None:
        self.placed = placed
        self.readers = tuple(Reader(placed, direction, vectors) for direction in (ONWARDS, BACKWARDS))
        (_, self.bias), _ = placed.compare

    def tries(self, tokens: Rows) -> Tries:
        """The tries of some subjects, or of phrases without their subjects."""
        put = self.placed.backend.put
        return branchings(tokens, put), branchings(tokens[:, ::-1], put)

    def frames(self, before: Rows, after: Rows) -> tuple[Frame, Frame]:
        """Phrases that still lack their subjects: read onwards, and backwards."""
        onwards, backwards = self.tries(np.concatenate([before, after], axis=1))
        cut, turned = before.shape[1], after.shape[1]
        return Frame(onwards[:cut], (), onwards[cut:]), Frame(backwards[:turned], (), backwards[turned:])

    def __call__(self, frames: tuple[Frame, Frame], subjects: Rows) -> Encoded:
        """Every phrase with every subject, (subjects, tokens)."""
        tries = self.tries(subjects)
        onwards, backwards = (frame._replace(subject=trie) for frame, trie in zip(frames, tries, strict=True))
        found = self._empty((*onwards.before, *onwards.after), subjects)
        half = self.placed.half
        for place, level in enumerate(self.readers[ONWARDS].read(onwards)):
            states, own, other = _spread(level)
            found.states[:, :, place, :half] = states
            found.own[:, :, place] = own + self.bias
            found.other[:, :, place] = other
        for place, level in enumerate(self.readers[BACKWARDS].read(backwards), start=1):
            states, own, other = _spread(level)
            found.states[:, :, -place, half:] = states
            found.own[:, :, -place] += own
            found.other[:, :, -place] += other
        return found

    def _empty(self, around: tuple[Branching, ...], subjects: Rows) -> Encoded:
        shape = len(around[0].reached), len(subjects), len(around) + subjects.shape[1], self.placed.hidden
        return Encoded(*(self.placed.backend.empty(shape) for _ in range(3)))


def _spread(level: Level) -> tuple[Array, ...]:
    """The distinct states of one place, given to all sentences that have them; one for all is left to broadcasting."""
    tables: tuple[Array, ...] = level.hidden, level.own, level.other
    for axis, branching in enumerate(level.reached):
        if branching is not None and not branching.alone and tables[0].shape[axis] > 1:
            tables = tuple(table.index_select(axis, branching.reached) for table in tables)
    return tables
