"""Theil-Sen slope: the median of the slopes between all pairs of points, robust to outliers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from evenhand.arrays import Floats, Rows, Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.stats.bootstrap import LEVEL

ROUNDING = 1e-12  # relative to the largest value: smaller differences are rounding error
PAIRS_AT_MOST = 20_000_000  # 160 MB of slopes; pairs are sampled above about 6,300 points


@dataclass(frozen=True)
class Slope:
    """The line y = intercept + slope * x, the interval of the slope, and the number of pairs of points."""

    slope: float
    intercept: float
    interval: tuple[float, float]
    n: int
    pairs: int
    exact: bool


def theil_sen(
    x: Floats, y: Floats, *, level: float = LEVEL, pairs_at_most: int = PAIRS_AT_MOST, seed: int = 0
) -> Slope:
    """Return the median slope over all pairs with different x (Theil 1950, Sen 1968), through both medians.

    The interval is Sen's, from the null distribution of Kendall's statistic with the variance corrected for ties.
    Values that differ only by rounding error count as ties. Above `pairs_at_most` pairs a seeded sample is used.
    """
    first, second = _checked(x, y, level)
    left, right, exact = _pairs(len(first), pairs_at_most, seed)
    run = first[right] - first[left]
    slopes = np.sort((second[right] - second[left])[run != 0] / run[run != 0])
    if not len(slopes):
        raise DegenerateError("theil-sen: all x are equal, so no slope is defined")
    slope = float(np.median(slopes))
    low, high = _ranks(first, second, len(slopes), len(left) / math.comb(len(first), 2), level)
    return Slope(
        slope,
        float(np.median(second) - slope * np.median(first)),
        (float(slopes[low]), float(slopes[high])),
        len(first),
        len(slopes),
        exact,
    )


def _pairs(n: int, most: int, seed: int) -> tuple[Rows, Rows, bool]:
    if math.comb(n, 2) <= most:
        left, right = np.triu_indices(n, 1)
        return left, right, True
    rng = np.random.default_rng(seed)
    left = rng.integers(n, size=most)
    right = (left + rng.integers(1, n, size=most)) % n
    return left, right, False


def _ranks(x: Vector64, y: Vector64, slopes: int, sampled: float, level: float) -> tuple[int, int]:
    """Return the ranks of the two bounds among the sorted slopes; `sampled` is the share of pairs used."""
    variance = (_tied(len(x)) - sum(map(_tied, _repeats(x))) - sum(map(_tied, _repeats(y)))) / 18
    reach = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(max(variance, 0.0)) * sampled
    return max(round((slopes - reach) / 2) - 1, 0), min(round((slopes + reach) / 2), slopes - 1)


def _tied(k: int) -> int:
    return k * (k - 1) * (2 * k + 5)


def _repeats(values: Vector64) -> list[int]:
    _, counts = np.unique(values, return_counts=True)
    return [int(count) for count in counts if count > 1]


def _checked(x: Floats, y: Floats, level: float) -> tuple[Vector64, Vector64]:
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if not 0 < level < 1:
        raise UsageError(f"the confidence level must be between 0 and 1, got {level}", hint="use 0.95 for 95 %")
    if first.ndim != 1 or first.shape != second.shape:
        raise UsageError(f"a slope needs two arrays of the same length, got {first.shape} and {second.shape}")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise UsageError("a slope needs finite numbers, got NaN or infinity", hint="leave out undefined points")
    if len(first) < 2:
        raise DegenerateError(f"a slope needs at least 2 points, got {len(first)}")
    return _without_rounding(first), _without_rounding(second)


def _without_rounding(values: Vector64) -> Vector64:
    """Replace values that differ only by rounding error by the smallest of them."""
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    begins = np.concatenate([[True], np.diff(ranked) > ROUNDING * np.abs(ranked).max()])
    equal = np.empty_like(values)
    equal[order] = ranked[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    return equal
