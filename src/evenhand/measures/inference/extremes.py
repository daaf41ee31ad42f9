"""The pairs with the highest probability of a label, kept while all pairs pass by."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Matrix, Rows, Vector64


class Extremes:
    """The k most probable pairs of each label; ties go to the pair that comes first in the probe."""

    def __init__(self, labels: int, k: int) -> None:
        self.k = k
        self.values: list[Vector64] = [np.empty(0) for _ in range(labels)]
        self.pairs: list[Rows] = [np.empty(0, dtype=np.int64) for _ in range(labels)]

    def merge(self, other: Extremes) -> None:
        """Those of other pairs; in which order does not matter."""
        for label in range(len(self.values)):
            self._keep(label, other.values[label], other.pairs[label])

    def add(self, pairs: Rows, probabilities: Matrix) -> None:
        """Numbers of pairs and their (pairs, labels) probabilities."""
        for label in range(len(self.values)):
            column = probabilities[:, label].astype(np.float64)
            if len(column) > self.k:
                # All that tie with the k-th stay in, so that the order of arrival does not decide.
                least = np.partition(column, -self.k)[-self.k]
                if len(self.values[label]) == self.k and least < self.values[label][-1]:
                    least = self.values[label][-1]
                kept = np.flatnonzero(column >= least)
            else:
                kept = np.arange(len(column))
            self._keep(label, column[kept], pairs[kept])

    def listed(self, label: int) -> tuple[tuple[int, float], ...]:
        """Numbers and probabilities of the pairs kept for a label, the highest first."""
        return tuple(zip(self.pairs[label].tolist(), self.values[label].tolist(), strict=True))

    def _keep(self, label: int, values: Vector64, pairs: Rows) -> None:
        values = np.concatenate([self.values[label], values])
        numbers = np.concatenate([self.pairs[label], pairs])
        order = np.lexsort((numbers, -values))[: self.k]
        self.values[label], self.pairs[label] = values[order], numbers[order]
