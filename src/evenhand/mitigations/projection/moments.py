"""Mean and second moments of a whole vocabulary, in blocks of rows: d x d, never a copy of the matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.arrays import Matrix64, Vector64, unit_rows
from evenhand.errors import DegenerateError
from evenhand.mitigations.maps.application import BLOCK_VALUES
from evenhand.models.vectors import Vectors


class Moments(NamedTuple):
    """Over n rows: their mean, and the sum of x'x."""

    n: int
    mean: Vector64
    products: Matrix64

    def covariance(self) -> Matrix64:
        """Around the mean, divided by n."""
        return np.asarray(self.products / self.n - np.outer(self.mean, self.mean), dtype=np.float64)


def moments(v: Vectors, *, normalise: bool = False) -> Moments:
    """The moments of all vectors, or of all at unit length; NaN or infinity is an error that names the word."""
    total, products = np.zeros(v.dim), np.zeros((v.dim, v.dim))
    size = max(1, BLOCK_VALUES // v.dim)
    for start in range(0, len(v), size):
        rows = v.matrix[start : start + size]
        block = unit_rows(rows) if normalise else rows.astype(np.float64)
        total += block.sum(axis=0)
        products += block.T @ block
        if not np.isfinite(total).all():
            word = v.words[start + int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])]
            raise DegenerateError(f"{v.name} has NaN or infinity in the vector of {word!r}", hint="drop or repair it")
    return Moments(len(v), total / max(len(v), 1), products)
