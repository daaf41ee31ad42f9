"""Exact co-occurrence weights of every word with each group: a fixed window by prefix sums, or a decay.

Fixed window: a hit at position p adds 1 to the positions p-k ... p+k of its document. Adding +1 where that stretch
begins and -1 behind its end, the running sum gives the count at every position; a hit does not count for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows, Vector64

if TYPE_CHECKING:
    from scipy.sparse import csr_array


Labels: TypeAlias = NDArray[np.int8]  # (labellings, hits): the group of each hit


@dataclass(frozen=True)
class TokenBlock:
    """Token ids in order; id 0 closes a document, `hits` are the positions of group words.

    `labels` holds one labelling, the true one, or several if labels are shuffled. `document` is the number of the
    document in which the block begins, and `offset` the number of tokens of that document before the block.
    """

    ids: Rows
    ends: Rows
    hits: Rows
    labels: Labels
    document: int = 0
    offset: int = 0

    @property
    def open_from(self) -> int:
        """Position at which the document begins that the block does not close."""
        return int(self.ends[-1]) + 1 if len(self.ends) else 0

    def units(self, positions: Rows, length: int) -> Rows:
        """Return the resampling unit of each position: its document, or its stretch of `length` tokens of that."""
        index = np.searchsorted(self.ends, positions)
        starts = np.concatenate([[-self.offset], self.ends + 1])[index]
        return np.asarray(self.document + index + (positions - starts) // length, dtype=np.int64)

    def after(self, other: TokenBlock) -> TokenBlock:
        """Return the other block followed by this one."""
        shift = len(other.ids)
        return TokenBlock(
            np.concatenate([other.ids, self.ids]),
            np.concatenate([other.ends, self.ends + shift]),
            np.concatenate([other.hits, self.hits + shift]),
            np.concatenate([other.labels, self.labels], axis=1),
            other.document if shift else self.document,
            other.offset if shift else self.offset,
        )

    def tail(self, start: int) -> TokenBlock:
        """Return the open document from a position on."""
        later = np.searchsorted(self.hits, start)
        hits, labels = self.hits[later:] - start, self.labels[:, later:]
        offset = start - self.open_from if len(self.ends) else start + self.offset
        return TokenBlock(self.ids[start:], self.ends[:0], hits, labels, self.document + len(self.ends), offset)


def empty_block(labellings: int) -> TokenBlock:
    """Return a block without tokens."""
    none = np.empty(0, dtype=np.intp)
    return TokenBlock(none, none, none, np.empty((labellings, 0), dtype=np.int8))


def blocks(ids: Iterator[Rows], groups: Labels) -> Iterator[TokenBlock]:
    """Yield blocks from arrays of token ids in which the group words have the ids 1, 2, ...

    `groups[id - 1]` is the group of such a word. One comparison finds hits and ends because both have small ids.
    """
    document = offset = 0
    for part in ids:
        low = np.flatnonzero(part <= len(groups))
        numbers = part[low]
        ends, hits = low[numbers == 0], low[numbers > 0]
        yield TokenBlock(part, ends, hits, groups[numbers[numbers > 0] - 1][None], document, offset)
        document += len(ends)
        offset = len(part) - int(ends[-1]) - 1 if len(ends) else offset + len(part)


SparseMatrix: TypeAlias = "csr_array"
Table: TypeAlias = NDArray[np.int64] | NDArray[np.float64]  # counts, or sums of weights


class Sink(Protocol):
    """Receives the weights of words near a group."""

    unit: int
    """Tokens of a resampling unit, or 0 if the sink does not need unit numbers."""

    def add(self, labelling: int, group: int, ids: Rows, weights: Table, units: Rows | None) -> None:
        """Add weights to words near a group."""


class Sums:
    """Dense sums (labellings, groups, words) that grow with the vocabulary; integer counts stay integers."""

    unit = 0

    def __init__(self, labellings: int, groups: int, dtype: type[np.int64] | type[np.float64]) -> None:
        self.values = cast(Table, np.zeros((labellings, groups, 1 << 12), dtype=dtype))

    def make_room(self, words: int) -> None:
        """Grow until word ids below `words` fit."""
        size = self.values.shape[2]
        if words > size:
            more = max(words, 2 * size) - size
            self.values = cast(Table, np.pad(self.values, ((0, 0), (0, 0), (0, more))))

    def add(self, labelling: int, group: int, ids: Rows, weights: Table, units: Rows | None = None) -> None:
        """Add weights to words near a group."""
        np.add.at(self.values[labelling, group], ids, weights)


class SparseSum:
    """A sum of many small sparse matrices, merged by size so that each entry is copied O(log n) times."""

    def __init__(self, rows: int | None = None) -> None:
        self._rows = rows
        self._levels: list[SparseMatrix] = []

    def add(self, rows: Rows, columns: Rows, values: Table) -> None:
        """Add values at positions, which may repeat."""
        from scipy.sparse import coo_array

        if not len(values):
            return
        width = int(columns.max()) + 1
        height = self._rows or max(width, int(rows.max()) + 1)
        matrix = coo_array((values.astype(np.float64), (rows, columns)), shape=(height, width)).tocsr()
        self._levels.append(matrix)
        while len(self._levels) > 1 and self._levels[-2].nnz < 2 * self._levels[-1].nnz:
            last = self._levels.pop()
            self._levels.append(sparse_sum(self._levels.pop(), last))

    def total(self, columns: int) -> SparseMatrix:
        """Return the sum with `columns` columns; square unless the number of rows is fixed."""
        from scipy.sparse import csr_array

        total = csr_array((self._rows or columns, columns), dtype=np.float64)
        for level in self._levels:
            total = sparse_sum(total, level)
        return total


def sparse_sum(one: SparseMatrix, other: SparseMatrix) -> SparseMatrix:
    """Return the sum of two sparse matrices, padded to the larger shape."""
    shape = tuple(map(max, one.shape, other.shape))
    one.resize(shape)
    other.resize(shape)
    return one + other


@dataclass(frozen=True)
class FoldCounts:
    """For each group a sparse matrix (folds, words) of co-occurrences, and the hits of its words: (groups, folds)."""

    cooccurrence: tuple[SparseMatrix, ...]
    hits: NDArray[np.int64]

    def widened(self, words: int) -> FoldCounts:
        """Resize the matrices to `words` columns."""
        for matrix in self.cooccurrence:
            matrix.resize((matrix.shape[0], words))
        return self


class FoldSums(Sums):
    """Dense sums, and one sparse row for each fold; resampling units are assigned to folds in turn.

    A unit is a document, or a stretch of `unit` tokens of a longer document.
    """

    def __init__(
        self, groups: int, dtype: type[np.int64] | type[np.float64], *, folds: int, first: int, unit: int
    ) -> None:
        super().__init__(1, groups, dtype)
        self.unit = unit
        self._folds, self._first = folds, first
        self._sparse = [SparseSum(folds) for _ in range(groups)]
        self._hits = np.zeros((groups, folds), dtype=np.int64)

    def add(self, labelling: int, group: int, ids: Rows, weights: Table, units: Rows | None = None) -> None:
        """Add weights to words near a group, in total and in the fold of each unit."""
        super().add(labelling, group, ids, weights)
        if units is not None:
            used = np.flatnonzero(weights)
            self._sparse[group].add(self._fold(units[used]), ids[used], weights[used])

    def add_hits(self, block: TokenBlock) -> None:
        """Count the group words of each fold."""
        units = block.units(block.hits, self.unit)
        np.add.at(self._hits, (block.labels[0].astype(np.intp), self._fold(units)), 1)

    def by_fold(self, words: int) -> FoldCounts:
        """Return the counts with `words` columns."""
        return FoldCounts(tuple(sparse.total(words) for sparse in self._sparse), self._hits)

    def _fold(self, units: Rows) -> Rows:
        return (units + self._first) % self._folds


def merge_folds(total: FoldCounts | None, other: FoldCounts | None, ids: Rows) -> FoldCounts | None:
    """Return the counts of two shards together; word i of the other has the id ids[i]."""
    if other is None:
        return None
    renumbered = FoldCounts(tuple(_renumber(matrix, ids) for matrix in other.cooccurrence), other.hits)
    if total is None:
        return renumbered
    both = zip(total.cooccurrence, renumbered.cooccurrence, strict=True)
    return FoldCounts(tuple(sparse_sum(one, two) for one, two in both), total.hits + other.hits)


def _renumber(matrix: SparseMatrix, ids: Rows) -> SparseMatrix:
    from scipy.sparse import coo_array

    table = matrix.tocoo()
    shape = (matrix.shape[0], int(ids.max()) + 1)
    return coo_array((table.data, (table.row, ids[table.col])), shape=shape).tocsr()


class FixedWindow:
    """Add the counts of each block to a sink; a document may span any number of blocks."""

    dtype = np.int64

    def __init__(self, window: int, groups: int, labellings: int = 1) -> None:
        self._window, self._groups = window, groups
        self._tail, self._credited = empty_block(labellings), 0

    def feed(self, block: TokenBlock, sink: Sink) -> None:
        """Credit every word whose whole window has been read; keep the rest of the open document."""
        joined = block.after(self._tail)
        stop = max(joined.open_from, len(joined.ids) - self._window)
        begin = self._credited
        low, high = stretches(joined, self._window)
        for labelling, labels in enumerate(joined.labels):
            for group in range(self._groups):
                chosen = labels == group
                counts = _coverage(low[chosen], high[chosen], len(joined.ids))
                counts[joined.hits[chosen]] -= 1
                near = begin + np.flatnonzero(counts[begin:stop] != 0)
                units = joined.units(near, sink.unit) if sink.unit else None
                sink.add(labelling, group, joined.ids.take(near), counts.take(near), units)
        tail_start = max(joined.open_from, stop - self._window)
        self._tail, self._credited = joined.tail(tail_start), stop - tail_start


def stretches(block: TokenBlock, window: int) -> tuple[Rows, Rows]:
    """Return where the window of each hit begins and ends inside its document."""
    index = np.searchsorted(block.ends, block.hits)
    first = np.concatenate([[0], block.ends + 1])[index]
    behind = np.append(block.ends, len(block.ids))[index]
    return np.maximum(block.hits - window, first), np.minimum(block.hits + window + 1, behind)


def _coverage(low: Rows, high: Rows, length: int) -> Rows:
    """Return how many stretches cover each position."""
    steps = np.zeros(length + 1, dtype=np.int64)
    np.add.at(steps, low, 1)
    np.add.at(steps, high, -1)
    return np.cumsum(steps[:-1], out=steps[:-1])


class Decay:
    """Add the weights decay^distance of each block to a sink; a document may span any number of blocks."""

    dtype = np.float64

    def __init__(self, base: float, groups: int, labellings: int = 1) -> None:
        self._base = base
        self._left = np.zeros((labellings, groups))
        # Ids, weights at the start of the next block, and units of the words of the open document.
        none = np.empty(0, dtype=np.intp)
        self._waiting: tuple[Rows, Vector64, Rows] = (none, np.empty(0), none)
        self._powers: Vector64 = np.ones(1)

    def feed(self, block: TokenBlock, sink: Sink) -> None:
        """Credit the words of the block, and earlier words of the same document with the hits of the block."""
        length = len(block.ids)
        if length >= len(self._powers):
            self._powers = np.power(self._base, np.arange(2.0 * length))
        units = block.units(np.arange(length), sink.unit) if sink.unit else None
        first_end = block.ends[0] if len(block.ends) else length
        for labelling, group in np.ndindex(self._left.shape):
            hits = block.hits[block.labels[labelling] == group]
            self._credit_waiting(labelling, group, hits[hits < first_end], sink)
            before, after = self._both_sides(hits, block, (labelling, group))
            weights = before + after
            weights[block.ends] = 0
            sink.add(labelling, group, block.ids, weights, units)
        self._wait(block, units)

    def _credit_waiting(self, labelling: int, group: int, hits: Rows, sink: Sink) -> None:
        ids, powers, units = self._waiting
        if len(ids) and len(hits):
            sink.add(labelling, group, ids, powers * self._powers[hits].sum(), units if sink.unit else None)

    def _both_sides(self, hits: Rows, block: TokenBlock, state: tuple[int, ...]) -> tuple[Vector64, Vector64]:
        length = len(block.ids)
        before, self._left[state] = self._from_left(hits, block.ends, length, float(self._left[state]))
        mirrored = (length - 1 - hits[::-1], length - 1 - block.ends[::-1])
        after, _ = self._from_left(*mirrored, length, 0.0)
        return before, after[::-1]

    def _from_left(self, hits: Rows, ends: Rows, length: int, entering: float) -> tuple[Vector64, float]:
        """Return L at each position and behind the last one; `entering` is L at position 0."""
        events = np.concatenate([hits, ends])
        order = np.argsort(events, kind="stable")
        strengths = np.concatenate([self._strengths(hits, ends, entering), np.zeros(len(ends))])[order]
        positions = np.concatenate([[0], events[order]])
        strengths = np.concatenate([[entering], strengths])
        # An event counts from the position after it; what enters counts from position 0.
        begins = np.concatenate([[0], positions[1:] + 1, [length]])
        spans = np.diff(begins)
        distance = np.arange(length) - np.repeat(positions, spans)
        return np.repeat(strengths, spans) * self._powers[distance], float(
            strengths[-1] * self._powers[length - positions[-1]]
        )

    def _strengths(self, hits: Rows, ends: Rows, entering: float) -> Vector64:
        """Return 1 + L at each hit: the recursion from hit to hit, restarted at document ends."""
        document = np.searchsorted(ends, hits)
        same = document == np.concatenate([[0], document[:-1]]) if len(hits) else np.empty(0, dtype=bool)
        ratios = np.where(same, self._powers[hits - np.concatenate([[0], hits[:-1]])] if len(hits) else 0.0, 0.0)
        run = accumulate(ratios.tolist(), lambda strength, ratio: 1.0 + strength * ratio, initial=entering)
        return np.fromiter(run, dtype=np.float64, count=len(hits) + 1)[1:]

    def _wait(self, block: TokenBlock, units: Rows | None) -> None:
        """Keep the weights that words of the open document give to hits of later blocks, summed by word and unit."""
        length, start = len(block.ids), block.open_from
        ids, powers = block.ids[start:], self._powers[length - np.arange(start, length)]
        labels = np.zeros(len(ids), dtype=np.int64) if units is None else units[start:]
        if not len(block.ends) and len(self._waiting[0]):
            ids = np.concatenate([self._waiting[0], ids])
            powers = np.concatenate([self._waiting[1] * self._powers[length], powers])
            labels = np.concatenate([self._waiting[2], labels])
        lowest, width = int(labels[0]) if len(labels) else 0, int(ids.max(initial=0)) + 1  # units never decrease
        if units is None:
            sums = np.bincount(ids, weights=powers, minlength=1).astype(np.float64)
            words = np.flatnonzero(sums)
            self._waiting = (words, sums[words], np.zeros(len(words), dtype=np.int64))
            return
        keys, inverse = np.unique((labels - lowest) * width + ids, return_inverse=True)
        sums = np.bincount(inverse, weights=powers, minlength=len(keys)).astype(np.float64)
        used = np.flatnonzero(sums)
        self._waiting = (keys[used] % width, sums[used], keys[used] // width + lowest)
