"""Intervals of means, shares, contrasts and ratios of sums, also of clustered values.

Student's t with a correction for skewness. Values that share a word or a template are not independent: they form
clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from evenhand.arrays import Floats, Matrix64, Rows, Vector64
from evenhand.errors import UsageError
from evenhand.stats.bootstrap import LEVEL, RESAMPLES, Interval, wilson

FEWEST = 3  # two values have no skewness, and say next to nothing about their spread
STEEPEST = 0.9  # of 1 / t; nearer to 1 / t the inverse of g is so steep that one outlier decides the width
NO_SPREAD = 1e-12  # of the largest value: what varies less varies by rounding

Limits: TypeAlias = tuple[float, float]
UNLIMITED: Limits = (-np.inf, np.inf)

# Maps (draws, columns) sums to one value per draw; NaN where the statistic is undefined.
SumStatistic: TypeAlias = Callable[[Matrix64], Vector64]
Scale: TypeAlias = Literal["plain", "log", "correlation"]
SCALES: dict[Scale, tuple[np.ufunc, np.ufunc]] = {
    "plain": (np.positive, np.positive),
    "log": (np.log, np.exp),
    "correlation": (np.arctanh, np.tanh),
}


class EstimatorMoments(NamedTuple):
    """Variance and third cumulant of an estimator, and the degrees of freedom of its variance."""

    variance: float
    third: float
    freedom: float

    def interval(self, value: float, *, limits: Limits = UNLIMITED, level: float = LEVEL) -> Interval:
        """Return the interval around an estimate.

        T = (estimate - truth) / error is not Student's t if the values are skewed: a long tail on the right makes the
        mean and its error large together, so that T is skewed to the left. With the skewness `a` of the estimator (that
        of the values over sqrt(n)),

            g(T) = T + a T**2 / 3 + a**2 T**3 / 27 + a / 6

        removes the term of order a from the distribution of T (Hall 1992, "On the removal of skewness by
        transformation"). g increases everywhere, so that the interval is g's inverse at Student's quantiles. Without
        skewness it is Student's interval. Nothing is drawn at random.
        """
        if not 0 < level < 1:
            raise UsageError(f"the confidence level must be between 0 and 1, got {level}", hint="use 0.95 for 95 %")
        if not np.isfinite([value, self.variance, self.third]).all() or not self.freedom > 0:
            return None
        if self.variance <= 0:
            return value, value
        error = self.variance**0.5
        reach = _student(self.freedom, level)
        skewness = float(np.clip(self.third / self.variance**1.5, -STEEPEST / reach, STEEPEST / reach))
        low, high = (value - error * _inverse(end, skewness) for end in (reach, -reach))
        return max(low, limits[0]), min(high, limits[1])

    def share_interval(self, share: float, units: int, *, level: float = LEVEL) -> Interval:
        """Return the interval of a share of `units` clusters or cases, which stays in [0, 1].

        It is Wilson's for the number of independent cases with the same variance, p (1 - p) / variance, and Student's
        quantile (Korn & Graubard 1998 use this number with the exact interval). At 0 and 1, and where every unit has
        the same share, the values say nothing about the variance, and each unit counts as one case.
        """
        if not np.isfinite([share, self.variance]).all() or not self.freedom > 0:
            return None
        if self.variance <= 0 and 0 < share < 1:
            return unanimous_interval(share, units, (0.0, 1.0), level=level)
        inside = 0 < share < 1
        size = share * (1 - share) / self.variance if inside else units
        low, high = wilson(share, size, quantile=_student(self.freedom if inside else np.inf, level)).tolist()
        return max(low, 0.0), min(high, 1.0)


def _student(freedom: float, level: float) -> float:
    from scipy.special import ndtri, stdtrit

    probability = (1 + level) / 2
    return float(ndtri(probability) if np.isinf(freedom) else stdtrit(freedom, probability))


def _inverse(value: float, skewness: float) -> float:
    """Return the T with g(T) = value; g(T) = ((1 + a T / 3) ** 3 - 1) / a + a / 6."""
    if abs(skewness) < 1e-7:  # the limit; the formula would divide rounding errors
        return value
    return float(3 / skewness * (np.cbrt(1 + skewness * (value - skewness / 6)) - 1))


def moments(values: Floats) -> EstimatorMoments:
    """Return the moments of the mean of independent values; those of a constant are 0."""
    numbers = np.asarray(values, dtype=np.float64)
    n = len(numbers)
    away = numbers - numbers.mean()
    if np.abs(away).max() <= NO_SPREAD * np.abs(numbers).max():
        return EstimatorMoments(0.0, 0.0, n - 1)
    # The plain skewness of a sample is too small on average, as it should be here: that of few values is mostly noise.
    skewness = float((away**3).mean() / (away**2).mean() ** 1.5)
    variance = float((away**2).sum()) / (n - 1) / n
    return EstimatorMoments(variance, skewness * variance**1.5 / n**0.5, n - 1)


def mean_interval(values: Floats, *, limits: Limits = UNLIMITED, level: float = LEVEL) -> Interval:
    """Return the interval of a mean (Student's, corrected for skewness); None for fewer than three values.

    Args:
        values: independent values, such as one for each word.
        limits: the smallest and the largest mean that is possible.
        level: confidence level.

    >>> low, high = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> round(low, 4), round(high, 4)  # no skewness: 3 -+ 2.7764 * sqrt(2.5 / 5)
    (1.0368, 4.9632)
    """
    numbers = np.asarray(values, dtype=np.float64)
    if len(numbers) < FEWEST:
        return None
    return moments(numbers).interval(float(numbers.mean()), limits=limits, level=level)


def share_interval(values: Floats, *, level: float = LEVEL) -> Interval:
    """Return the interval of the mean of values from 0 to 1; None for fewer than three.

    Values of 0 and 1 get Wilson's interval. Values between, such as a share of each word, get a narrower one.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if len(numbers) < FEWEST:
        return None
    if ((numbers == 0) | (numbers == 1)).all():
        low, high = wilson(numbers.mean(), len(numbers), quantile=_student(np.inf, level)).tolist()
        return low, high
    return moments(numbers).share_interval(float(numbers.mean()), len(numbers), level=level)


def score_interval(values: Floats, *, limits: Limits, level: float = LEVEL) -> Interval:
    """Return the interval of the mean of discrete scores, such as -1 and 1; None for fewer than three.

    It is that of `mean_interval`, and where all scores are the same that of `unanimous_interval`.
    """
    bounds = mean_interval(values, limits=limits, level=level)
    return unanimous_interval(bounds[0], len(values), limits, level=level) if bounds and np.ptp(bounds) == 0 else bounds


def unanimous_interval(value: float, units: int, limits: Limits, *, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of a score of discrete outcomes to which every unit contributes the same.

    Six items without a stereotype do not show that a seventh has none. Wilson's interval of no deviating unit among
    `units` has the upper end u; if a share u deviated as far as the limits allow, the score would move by u of its
    distance to them. For shares at 0 and 1 this is Wilson's interval.

    >>> [round(end, 2) for end in unanimous_interval(0.0, 6, (-100.0, 100.0))]
    [-39.03, 39.03]
    """
    deviating = float(wilson(0.0, units, quantile=_student(np.inf, level))[1])
    return value - deviating * (value - limits[0]), value + deviating * (limits[1] - value)


def contrast_interval(
    samples: Sequence[Vector64], weights: Sequence[float] | None = None, *, level: float = LEVEL
) -> Interval:
    """Return the interval of a weighted sum of the means of independent samples.

    Variances and third cumulants add up. The degrees of freedom are those of Welch and Satterthwaite, so that the
    samples may differ in spread and size. None if a sample has fewer than three values.

    Args:
        samples: the values of each sample.
        weights: the weight of each mean; 1 by default, (1, -1) for a difference of two.
        level: confidence level.
    """
    if min(map(len, samples)) < FEWEST:
        return None
    factors = [1.0] * len(samples) if weights is None else list(weights)
    value = sum(factor * float(np.mean(sample)) for factor, sample in zip(factors, samples, strict=True))
    return combined(list(map(moments, samples)), factors).interval(value, level=level)


def combined(parts: Sequence[EstimatorMoments], weights: Sequence[float]) -> EstimatorMoments:
    """Return the moments of a weighted sum of independent estimates."""
    variances = [weight**2 * part.variance for part, weight in zip(parts, weights, strict=True)]
    third = sum(weight**3 * part.third for part, weight in zip(parts, weights, strict=True))
    doubt = sum(variance**2 / part.freedom for part, variance in zip(parts, variances, strict=True))
    total = sum(variances)
    return EstimatorMoments(total, third, total**2 / doubt if doubt > 0 else min(part.freedom for part in parts))


def jackknife_interval(
    statistic: SumStatistic,
    columns: Matrix64,
    *,
    strata: Rows | None = None,
    scale: Scale = "plain",
    skewed: bool = True,
    limits: Limits = UNLIMITED,
    share_of: float | None = None,
    level: float = LEVEL,
) -> Interval:
    """Return the interval of a function of column sums over independent units; None for fewer than three units.

    Ratios, correlations and slopes are such functions. Leaving out one unit at a time gives pseudo-values, which are to
    the statistic what the values are to a mean (Tukey 1958); their variance and skewness make the interval, around the
    statistic itself.

    Args:
        statistic: maps (draws, columns) sums to values.
        columns: numbers of each unit, (units, columns).
        strata: the number of the set of each unit, from 0, where sets of fixed sizes vary by themselves. The variances
            of the sets add up, and the degrees of freedom are Satterthwaite's. Each set needs three units or more.
        scale: where the interval is made: "log" for positive values, "correlation" for Fisher's z.
        skewed: whether to correct for skewness. False for statistics of products, such as correlations and slopes: the
            skewness of their heavy-tailed pseudo-values is mostly noise.
        limits: the smallest and the largest possible value.
        share_of: for a share, its largest value, 1 or 100. The interval is Wilson's for the effective number of units.
        level: confidence level.
    """
    codes = np.zeros(len(columns), dtype=np.int64) if strata is None else strata
    sizes = np.bincount(codes)
    if not len(columns) or sizes.min() < FEWEST:
        return None
    forth, back = SCALES[scale]
    totals = columns.sum(axis=0)
    with np.errstate(all="ignore"):
        plain = np.concatenate([statistic(totals[None]), statistic(totals - columns)])
        values = np.asarray(forth(plain), dtype=np.float64)
    if share_of is None and np.ptp(plain) <= NO_SPREAD * np.abs(plain).max():
        return float(plain[0]), float(plain[0])
    if not np.isfinite(values).all():
        return None
    whole, pseudo = float(values[0]), sizes[codes] * values[0] - (sizes[codes] - 1) * values[1:]
    spread = combined([moments(pseudo[codes == code]) for code in range(len(sizes))], [1.0] * len(sizes))
    if share_of is not None:
        bounds = spread._replace(variance=spread.variance / share_of**2).share_interval(
            whole / share_of, len(columns), level=level
        )
        return (bounds[0] * share_of, bounds[1] * share_of) if bounds else None
    bounds = (spread if skewed else spread._replace(third=0.0)).interval(whole, level=level)
    if bounds is None:
        return None
    low, high = (float(back(bound)) for bound in bounds)
    return max(low, limits[0]), min(high, limits[1])


MAX_CELLS = 50_000_000  # of the table of cluster combinations: 400 MB
CELLS_AT_ONCE = 4 << 20
EXTREME, ENOUGH_CLUSTERS = 0.1, 25  # where the interval of a share by two kinds of clusters is approximate


def cluster_weights(
    clusters: Sequence[Sequence[Hashable]], count: int = RESAMPLES, *, seed: int = 0
) -> tuple[Matrix64, ...]:
    """Return how often each cluster is drawn: (count, clusters) weights per clustering, in order of appearance.

    The weight of a value is the product of the weights of its clusters, one per clustering (pigeonhole bootstrap, Owen
    2007). With one clustering this is the usual cluster bootstrap; if every value is its own cluster, it is the
    ordinary bootstrap.
    """
    rng = np.random.default_rng(seed)
    sizes = [int(codes.max()) + 1 for codes in _coded(clusters)]
    return tuple(rng.multinomial(size, np.full(size, 1 / size), size=count).astype(np.float64) for size in sizes)


def clustered_means(
    values: Floats, clusters: Sequence[Sequence[Hashable]], *, count: int = RESAMPLES, seed: int = 0
) -> Matrix64:
    """Return the mean of the values in each cluster bootstrap draw: (count,), or (count, columns) for a matrix.

    `clusters` has one label per value in each clustering: `[words]`, or `[words, templates]` to resample both. Columns
    are resampled together, so differences between them (before and after) stay paired. A draw without any value has
    mean NaN. Values are first summed by combination of clusters, so the cost depends on the number of combinations.
    """
    columns = np.asarray(values, dtype=np.float64)
    matrix = columns.reshape(len(columns), -1)
    sums = clustered_sums(np.column_stack([matrix, np.ones(len(matrix))]), clusters, count=count, seed=seed)
    means = np.divide(sums[:, :-1], sums[:, -1:], out=np.full_like(sums[:, :-1], np.nan), where=sums[:, -1:] > 0)
    return means[:, 0] if columns.ndim == 1 else means


def clustered_sums(
    values: Matrix64, clusters: Sequence[Sequence[Hashable]], *, count: int = RESAMPLES, seed: int = 0
) -> Matrix64:
    """Return the sum of each column in each cluster bootstrap draw, (count, columns); see `clustered_means`."""
    codes = _coded(clusters)
    if any(len(code) != len(values) for code in codes):
        raise UsageError(f"{len(values)} values need {len(values)} labels in each clustering")
    return _contracted(_table(values, codes), cluster_weights(clusters, count, seed=seed))


def cluster_moments(values: Floats, clusters: Sequence[Sequence[Hashable]]) -> EstimatorMoments:
    """Return the moments of the mean of values that share one or two kinds of clusters.

    A cluster contributes the sum of its deviations from the mean. With two clusterings, the variance is the sum of both
    minus that of the combinations, which both contain (Cameron, Gelbach & Miller 2011), and not below the larger one.
    The pigeonhole bootstrap counts the combinations three times and is too wide where they matter.
    """
    codes = _coded(clusters)
    numbers = np.asarray(values, dtype=np.float64)
    if any(len(code) != len(numbers) for code in codes):
        raise UsageError(f"{len(numbers)} values need {len(numbers)} labels in each clustering")
    if len(codes) > 2:
        raise UsageError(f"intervals are defined for one or two clusterings, got {len(codes)}")
    parts = [_one_way(numbers, code) for code in codes]
    if len(parts) == 1:
        return parts[0]
    both = combined(parts, [1.0, 1.0])
    cells = _one_way(numbers, codes[0] * (int(codes[1].max()) + 1) + codes[1])
    largest = max(part.variance for part in parts)
    variance = max(both.variance - cells.variance, largest)
    return both._replace(variance=variance, third=both.third - cells.third)


def clustered_interval(
    values: Floats, clusters: Sequence[Sequence[Hashable]], *, limits: Limits = UNLIMITED, share: bool = False
) -> Interval:
    """Return the interval of a mean over clusters; None for fewer than three clusters in some clustering.

    Args:
        values: one number for each case.
        clusters: one label per value in each clustering, as in `clustered_means`.
        limits: the smallest and the largest possible mean.
        share: whether the values are shares from 0 to 1, whose interval is Wilson's for the effective number of cases.
    """
    units = min(len(set(labels)) for labels in clusters)
    if units < FEWEST:
        return None
    spread, mean = cluster_moments(values, clusters), float(np.mean(values))
    return spread.share_interval(mean, units) if share else spread.interval(mean, limits=limits)


def crossed_share_note(share: float, clusters: Sequence[Sequence[Hashable]]) -> str:
    """Return what to say beside the interval of a share by two kinds of clusters where it is not a 95 % interval.

    In simulation that is near 0 and 1, with few clusters of some kind (`docs/explanation/intervals.md`).
    """
    extreme = 0 < share <= EXTREME or 1 - EXTREME <= share < 1
    fewest = min(len(set(labels)) for labels in clusters)
    if len(clusters) < 2 or not extreme or fewest >= ENOUGH_CLUSTERS:
        return ""
    return (
        f"the interval of a share this near to 0 or 1, with {fewest} clusters of one kind, is approximate: it covers "
        "86 to 98 % in simulation, least where clusters differ much"
    )


def _one_way(values: Vector64, codes: Rows) -> EstimatorMoments:
    """Return the moments of the mean when whole clusters vary: those of the sums of deviations, times their number."""
    _, codes = np.unique(codes, return_inverse=True)
    away = values - values.mean()
    if np.abs(away).max() <= NO_SPREAD * np.abs(values).max():
        away = np.zeros_like(away)
    sums = np.bincount(codes, weights=away)
    return moments(sums * (len(sums) / len(values)))


def _coded(clusters: Sequence[Sequence[Hashable]]) -> tuple[Rows, ...]:
    """Return the labels as integers from 0, in order of appearance."""
    if not clusters or isinstance(clusters[0], str) or not len(clusters[0]):
        raise UsageError("clusters must be one or more lists of labels, one label per value", hint="use [words]")
    return tuple(_codes(labels) for labels in clusters)


def _codes(labels: Sequence[Hashable]) -> Rows:
    seen: dict[Hashable, int] = {}
    return np.array([seen.setdefault(label, len(seen)) for label in labels], dtype=np.int64)


def _table(columns: Matrix64, codes: tuple[Rows, ...]) -> Matrix64:
    """Sum each column over each combination of clusters: (clusters, ..., columns)."""
    shape = tuple(int(code.max()) + 1 for code in codes)
    if math.prod(shape) * columns.shape[1] > MAX_CELLS:
        raise UsageError(
            f"{' x '.join(map(str, shape))} combinations of clusters are too many", hint="use fewer clusterings"
        )
    flat = np.ravel_multi_index(codes, shape)
    sums = [np.bincount(flat, weights=column, minlength=math.prod(shape)) for column in columns.T]
    return np.stack(sums, axis=-1).astype(np.float64).reshape(*shape, columns.shape[1])


def _contracted(table: Matrix64, weights: tuple[Matrix64, ...]) -> Matrix64:
    """Contract the table with the weights, one clustering after the other, in blocks of draws."""
    draws, columns = len(weights[0]), table.shape[-1]
    first = table.reshape(table.shape[0], -1)
    step = max(1, CELLS_AT_ONCE // first.shape[1])
    out = np.empty((draws, columns))
    for start in range(0, draws, step):
        part = weights[0][start : start + step] @ first
        for weight in weights[1:]:
            block = weight[start : start + step]
            part = np.einsum("bl,blr->br", block, part.reshape(len(block), block.shape[1], -1))
        out[start : start + step] = part
    return out
