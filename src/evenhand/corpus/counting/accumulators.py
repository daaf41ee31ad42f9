"""Where counts are added up: dense sums for each word, and a sparse matrix that grows."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows


class Sink(Protocol):
    """Takes the weights of words; `documents` only where `by_document` asks for them."""

    by_document: bool

    def add(self, labelling: int, group: int, ids: Rows, weights: NDArray[Any], documents: Rows | None) -> None:
        """Credit words with their weights beside a group."""


class Sums:
    """Dense sums (labellings, groups, words) that grow with the vocabulary; whole numbers stay whole."""

    by_document = False

    def __init__(self, labellings: int, groups: int, dtype: type) -> None:
        self.values: NDArray[Any] = np.zeros((labellings, groups, 1 << 12), dtype=dtype)

    def make_room(self, words: int) -> None:
        """Room for word numbers below `words`."""
        have = self.values.shape[2]
        if words > have:
            more = max(words, 2 * have) - have
            self.values = np.pad(self.values, ((0, 0), (0, 0), (0, more)))

    def add(self, labelling: int, group: int, ids: Rows, weights: NDArray[Any], documents: Rows | None = None) -> None:
        """Credit words with their weights beside a group."""
        np.add.at(self.values[labelling, group], ids, weights)


class SparseSum:
    """A sparse matrix added up from many small ones of nearly equal size, so that each entry is moved log(n) times."""

    def __init__(self, rows: int | None = None) -> None:
        self._rows = rows
        self._levels: list[Any] = []

    def add(self, rows: Rows, columns: Rows, values: NDArray[Any]) -> None:
        """Add values at places; a place may come up many times."""
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

    def total(self, columns: int) -> Any:
        """The sum, `columns` wide and square unless the rows are fixed."""
        from scipy.sparse import csr_array

        total = csr_array((self._rows or columns, columns), dtype=np.float64)
        for level in self._levels:
            total = sparse_sum(total, level)
        return total


def sparse_sum(one: Any, other: Any) -> Any:
    """The sum of two sparse matrices, as high and wide as the larger."""
    shape = tuple(map(max, one.shape, other.shape))
    one.resize(shape)
    other.resize(shape)
    return one + other
