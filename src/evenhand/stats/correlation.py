"""Pearson and Spearman correlation with intervals and leave-one-out range, and the Theil-Sen slope."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenhand.arrays import Floats, Matrix64, Rows, Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.stats import bootstrap
from evenhand.stats.bootstrap import LEVEL
from evenhand.stats.means import jackknife_interval
from evenhand.stats.permutation import shuffles

CorrelationName = Literal["pearson", "spearman"]
EXACT_UP_TO = 7
FLAT = 1e-12  # a spread below this share of the largest value is rounding error


@dataclass(frozen=True)
class Correlation:
    """A correlation, its bootstrap interval, and its range when one point is left out."""

    kind: CorrelationName
    value: float
    interval: bootstrap.Interval
    leave_one_out: tuple[float, float] | None
    n: int


def pearson(x: Floats, y: Floats, *, level: float = bootstrap.LEVEL) -> Correlation:
    """Return Pearson's r, with the interval of `pearson_interval`."""
    first, second = _checked(x, y)
    bounds = pearson_interval(first, second, level=level) if len(first) > 3 else None
    return _correlation("pearson", first, second, bounds)


def spearman(
    x: Floats, y: Floats, *, count: int = bootstrap.RESAMPLES, level: float = bootstrap.LEVEL, seed: int = 0
) -> Correlation:
    """Return Spearman's rho, Pearson's r of the ranks, with a percentile interval; ties get their mean rank."""
    first, second = _checked(x, y)
    n = len(first)

    def drawn(rows: Rows) -> Vector64:
        return spearman_rows(first[rows], second[rows])

    bounds = bootstrap.percentile_interval(drawn, n, count=count, level=level, seed=seed) if n > 3 else None
    return _correlation("spearman", first, second, bounds)


def pearson_interval(x: Vector64, y: Vector64, *, level: float = bootstrap.LEVEL) -> bootstrap.Interval:
    """Return the interval of Pearson's r: a jackknife on Fisher's z, which is nearly normal at any r.

    Fisher's own interval holds for normal variables only; the jackknife takes the variance from the points. The
    percentile bootstrap covers .89 to .93 for 8 to 20 points.
    """
    dx, dy = (_centred(values) for values in (x, y))

    def correlation(sums: Matrix64) -> Vector64:
        n, sum_x, sum_y, products, squares_x, squares_y = sums.T
        joint = products - sum_x * sum_y / n
        return np.asarray(joint / np.sqrt((squares_x - sum_x**2 / n) * (squares_y - sum_y**2 / n)))

    columns = np.stack([np.ones(len(x)), dx, dy, dx * dy, dx * dx, dy * dy], axis=1)
    return jackknife_interval(correlation, columns, scale="correlation", skewed=False, level=level)


def correlation_p(x: Floats, y: Floats, *, samples: int = 9_999, seed: int = 0) -> float:
    """Return the two-sided p-value of Pearson's r: the share of pairings of x and y with an r as large (Pitman 1937).

    All pairings of up to seven points are counted, a sample of them otherwise. For Spearman's rho, pass ranks.

    >>> correlation_p([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])  # 2 of 6 orders are as extreme
    0.3333333333333333
    """
    first, second = _checked(x, y)
    dx, dy = _centred(first), _centred(second)
    if len(dx) <= EXACT_UP_TO:
        orders = np.array(list(itertools.permutations(range(len(dx)))))
        products = dy[orders] @ dx
    else:
        shuffled = shuffles(dy, samples, seed=seed)
        products = np.concatenate([dy[None] @ dx, *(block @ dx for block in shuffled)])
    limit = abs(float(products[0])) - FLAT * float(np.abs(dx).sum() * np.abs(dy).max())
    return float(np.mean(np.abs(products) >= limit))


def pearson_rows(x: Matrix64, y: Matrix64) -> Vector64:
    """Return Pearson's r of each row of x with the same row of y; NaN if either is constant."""
    away_x, away_y = _centred(x), _centred(y)
    square = (away_x**2).sum(axis=-1) * (away_y**2).sum(axis=-1)
    products = (away_x * away_y).sum(axis=-1)
    r = np.divide(products, np.sqrt(square), out=np.full_like(products, np.nan), where=square > 0)
    return np.asarray(np.clip(r, -1.0, 1.0))


def spearman_rows(x: Matrix64, y: Matrix64) -> Vector64:
    """Return Spearman's rho of each row of x with the same row of y; NaN if either is constant."""
    return pearson_rows(mean_ranks(x), mean_ranks(y))


def _centred(values: Matrix64) -> Matrix64:
    """Subtract the mean; a row that varies only by rounding error becomes exactly zero."""
    away = values - values.mean(axis=-1, keepdims=True)
    flat = np.abs(away).max(axis=-1, keepdims=True) <= FLAT * np.abs(values).max(axis=-1, keepdims=True)
    return np.where(flat, 0.0, away)


def _correlation(kind: CorrelationName, first: Vector64, second: Vector64, bounds: bootstrap.Interval) -> Correlation:
    rows_of = pearson_rows if kind == "pearson" else spearman_rows
    value = float(rows_of(first[None], second[None])[0])
    if not np.isfinite(value):
        raise DegenerateError(f"{kind}: one of the two variables is constant, so the correlation is undefined")
    n = len(first)
    rows = bootstrap.leave_one_out(n) if n > 2 else np.zeros((0, 1), dtype=np.int64)
    left = rows_of(first[rows], second[rows])
    left = left[np.isfinite(left)]
    extremes = (float(left.min()), float(left.max())) if len(left) else None
    return Correlation(kind, value, bounds, extremes, n)


def _checked(x: Floats, y: Floats, what: str = "correlation") -> tuple[Vector64, Vector64]:
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise UsageError(f"a {what} needs two arrays of the same length, got {first.shape} and {second.shape}")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise UsageError(f"a {what} needs finite numbers, got NaN or infinity", hint="leave out undefined points")
    if len(first) < 2:
        raise DegenerateError(f"a {what} needs at least 2 points, got {len(first)}")
    return first, second


def mean_ranks(values: Floats) -> Matrix64:
    """Return ranks from 1 along the last axis; ties get their mean rank.

    >>> import numpy as np
    >>> mean_ranks(np.array([10.0, 30.0, 10.0, 20.0])).tolist()
    [1.5, 4.0, 1.5, 3.0]
    """
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    width = values.shape[-1]
    position = np.broadcast_to(np.arange(width), values.shape)
    new = np.ones(values.shape, dtype=bool)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    last = np.ones(values.shape, dtype=bool)
    last[..., :-1] = new[..., 1:]
    start = np.maximum.accumulate(np.where(new, position, 0), axis=-1)
    end = np.minimum.accumulate(np.where(last, position, width)[..., ::-1], axis=-1)[..., ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (start + end) / 2 + 1, axis=-1)
    return ranks


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
    if not 0 < level < 1:
        raise UsageError(f"the confidence level must be between 0 and 1, got {level}", hint="use 0.95 for 95 %")
    first, second = map(_without_rounding, _checked(x, y, "slope"))
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
    reach = bootstrap.normal_quantile((1 + level) / 2) * math.sqrt(max(variance, 0.0)) * sampled
    return max(round((slopes - reach) / 2) - 1, 0), min(round((slopes + reach) / 2), slopes - 1)


def _tied(k: int) -> int:
    return k * (k - 1) * (2 * k + 5)


def _repeats(values: Vector64) -> list[int]:
    _, counts = np.unique(values, return_counts=True)
    return [int(count) for count in counts if count > 1]


def _without_rounding(values: Vector64) -> Vector64:
    """Replace values that differ only by rounding error by the smallest of them."""
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    begins = np.concatenate([[True], np.diff(ranked) > ROUNDING * np.abs(ranked).max()])
    equal = np.empty_like(values)
    equal[order] = ranked[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    return equal
