"""Bootstrap intervals over words, of the means that most measures report."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.stats import bootstrap
from evenhand.stats.bootstrap import Interval, Statistic

MANY = 5_000
NORMAL = 1.959964  # 97.5 % quantile of the normal distribution
FEWEST = 3  # one or two words leave nothing to resample


def word_interval(statistic: Statistic, units: int, *, seed: int) -> Interval:
    """Return the percentile interval of a statistic of (draws, units) rows; None for fewer than three units."""
    return bootstrap.percentile_interval(statistic, units, seed=seed) if units >= FEWEST else None


def mean_interval(values: Vector64, *, seed: int) -> Interval:
    """Return the interval of a mean; above `MANY` words the normal one, to which the bootstrap has converged."""
    if len(values) > MANY:
        margin = NORMAL * float(values.std()) / np.sqrt(len(values))
        return float(values.mean() - margin), float(values.mean() + margin)
    return word_interval(lambda rows: np.asarray(values[rows].mean(axis=1)), len(values), seed=seed)


def weighted_mean_interval(values: Vector64, weights: Vector64, *, seed: int) -> Interval:
    """Return the interval of sum(weight * value) / sum(weight); value and weight are resampled together."""

    def ratio(rows: Rows) -> Vector64:
        totals = weights[rows].sum(axis=1)
        sums = (weights * values)[rows].sum(axis=1)
        return np.asarray(np.divide(sums, totals, out=np.full(len(rows), np.nan), where=totals > 0))

    return word_interval(ratio, len(values), seed=seed)
