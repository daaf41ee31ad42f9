"""The interval of a share."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from evenhand.arrays import Matrix64
from evenhand.stats.bootstrap import LEVEL


def wilson(share: ArrayLike, n: ArrayLike, *, quantile: float | None = None) -> Matrix64:
    """Wilson 1927: the lower and the upper end around which a share of `n` independent cases is not surprising.

    `quantile` is how many standard errors that is, unless said the normal distribution's for 95 %. Unlike the plain
    interval it is no single point at a share of 0 or 1, and does not leave them. NaN where `n` is.

    >>> wilson(0.8, 10).round(4).tolist()
    [0.4902, 0.9433]
    """
    z = NormalDist().inv_cdf((1 + LEVEL) / 2) if quantile is None else quantile
    p, cases = np.asarray(share, dtype=np.float64), np.asarray(n, dtype=np.float64)
    scale = 1 + z * z / cases
    centre = (p + z * z / (2 * cases)) / scale
    half = z / scale * np.sqrt(p * (1 - p) / cases + z * z / (4 * cases * cases))
    # At the ends of the scale the formula gives 0 and 1 but for rounding.
    low, high = np.where(p == 0, 0 * half, centre - half), np.where(p == 1, 1 + 0 * half, centre + half)
    return np.stack([low, high])
