"""Accumulators for counts: dense sums for each word, and a growing sparse matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.counting.token_block import TokenBlock

if TYPE_CHECKING:
    from scipy.sparse import csr_array


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
