"""Percentile bootstrap: resample the units, recompute, read off the middle share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.errors import UsageError

RESAMPLES = 2_000
LEVEL = 0.95
CELLS_AT_ONCE = 4 << 20
ENOUGH = 0.9  # share of resamples that must leave the quantity defined

# From (draws, units) row numbers to one value for each draw; NaN where a draw leaves it undefined.
Statistic: TypeAlias = Callable[[Rows], Vector64]
Interval: TypeAlias = tuple[float, float] | None


def resamples(units: int, count: int = RESAMPLES, *, seed: int = 0) -> Rows:
    """(count, units) rows drawn with replacement."""
    if units < 1 or count < 1:
        raise UsageError(f"a bootstrap needs units to draw and draws to make, got {units} and {count}")
    return np.random.default_rng(seed).integers(units, size=(count, units))


def interval(values: Vector64, level: float = LEVEL) -> Interval:
    """The middle share of bootstrap values, or None where too many resamples left the quantity undefined."""
    if not 0 < level < 1:
        raise UsageError(f"the level of an interval lies between 0 and 1, got {level}", hint="use 0.95 for 95 %")
    defined = values[np.isfinite(values)]
    if len(defined) < ENOUGH * len(values) or not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def drawn_values(statistic: Statistic, units: int, count: int = RESAMPLES, *, seed: int = 0) -> Vector64:
    """The statistic of each draw of `resamples`, computed in blocks: thousands of units never fill the memory."""
    if units < 1 or count < 1:
        raise UsageError(f"a bootstrap needs units to draw and draws to make, got {units} and {count}")
    rng = np.random.default_rng(seed)
    step = max(1, CELLS_AT_ONCE // units)
    counts = [min(step, count - done) for done in range(0, count, step)]
    return np.concatenate([statistic(rng.integers(units, size=(n, units))) for n in counts])


def percentile_interval(
    statistic: Statistic, units: int, *, count: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> Interval:
    """The percentile interval of a statistic over its units.

    >>> import numpy as np
    >>> x = np.arange(10.0)
    >>> low, high = percentile_interval(lambda rows: x[rows].mean(axis=1), len(x))
    >>> bool(low < x.mean() < high)
    True
    """
    return interval(drawn_values(statistic, units, count, seed=seed), level)
