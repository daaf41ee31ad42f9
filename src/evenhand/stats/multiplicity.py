"""Many tests at once: p-values adjusted so that the share of false alarms stays what it says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.errors import UsageError


def holm(p_values: Sequence[float] | Vector64) -> Vector64:
    """Adjusted p-values after Holm (1979): rejecting those below alpha risks any false alarm with at most alpha.

    The k-th smallest of m is multiplied by m - k + 1, then made not smaller than the one before. It needs no
    independence.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p, order, back = _sorted(p_values)
    scaled = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.asarray(np.minimum(scaled, 1.0)[back])


def benjamini_hochberg(p_values: Sequence[float] | Vector64) -> Vector64:
    """Adjusted p-values after Benjamini & Hochberg (1995): of those below alpha a share alpha at most is false alarm.

    The k-th smallest of m is multiplied by m / k, then made not larger than the one after. It holds for independent
    tests and for those that are positively dependent.

    >>> benjamini_hochberg([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.04, 0.04]
    """
    p, order, back = _sorted(p_values)
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    lowest = np.minimum.accumulate(scaled[::-1])[::-1]
    return np.asarray(np.minimum(lowest, 1.0)[back])


def _sorted(p_values: Sequence[float] | Vector64) -> tuple[Vector64, Rows, Rows]:
    """The values, the order that sorts them, and the order that puts them back."""
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1:
        raise UsageError(f"p-values must be one list, got shape {p.shape}")
    wrong = p[~((p >= 0) & (p <= 1))]
    if len(wrong):
        raise UsageError(f"a p-value lies between 0 and 1, got {wrong[0]}", hint="leave undefined tests out")
    order = np.argsort(p, kind="stable").astype(np.int64)
    return p, order, np.argsort(order, kind="stable").astype(np.int64)
