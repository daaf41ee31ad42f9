"""All sentences of a frame with one side's subjects, as the two directions make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.nli.backend import Array
from evenhand.models.nli.bilstm_network import BACKWARDS, ONWARDS, PlacedBiLSTM, step


class Branching(NamedTuple):
    """From the distinct beginnings before a column of tokens to those with it."""

    parent: Array | None  # of each new beginning; none where it needs no moving: one for all, or each its own
    word: Array
    reached: Array  # (rows,): the new beginning of each row
    alone: bool  # whether each row has one of its own; the rows are then numbered as they are


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


def branchings(tokens: Rows, put: Callable[[Rows], Array]) -> tuple[Branching, ...]:
    """The trie of the rows of (rows, tokens), a level for each column."""
    reached, beginnings = np.zeros(len(tokens), np.int64), 1
    found = []
    for column in tokens.T:
        first, following = _distinct(reached * (tokens.max() + 1) + column)
        grown = 1 < beginnings < len(first)
        parent = put(reached[first]) if grown else None
        found.append(Branching(parent, put(column[first]), put(following), len(first) == len(tokens)))
        reached, beginnings = following, len(first)
    return tuple(found)


def _distinct(keys: Rows) -> tuple[Rows, Rows]:
    """Where each distinct key stands first, and the number of every key among them, counted in order of appearance."""
    _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[numbers]


class Frame(NamedTuple):
    """The tries of phrases (before and after the subject) and of subjects, in the order of reading."""

    before: tuple[Branching, ...]
    subject: tuple[Branching, ...]
    after: tuple[Branching, ...]


class Level(NamedTuple):
    """The states at one place, (phrase beginnings, subject beginnings, ...), and how they were reached."""

    hidden: Array
    own: Array  # this direction's part of compare's first matrix, for the token itself
    other: Array  # the same for a token that is attended to
    reached: tuple[Branching | None, Branching | None]  # for phrases and subjects; none where nothing is read yet


class Reader:
    """One direction of the LSTM over the words of a probe.

    What is next needed of a state is linear in it: its part in the next gates and in compare's first layer. Both
    matrices lie side by side, so that a state is multiplied once.
    """

    def __init__(self, placed: PlacedBiLSTM, direction: int, vectors: Array) -> None:
        (compare, _), _ = placed.compare
        own, other = (
            compare[start : start + placed.half]
            for start in (direction * placed.half, placed.hidden + direction * placed.half)
        )
        self.half, self.widths = placed.half, (4 * placed.half, placed.hidden, placed.hidden)
        self.onward = placed.torch.cat([placed.recurrent[direction], own, other], 1)
        self.inputs = vectors @ placed.input[direction] + placed.bias[direction]

    def read(self, frame: Frame) -> Iterator[Level]:
        """A level for each token of the sentences."""
        cell = self.inputs.new_zeros(1, 1, self.half)
        sums = self.inputs.new_zeros(1, 1, 4 * self.half)
        reached: list[Branching | None] = [None, None]
        parts = ((0, frame.before), (1, frame.subject), (0, frame.after))
        for axis, branching in ((axis, branching) for axis, part in parts for branching in part):
            if branching.parent is not None:
                sums, cell = (kept.index_select(axis, branching.parent) for kept in (sums, cell))
            hidden, cell = step(sums + self.inputs[branching.word].unsqueeze(1 - axis), cell)
            sums, own, other = (hidden @ self.onward).split(self.widths, -1)
            reached[axis] = branching
            yield Level(hidden, own, other, (reached[0], reached[1]))
