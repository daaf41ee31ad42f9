"""Bootstrap intervals (percentile and BCa), and the Wilson interval of a proportion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import UsageError

RESAMPLES = 2_000
LEVEL = 0.95
CELLS_AT_ONCE = 4 << 20
ENOUGH = 0.9  # share of resamples in which the statistic must be defined

# Maps (draws, units) row indices to one value per draw; NaN where the statistic is undefined.
Statistic: TypeAlias = Callable[[Rows], Vector64]
Interval: TypeAlias = tuple[float, float] | None


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    from statistics import NormalDist  # slow to import

    return NormalDist().inv_cdf(probability)


def resamples(units: int, count: int = RESAMPLES, *, seed: int = 0) -> Rows:
    """Return (count, units) row indices drawn with replacement."""
    if units < 1 or count < 1:
        raise UsageError(f"a bootstrap needs at least 1 unit and 1 resample, got {units} and {count}")
    return np.random.default_rng(seed).integers(units, size=(count, units))


def interval(values: Vector64, level: float = LEVEL) -> Interval:
    """Return the central quantiles of bootstrap values, or None if too many of them are undefined."""
    if not 0 < level < 1:
        raise UsageError(f"the confidence level must be between 0 and 1, got {level}", hint="use 0.95 for 95 %")
    defined = values[np.isfinite(values)]
    if len(defined) < ENOUGH * len(values) or not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def drawn_values(statistic: Statistic, units: int, count: int = RESAMPLES, *, seed: int = 0) -> Vector64:
    """Return the statistic of each draw of `resamples`, computed in blocks of bounded memory."""
    if units < 1 or count < 1:
        raise UsageError(f"a bootstrap needs at least 1 unit and 1 resample, got {units} and {count}")
    rng = np.random.default_rng(seed)
    step = max(1, CELLS_AT_ONCE // units)
    counts = [min(step, count - done) for done in range(0, count, step)]
    return np.concatenate([statistic(rng.integers(units, size=(n, units))) for n in counts])


def percentile_interval(
    statistic: Statistic, units: int, *, count: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> Interval:
    """Return the percentile interval of a statistic over its units.

    >>> import numpy as np
    >>> x = np.arange(10.0)
    >>> low, high = percentile_interval(lambda rows: x[rows].mean(axis=1), len(x))
    >>> bool(low < x.mean() < high)
    True
    """
    return interval(drawn_values(statistic, units, count, seed=seed), level)


def bca_interval(
    statistic: Statistic, units: int, *, count: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> Interval:
    """Return the bias-corrected and accelerated interval (Efron 1987), or None if it is undefined.

    It uses different quantiles of the same bootstrap values than the percentile interval: z0 measures how far the
    observed value is from their median, and the acceleration a (from the jackknife) how the spread changes with the
    value. The statistic must accept draws of any width, because the jackknife has one unit less.

    Limitation: with few units, or a statistic at the edge of its range, no bootstrap interval has its nominal coverage.
    The interval is undefined if all bootstrap values lie on one side of the observed value.
    """
    if not 0 < level < 1:
        raise UsageError(f"the confidence level must be between 0 and 1, got {level}", hint="use 0.95 for 95 %")
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
    """Return (units, units - 1) row indices: row i has every unit except i."""
    columns = np.arange(units - 1)[None]
    return np.asarray(columns + (columns >= np.arange(units)[:, None]), dtype=np.int64)


def _bias(drawn: Vector64, observed: float) -> float:
    """Return z0: the normal quantile of the share of bootstrap values below the observed one, ties counted half."""
    if not len(drawn):
        return np.nan
    share = float(((drawn < observed).mean() + (drawn <= observed).mean()) / 2)
    return normal_quantile(share) if 0 < share < 1 else np.nan


def _acceleration(left_out: Vector64) -> float:
    """Return the acceleration: sum(d ** 3) / (6 sum(d ** 2) ** 1.5) over the jackknife deviations d."""
    away = left_out.mean() - left_out
    spread = float((away**2).sum())
    if not np.isfinite(spread):
        return np.nan
    return float((away**3).sum() / (6 * spread**1.5)) if spread > 0 else 0.0


def _corrected(probability: float, shift: float, rate: float) -> float:
    z = shift + normal_quantile(probability)
    return (1 + math.erf((shift + z / (1 - rate * z)) / math.sqrt(2))) / 2


def wilson(share: ArrayLike, n: ArrayLike, *, quantile: float | None = None) -> Matrix64:
    """Return the lower and upper bound of the Wilson score interval (Wilson 1927) of a proportion of `n` cases.

    `quantile` is the number of standard errors, by default that of the normal distribution for 95 %. Unlike the Wald
    interval it stays within [0, 1] and has positive width at 0 and 1. NaN where `n` is NaN.

    >>> wilson(0.8, 10).round(4).tolist()
    [0.4902, 0.9433]
    """
    z = normal_quantile((1 + LEVEL) / 2) if quantile is None else quantile
    p, cases = np.asarray(share, dtype=np.float64), np.asarray(n, dtype=np.float64)
    scale = 1 + z * z / cases
    centre = (p + z * z / (2 * cases)) / scale
    half = z / scale * np.sqrt(p * (1 - p) / cases + z * z / (4 * cases * cases))
    # At 0 and 1 the formula is exact except for rounding.
    low, high = np.where(p == 0, 0 * half, centre - half), np.where(p == 1, 1 + 0 * half, centre + half)
    return np.stack([low, high])
