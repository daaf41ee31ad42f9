"""Encode all sentences of a frame with one side's subjects, sharing the states of common beginnings and ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.nli.backend import Array
from evenhand.models.nli.bilstm import BACKWARD, FORWARD, BiLSTMWeights, lstm_step


class Branching(NamedTuple):
    """One level of a trie: how distinct prefixes grow by a column of tokens."""

    parent: Array | None  # parent of each new prefix; None if no state needs moving: one for all, or one each
    word: Array
    reached: Array  # (rows,): the new prefix of each row
    alone: bool  # True if each row has a prefix of its own; prefixes are then numbered like the rows


Tries = tuple[tuple[Branching, ...], tuple[Branching, ...]]  # read forward and backward


@dataclass(frozen=True)
class EncodedSentences:
    """States (phrases, tokens, subjects, width) and their products (phrases, tokens, subjects, hidden).

    Tokens come before subjects, so that a sum over tokens adds long rows.
    """

    states: Array
    own: Array  # compare's first matrix applied to the states, with its bias
    other: Array  # its half for attended tokens

    def part(self, phrases: slice, subjects: slice) -> EncodedSentences:
        """Return some phrases with some subjects."""
        return EncodedSentences(*(array[phrases, :, subjects] for array in (self.states, self.own, self.other)))


class SentenceEncoding:
    """Both directions of the LSTM over the words of a probe."""

    def __init__(self, weights: BiLSTMWeights, vectors: Array) -> None:
        self.weights = weights
        self.readers = tuple(DirectionReader(weights, direction, vectors) for direction in (FORWARD, BACKWARD))
        (_, self.bias), _ = weights.compare

    def tries(self, tokens: Rows) -> Tries:
        """Return the tries of some subjects, or of phrases without their subjects."""
        put = self.weights.backend.put
        return build_trie(tokens, put), build_trie(tokens[:, ::-1], put)

    def frames(self, before: Rows, after: Rows) -> tuple[SentenceTries, SentenceTries]:
        """Return the tries of phrases without their subjects, read forward and backward."""
        forward, backward = self.tries(np.concatenate([before, after], axis=1))
        cut, turn = before.shape[1], after.shape[1]
        return SentenceTries(forward[:cut], (), forward[cut:]), SentenceTries(backward[:turn], (), backward[turn:])

    def __call__(self, frames: tuple[SentenceTries, SentenceTries], subjects: Rows) -> EncodedSentences:
        """Encode every phrase with every subject; `subjects` is (subjects, tokens)."""
        tries = self.tries(subjects)
        forward, backward = (frame._replace(subject=trie) for frame, trie in zip(frames, tries, strict=True))
        encoded = self._empty((*forward.before, *forward.after), subjects)
        half = self.weights.half
        for token, level in enumerate(self.readers[FORWARD].read(forward)):
            states, own, other = _expand_level(level)
            encoded.states[:, token, :, :half] = states
            encoded.own[:, token] = own + self.bias
            encoded.other[:, token] = other
        for token, level in enumerate(self.readers[BACKWARD].read(backward), start=1):
            states, own, other = _expand_level(level)
            encoded.states[:, -token, :, half:] = states
            encoded.own[:, -token] += own
            encoded.other[:, -token] += other
        return encoded

    def _empty(self, around: tuple[Branching, ...], subjects: Rows) -> EncodedSentences:
        shape = len(around[0].reached), len(around) + subjects.shape[1], len(subjects), self.weights.hidden
        return EncodedSentences(*(self.weights.backend.empty(shape) for _ in range(3)))


def _expand_level(level: Level) -> tuple[Array, ...]:
    """Give the distinct states of one position to all sentences that share them; a single one is broadcast."""
    tables: tuple[Array, ...] = level.hidden, level.own, level.other
    for axis, branching in enumerate(level.reached):
        if branching is not None and not branching.alone and tables[0].shape[axis] > 1:
            tables = tuple(table.index_select(axis, branching.reached) for table in tables)
    return tables


def build_trie(tokens: Rows, put: Callable[[Rows], Array]) -> tuple[Branching, ...]:
    """Return the trie of (rows, tokens), one level per column."""
    reached, prefixes = np.zeros(len(tokens), np.int64), 1
    levels = []
    for column in tokens.T:
        first, following = _distinct(reached * (tokens.max() + 1) + column)
        branches = 1 < prefixes < len(first)
        parent = put(reached[first]) if branches else None
        levels.append(Branching(parent, put(column[first]), put(following), len(first) == len(tokens)))
        reached, prefixes = following, len(first)
    return tuple(levels)


def _distinct(keys: Rows) -> tuple[Rows, Rows]:
    """Return the first index of each distinct key, and every key's number among them in order of appearance."""
    _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[numbers]


class SentenceTries(NamedTuple):
    """The tries of phrases (before and after the subject) and of subjects, in reading order."""

    before: tuple[Branching, ...]
    subject: tuple[Branching, ...]
    after: tuple[Branching, ...]


class Level(NamedTuple):
    """The states at one position, (phrase prefixes, subject prefixes, ...), and the trie levels that led to them."""

    hidden: Array
    own: Array  # this direction's part of compare's first matrix, for the token itself
    other: Array  # the same for an attended token
    reached: tuple[Branching | None, Branching | None]  # of phrases and subjects; None before the first token


class DirectionReader:
    """One direction of the LSTM over the words of a probe.

    The next gates and compare's first layer are both linear in a state. Their matrices are concatenated, so that a
    state is multiplied once.
    """

    def __init__(self, weights: BiLSTMWeights, direction: int, vectors: Array) -> None:
        (compare, _), _ = weights.compare
        own, other = (
            compare[start : start + weights.half]
            for start in (direction * weights.half, weights.hidden + direction * weights.half)
        )
        self.half, self.widths = weights.half, (4 * weights.half, weights.hidden, weights.hidden)
        self.projection = weights.torch.cat([weights.recurrent[direction], own, other], 1)
        self.inputs = vectors @ weights.input[direction] + weights.bias[direction]

    def read(self, frame: SentenceTries) -> Iterator[Level]:
        """Yield a level for each token of the sentences."""
        cell = self.inputs.new_zeros(1, 1, self.half)
        sums = self.inputs.new_zeros(1, 1, 4 * self.half)
        reached: list[Branching | None] = [None, None]
        parts = ((0, frame.before), (1, frame.subject), (0, frame.after))
        steps = [(axis, branching) for axis, part in parts for branching in part]
        for step, (axis, branching) in enumerate(steps, start=1):
            if branching.parent is not None:
                sums, cell = (state.index_select(axis, branching.parent) for state in (sums, cell))
            hidden, cell = lstm_step(sums + self.inputs[branching.word].unsqueeze(1 - axis), cell)
            if step < len(steps):
                sums, own, other = (hidden @ self.projection).split(self.widths, -1)
            else:  # no gates follow
                own, other = (hidden @ self.projection[:, self.widths[0] :]).split(self.widths[1:], -1)
            reached[axis] = branching
            yield Level(hidden, own, other, (reached[0], reached[1]))
