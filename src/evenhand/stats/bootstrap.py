"""Percentile bootstrap: resample the units, recompute, read off the middle share."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Rows, Vector64

RESAMPLES = 2_000
LEVEL = 0.95


def resamples(units: int, count: int = RESAMPLES, *, seed: int = 0) -> Rows:
    """(count, units) rows drawn with replacement."""
    return np.random.default_rng(seed).integers(units, size=(count, units))


def interval(values: Vector64, level: float = LEVEL) -> tuple[float, float] | None:
    """The middle share of bootstrap values, or None where too many resamples left the quantity undefined."""
    defined = values[np.isfinite(values)]
    if len(defined) < 0.9 * len(values) or not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
