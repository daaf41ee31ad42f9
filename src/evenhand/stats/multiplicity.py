"""p-values of a family of tests, corrected so that chance findings stay rare."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.errors import UsageError

NORMAL_95 = 1.959963984540054  # half-width of a 95 % interval in standard errors


def holm(p_values: Sequence[float] | Vector64) -> Vector64:
    """Return p-values adjusted by Holm (1979), which controls the family-wise error rate.

    The k-th smallest of m is multiplied by m - k + 1, then a running maximum is taken. No independence is assumed.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p, order, back = _sorted(p_values)
    scaled = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.asarray(np.minimum(scaled, 1.0)[back])


def benjamini_hochberg(p_values: Sequence[float] | Vector64) -> Vector64:
    """Return p-values adjusted by Benjamini & Hochberg (1995), which controls the false discovery rate.

    The k-th smallest of m is multiplied by m / k, then a running minimum from the largest is taken. It is valid for
    independent and for positively dependent tests.

    >>> benjamini_hochberg([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.04, 0.04]
    """
    p, order, back = _sorted(p_values)
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    lowest = np.minimum.accumulate(scaled[::-1])[::-1]
    return np.asarray(np.minimum(lowest, 1.0)[back])


def harmonic_mean_p(p_values: Sequence[float]) -> float:
    """Return the harmonic mean of the p-values of several tests of one hypothesis (Wilson 2019).

    It is nearly valid for any dependence when it is small, equal p-values keep their value, and one large p-value does
    not hide a small one. At most 1.

    >>> round(harmonic_mean_p([0.01, 0.01]), 4), round(harmonic_mean_p([0.01, 1.0]), 4)
    (0.01, 0.0198)
    """
    if not len(p_values):
        raise UsageError("a harmonic mean needs at least one p-value")
    if min(p_values) <= 0:
        return 0.0
    # Rounding must not take the mean of equal p-values above them.
    return min(max(p_values), len(p_values) / sum(1 / p for p in p_values))


def _sorted(p_values: Sequence[float] | Vector64) -> tuple[Vector64, Rows, Rows]:
    """Return the values, the order that sorts them, and its inverse."""
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1:
        raise UsageError(f"p-values must be one-dimensional, got shape {p.shape}")
    invalid = p[~((p >= 0) & (p <= 1))]
    if len(invalid):
        raise UsageError(f"a p-value must be between 0 and 1, got {invalid[0]}", hint="leave out undefined tests")
    order = np.argsort(p, kind="stable").astype(np.int64)
    return p, order, np.argsort(order, kind="stable").astype(np.int64)


def two_sided_p(z: float) -> float:
    """Return the two-sided p-value of a standard normal statistic."""
    return math.erfc(abs(z) / math.sqrt(2.0))
