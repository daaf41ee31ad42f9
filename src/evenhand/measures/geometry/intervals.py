"""Intervals of the numbers that geometry measures give: means and weighted means over thousands of words."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.stats import bootstrap
from evenhand.stats.bootstrap import Interval, Statistic

MANY = 5_000
NORMAL = 1.959964  # 97.5 % of a normal distribution lie below it
FEWEST = 3  # resampling one or two words says nothing


def resampled(statistic: Statistic, units: int, *, seed: int) -> Interval:
    """Percentile interval of a statistic that takes (draws, units) rows to one value for each draw."""
    return bootstrap.percentile_interval(statistic, units, seed=seed) if units >= FEWEST else None


def mean_interval(values: Vector64, *, seed: int) -> Interval:
    """The interval of a mean; beyond `MANY` words the normal one, to which the bootstrap has converged by then."""
    if len(values) > MANY:
        margin = NORMAL * float(values.std()) / np.sqrt(len(values))
        return float(values.mean() - margin), float(values.mean() + margin)
    return resampled(lambda rows: np.asarray(values[rows].mean(axis=1)), len(values), seed=seed)


def weighted_mean_interval(values: Vector64, weights: Vector64, *, seed: int) -> Interval:
    """The interval of sum(weight x value) / sum(weight), value and weight drawn together."""

    def ratio(rows: Rows) -> Vector64:
        totals = weights[rows].sum(axis=1)
        sums = (weights * values)[rows].sum(axis=1)
        return np.asarray(np.divide(sums, totals, out=np.full(len(rows), np.nan), where=totals > 0))

    return resampled(ratio, len(values), seed=seed)
