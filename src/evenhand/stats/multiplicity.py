"""p-values of a family of tests, corrected so that chance findings stay rare."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evenhand.arrays import Vector64

NORMAL_95 = 1.959963984540054  # half-width of a 95 % interval in standard errors


def holm(p_values: Sequence[float] | Vector64) -> Vector64:
    """Return Holm's adjusted p-values, which bound the chance of any false finding in the family.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    given = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    scaled = np.minimum(1.0, given[order] * np.arange(len(given), 0, -1))
    adjusted = np.empty_like(given)
    adjusted[order] = np.maximum.accumulate(scaled) if len(given) else scaled
    return adjusted


def two_sided_p(z: float) -> float:
    """Return the two-sided p-value of a standard normal statistic."""
    return math.erfc(abs(z) / math.sqrt(2.0))
