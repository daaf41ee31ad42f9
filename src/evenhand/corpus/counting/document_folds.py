"""Counts kept separately for folds of the text, so that it can be resampled without reading it again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.counting.accumulators import SparseMatrix, SparseSum, Sums, Table, sparse_sum
from evenhand.corpus.counting.token_block import TokenBlock


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
