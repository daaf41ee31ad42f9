"""A matrix that grows while rows of unknown number arrive, without ever holding two copies."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Matrix


class GrowingMatrix:
    """Rows appended in blocks. Growing moves pages instead of copying them, and unused rows cost nothing."""

    def __init__(self, dim: int) -> None:
        self._matrix = np.empty((0, dim), dtype=np.float32)
        self.rows = 0

    def expect(self, rows: int) -> None:
        """Make room for a likely number of rows; memory that is never written to is never taken."""
        if not self.rows:
            self._matrix = np.empty((rows, self._matrix.shape[1]), dtype=np.float32)

    def reserve(self, count: int) -> Matrix:
        """A view of the next `count` rows, to be filled by the caller before the next reservation."""
        needed = self.rows + count
        if needed > len(self._matrix):
            # refcheck off: views handed out before are dead by contract, and numpy cannot know that.
            self._matrix.resize((max(needed, len(self._matrix) * 3 // 2), self._matrix.shape[1]), refcheck=False)
        self.rows = needed
        return self._matrix[needed - count : needed]

    def finish(self) -> Matrix:
        """The matrix with its spare rows given back."""
        self._matrix.resize((self.rows, self._matrix.shape[1]), refcheck=False)
        return self._matrix
