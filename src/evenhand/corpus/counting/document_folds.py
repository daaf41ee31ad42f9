"""Counts kept apart for sets of documents, so that documents can be drawn anew without reading them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.counting.accumulators import SparseSum, Sums, sparse_sum
from evenhand.corpus.counting.token_block import Block


@dataclass(frozen=True)
class Parts:
    """For each group a sparse matrix (parts, words) of its company, and how often its words occur: (groups, parts)."""

    company: tuple[Any, ...]
    hits: NDArray[np.int64]

    def widened(self, words: int) -> Parts:
        """The same for so many words."""
        for matrix in self.company:
            matrix.resize((matrix.shape[0], words))
        return self


class PartSums(Sums):
    """Dense sums, and beside them one sparse row for each of `parts` sets of documents, dealt out in turn."""

    by_document = True

    def __init__(self, groups: int, dtype: type, parts: int, first: int) -> None:
        super().__init__(1, groups, dtype)
        self._parts, self._first = parts, first
        self._sparse = [SparseSum(parts) for _ in range(groups)]
        self._hits = np.zeros((groups, parts), dtype=np.int64)

    def add(self, labelling: int, group: int, ids: Rows, weights: NDArray[Any], documents: Rows | None = None) -> None:
        """Credit words with their weights beside a group, in the part that each document belongs to."""
        super().add(labelling, group, ids, weights)
        if documents is not None:
            used = np.flatnonzero(weights)
            self._sparse[group].add(self._part(documents[used]), ids[used], weights[used])

    def add_hits(self, block: Block) -> None:
        """Count the group words of each part."""
        documents = block.document + np.searchsorted(block.ends, block.hits)
        np.add.at(self._hits, (block.labels[0].astype(np.intp), self._part(documents)), 1)

    def by_part(self, words: int) -> Parts:
        """What was counted, `words` wide."""
        return Parts(tuple(sparse.total(words) for sparse in self._sparse), self._hits)

    def _part(self, documents: Rows) -> Rows:
        return (documents + self._first) % self._parts


def merged_parts(total: Parts | None, other: Parts | None, place: Rows) -> Parts | None:
    """The counts of two shards together; word i of the other has the number place[i]."""
    if other is None:
        return None
    moved = Parts(tuple(_moved(matrix, place) for matrix in other.company), other.hits)
    if total is None:
        return moved
    together = tuple(sparse_sum(one, two) for one, two in zip(total.company, moved.company, strict=True))
    return Parts(together, total.hits + other.hits)


def _moved(matrix: Any, place: Rows) -> Any:
    from scipy.sparse import coo_array

    table = matrix.tocoo()
    shape = (matrix.shape[0], int(place.max()) + 1)
    return coo_array((table.data, (table.row, place[table.col])), shape=shape).tocsr()
