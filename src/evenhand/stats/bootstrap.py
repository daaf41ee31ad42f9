"""Percentile bootstrap: resample the units, recompute, read off the middle share."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
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


NORMAL = NormalDist()


def bca_interval(
    statistic: Statistic, units: int, *, count: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> Interval:
    """The bias-corrected and accelerated interval (Efron 1987); None where the bootstrap leaves it undefined.

    It reads other quantiles of the same bootstrap values than the percentile interval: z0 says how far the observed
    value is from their median, the acceleration a (from leaving out one unit at a time) how the spread grows with the
    value. The statistic must accept draws of any width, since leaving one out draws one unit less.

    What it does not tell you: with a handful of units, or a statistic at the edge of its range, no bootstrap covers
    what it says; and it is undefined when all bootstrap values lie on one side of the observed one.
    """
    if not 0 < level < 1:
        raise UsageError(f"the level of an interval lies between 0 and 1, got {level}", hint="use 0.95 for 95 %")
    if units < 2:
        return None
    observed = float(statistic(np.arange(units)[None])[0])
    drawn = drawn_values(statistic, units, count, seed=seed)
    defined = drawn[np.isfinite(drawn)]
    shift = _bias(defined, observed)
    rate = _acceleration(statistic(leave_one_out(units)))
    if len(defined) < ENOUGH * len(drawn) or not np.isfinite([observed, shift, rate]).all():
        return None
    low, high = (_corrected((1 + sign * level) / 2, shift, rate) for sign in (-1, 1))
    return float(np.quantile(defined, low)), float(np.quantile(defined, high))


def leave_one_out(units: int) -> Rows:
    """(units, units - 1) row numbers: row i has every unit but i."""
    columns = np.arange(units - 1)[None]
    return np.asarray(columns + (columns >= np.arange(units)[:, None]), dtype=np.int64)


def _bias(drawn: Vector64, observed: float) -> float:
    """z0: the normal quantile of the share of bootstrap values below the observed one, ties counted half."""
    if not len(drawn) or not np.isfinite(observed):
        return np.nan
    share = float(((drawn < observed).mean() + (drawn <= observed).mean()) / 2)
    return NORMAL.inv_cdf(share) if 0 < share < 1 else np.nan


def _acceleration(left_out: Vector64) -> float:
    """A sixth of the skewness of the leave-one-out values; their mean over n ** 1.5 is part of the definition."""
    away = left_out.mean() - left_out
    spread = float((away**2).sum())
    if not np.isfinite(spread):
        return np.nan
    return float((away**3).sum() / (6 * spread**1.5)) if spread > 0 else 0.0


def _corrected(probability: float, shift: float, rate: float) -> float:
    z = shift + NORMAL.inv_cdf(probability)
    return NORMAL.cdf(shift + z / (1 - rate * z))
