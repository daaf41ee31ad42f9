"""Reading many sentences in one direction, each distinct beginning once.

The sentences of a frame are a product: what is read of them so far is one of the distinct beginnings of the phrases,
and one of the distinct beginnings of the subjects. Before the subject all sentences of a phrase are one, behind it
phrases with the same first words are one: the states form a trie, which is walked level by level. The other direction
is the same with the columns turned round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.nli.backend import Array
from evenhand.models.nli.bilstm_forward import PlacedBiLSTM, step


class Branching(NamedTuple):
    """From the distinct beginnings before a column of tokens to those with it."""

    parent: Array | None  # of each new beginning; none where it needs no moving: one for all, or each its own
    word: Array
    reached: Array  # (rows,): the new beginning of each row
    alone: bool  # whether each row has one of its own; the rows are then numbered as they are


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
