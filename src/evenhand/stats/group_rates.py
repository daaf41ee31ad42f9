"""Rates and means of several independent groups: how far apart the furthest two are, with intervals and tests.

The largest difference of many groups is large by chance, so that a plain interval of the furthest two would be too high
and too narrow. The intervals here hold for all pairs of groups at once: with a probability of 95 % every difference
lies within its limits, hence the largest one between the largest of the lower and the largest of the upper limits. They
are honest for any number of groups, and for more than two wider than they would have to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.stats.bootstrap import LEVEL, wilson
from evenhand.stats.multiplicity import NORMAL_95
from evenhand.stats.permutation import shuffles

DRAWS = 9_999  # of a test: the smallest p-value is 1e-4
NORMAL_DRAWS = 20_000  # of a simultaneous quantile
CELLS_AT_ONCE = 4 << 20
PERMUTED_UP_TO = 2_000  # values: more are tested by Welch's approximation


class Estimates(NamedTuple):
    """One number for each group, with its limits."""

    values: Vector64
    low: Vector64
    high: Vector64


class GroupCounts(NamedTuple):
    """How many cases of each group there are, and how many of them are hits."""

    hits: Vector64
    totals: Vector64

    @classmethod
    def of(cls, codes: Rows, hits: Vector64, groups: int) -> GroupCounts:
        """Count the cases of each group and their hits."""
        sums, totals = np.bincount(codes, hits, groups), np.bincount(codes, minlength=groups)
        return cls(np.asarray(sums, dtype=np.float64), np.asarray(totals, dtype=np.float64))

    @property
    def rates(self) -> Vector64:
        """The share of hits in each group."""
        return np.asarray(self.hits / self.totals)

    @property
    def errors(self) -> Vector64:
        """Standard errors, with one hit and one miss added so that none is 0."""
        smoothed = (self.hits + 1) / (self.totals + 2)
        return np.asarray(np.sqrt(smoothed * (1 - smoothed) / self.totals))

    def estimates(self, quantile: float = NORMAL_95) -> Estimates:
        """Return the rates with Wilson's limits."""
        low, high = wilson(self.rates, self.totals, quantile=quantile)
        return Estimates(self.rates, low, high)


def simultaneous_quantile(families: Sequence[Vector64], *, level: float = LEVEL, seed: int = 0) -> float:
    """Return how many standard errors hold for all differences of two groups at once, 1.96 for two groups.

    It is the quantile of the largest standardised difference of independent normal values with these standard errors
    (Tukey's, for unequal groups, by simulation).

    Args:
        families: the standard errors of the groups; groups are compared within a family.
        level: confidence level.
        seed: seed of the simulation.
    """
    from scipy.special import ndtri

    if sum(len(errors) * (len(errors) - 1) // 2 for errors in families) <= 1:
        return float(ndtri((1 + level) / 2))
    rng = np.random.default_rng(seed)
    largest = np.zeros(NORMAL_DRAWS)
    for errors in families:
        drawn = rng.standard_normal((NORMAL_DRAWS, len(errors))) * errors
        first, second = np.triu_indices(len(errors), 1)
        together = np.hypot(errors[first], errors[second])
        step = max(1, CELLS_AT_ONCE // max(1, len(first)))
        for start in range(0, NORMAL_DRAWS, step):
            part = slice(start, start + step)
            away = np.abs(drawn[part][:, first] - drawn[part][:, second]) / together
            largest[part] = np.maximum(largest[part], away.max(axis=1, initial=0.0))
    return float(np.quantile(largest, level))


def range_limits(estimates: Estimates) -> tuple[float, float]:
    """Return the limits of the largest difference between groups, from limits of each group.

    The limits of a difference are those of Newcombe (1998): d - sqrt((a - low_a)^2 + (high_b - b)^2), and the same with
    the other ends.
    """
    values, low, high = estimates
    below, above = (values - low) ** 2, (high - values) ** 2
    differences = values[:, None] - values
    lower = differences - np.sqrt(below[:, None] + above)
    upper = differences + np.sqrt(above[:, None] + below)
    others = ~np.eye(len(values), dtype=np.bool_)
    return max(0.0, float(lower[others].max())), float(upper[others].max())


def quotient_limits(estimates: Estimates) -> tuple[float, float]:
    """Return the limits of the smallest ratio between rates of groups, from limits of each group.

    The limits of a ratio R solve (a - R b)^2 = (a - low_a)^2 + R^2 (high_b - b)^2 (Donner & Zou 2012), and the same
    with the other ends.
    """
    values, low, high = estimates
    a, b = values[:, None], values
    product = a * b
    with np.errstate(all="ignore"):
        nearer = low[:, None] * (2 * a - low[:, None])
        root = np.sqrt(np.maximum(product**2 - nearer * high * (2 * b - high), 0.0))
        lower = np.nan_to_num(nearer / (product + root), nan=0.0, posinf=0.0)
        further, scale = high[:, None] * (2 * a - high[:, None]), low * (2 * b - low)
        upper = (product + np.sqrt(np.maximum(product**2 - further * scale, 0.0))) / scale
        upper = np.where(scale > 0, upper, np.inf)
    others = ~np.eye(len(values), dtype=np.bool_)
    return max(0.0, float(lower[others].min())), min(1.0, float(upper[others].min()))


def independence_p(strata: Sequence[GroupCounts], *, seed: int = 0) -> float | None:
    """Return the p-value of the hypothesis that hits do not depend on the group within any stratum.

    The statistic is Pearson's chi-squared, summed over strata. Its distribution is that of hits dealt to the cases of a
    stratum at random, so that the test is exact for groups of any size; 9,999 draws and the observed one.

    Returns:
        The p-value; None if no stratum has hits, misses and two groups.
    """
    rng = np.random.default_rng(seed)
    observed, drawn, any_stratum = 0.0, np.zeros(DRAWS), False
    for counts in strata:
        kept = counts.totals > 0
        totals = counts.totals[kept].astype(np.int64)
        hits = int(counts.hits[kept].sum())
        if len(totals) < 2 or hits in (0, int(totals.sum())):
            continue
        any_stratum = True
        share = hits / totals.sum()
        scale = totals * share * (1 - share)
        observed += float(((counts.hits[kept] - totals * share) ** 2 / scale).sum())
        dealt = rng.multivariate_hypergeometric(totals, hits, size=DRAWS, method="marginals")
        drawn += ((dealt - totals * share) ** 2 / scale).sum(axis=1)
    if not any_stratum:
        return None
    return float((1 + np.count_nonzero(drawn >= observed * (1 - 1e-12))) / (DRAWS + 1))


def equal_means_p(values: Vector64, codes: Rows, groups: int, *, seed: int = 0) -> float | None:
    """Return the p-value of the hypothesis that the groups have the same mean.

    Up to 2,000 values change groups at random. More are tested by Welch (1951), which lets the spread of the groups
    differ; groups of fewer than three values or without spread are then left out.

    Returns:
        The p-value; None if fewer than two groups can be compared.
    """
    sizes = np.bincount(codes, minlength=groups).astype(np.float64)
    if np.count_nonzero(sizes) < 2 or np.ptp(values) == 0:
        return None
    if len(values) <= PERMUTED_UP_TO:
        return _permuted_p(values - values.mean(), codes, sizes, seed)
    means = np.bincount(codes, values, groups) / np.maximum(sizes, 1)
    variances = np.bincount(codes, (values - means[codes]) ** 2, groups) / np.maximum(sizes - 1, 1)
    kept = (sizes > 2) & (variances > 0)
    return _welch_p(means[kept], variances[kept], sizes[kept]) if np.count_nonzero(kept) > 1 else None


def _permuted_p(values: Vector64, codes: Rows, sizes: Vector64, seed: int) -> float:
    filled = sizes > 0
    own: NDArray[np.float64] = (codes[:, None] == np.flatnonzero(filled)).astype(np.float64)

    def spread(rows: Matrix64) -> Vector64:
        return np.asarray(((rows @ own) ** 2 / sizes[filled]).sum(axis=1))

    observed = spread(values[None])[0]
    reached = (spread(block) >= observed * (1 - 1e-12) for block in shuffles(values, DRAWS, seed=seed))
    return (sum(map(np.count_nonzero, reached)) + 1) / (DRAWS + 1)


def _welch_p(means: Vector64, variances: Vector64, sizes: Vector64) -> float:
    from scipy.special import fdtrc

    groups = len(means)
    weights = sizes / variances
    total = weights.sum()
    centre = (weights * means).sum() / total
    doubt = float(((1 - weights / total) ** 2 / (sizes - 1)).sum())
    between = float((weights * (means - centre) ** 2).sum()) / (groups - 1)
    statistic = between / (1 + 2 * (groups - 2) / (groups**2 - 1) * doubt)
    return float(fdtrc(groups - 1, (groups**2 - 1) / (3 * doubt), statistic))
