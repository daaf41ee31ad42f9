"""WEAT: are two sets of target words differently near to two sets of attribute words? (Caliskan et al. 2017).

Its generalisation compares any number of sets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.association.located_query import ROUNDING, locate_query
from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import contrast_interval
from evenhand.stats.bootstrap import LEVEL, Interval, normal_quantile
from evenhand.stats.means import NO_SPREAD
from evenhand.stats.permutation import Alternative, Ties, permutation_test
from evenhand.stats.units import contrast_units, effect_size_units
from evenhand.words import Query

EQUAL_SETS_BOUND = 2.0
WEAT_INFO = Info(
    id="weat",
    title="Word Embedding Association Test",
    takes="query",
    better="zero",
    null=0.0,
    formula="d = (mean_X s - mean_Y s) / sd_{X u Y} s,  s(w) = mean_A cos(w, a) - mean_B cos(w, b)",
    reading=(
        "Above 0: the first targets are nearer to the first attributes. Between -2 and 2 for targets of equal size; "
        "up to (|X| + |Y|) / sqrt(|X| |Y|) for targets of unequal size, see `bound` in the details."
    ),
    limits=(
        "It tells nothing about words outside the four sets; it can be made large by choosing the sets (Ethayarajh "
        "2019: single-word targets always give 2 or -2), and it depends on word frequency through vector lengths."
    ),
    cites=("caliskan2017", "ethayarajh2019"),
    queries=("weat-6", "weat-7", "weat-8", "weat-1", "weat-2", "weat-3", "weat-4", "weat-5", "weat-9", "weat-10"),
    arity=(2, 2),
    one_against_rest=True,
    definition=3,
    in_tradeoff=True,
    plain=1,
    charts=("effect-sizes",),
    effect_size=True,
    ticked=("vectors",),
)


@measure(WEAT_INFO)
def weat(
    call: Call,
    vectors: Vectors,
    query: Query | str,
    *,
    ddof: int = 0,
    alternative: Alternative = "two-sided",
    ties: Ties = "ge",
    samples: int = 10_000,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the effect size, with a permutation p-value and an interval over target words.

    A set that keeps less than `min_share` of its words is not measured. Missing words may leave targets of unequal
    size: the difference of means stays comparable then; the paper's statistic, a difference of sums, does not. A word
    of both targets counts on both sides.

    Args:
        vectors: the vectors to measure.
        query: two target sets and two attribute sets.
        ddof: 0 divides by the population standard deviation over all targets, as Caliskan et al. do; 1 by that of a
            sample, as the SEAT code and others do.
        alternative: "two-sided" counts the re-partitions of the targets, each side keeping its size, whose difference
            of means is at least as large in either direction. "greater" counts one direction, as the paper does;
            "less" the other.
        ties: "ge" counts differences equal to the observed one, "gt" only larger ones, as the paper prints it.
        samples: number of random partitions where there are more than 200,000; up to that all are counted (8 + 8 words
            have 12,870).
        min_share: smallest share of each set that the vocabulary must have.
        reference: vectors before mitigation.
        seed: seed of the permutations.

    Returns:
        The effect size d with its interval over the choice of target words (see `weat_interval`), and the association
        s(w) of each target word in `items`. `details` has the paper's statistic, the difference of means, and the
        largest |d| that sets of these sizes can have (`bound`).

    What it does not tell you: whether the vectors are biased in general. See `evenhand show weat`.
    """
    if ddof not in (0, 1):
        raise UsageError(f"ddof must be 0 (population) or 1 (sample), got {ddof!r}")
    located = locate_query(vectors, query, targets=2, attributes=2)
    positive = f"{located.targets[0].name} with {located.attributes[0].name}"
    call.describe(located.query, positive=positive, coverage=located.coverage)
    call.require(located.lists(), min_share)
    located.require_distinct_means()
    x, y, a, b = (unit_rows(group.rows) for group in located.sets)
    s_x, s_y = association(x, a, b), association(y, a, b)
    effect = effect_size(s_x, s_y, ddof)
    if effect is None:
        raise DegenerateError("all targets have the same association: the standard deviation is 0")
    test = permutation_test(s_x, s_y, alternative=alternative, ties=ties, samples=samples, seed=seed)
    bound = largest_effect(len(s_x), len(s_y), ddof)
    return call.measurement(
        effect,
        len(s_x) + len(s_y),
        interval=effect_size_interval(s_x, s_y, ddof=ddof),
        p_value=test.p_value,
        reading=_reading(located.query, effect, (len(s_x), len(s_y)), bound, alternative),
        items=located.target_items(np.concatenate([s_x, s_y])),
        units=(effect_size_units("word", located.targets[0].words, located.targets[1].words, s_x, s_y, ddof=ddof),),
        details={
            "statistic": float(s_x.sum() - s_y.sum()),
            "mean_difference": float(s_x.mean() - s_y.mean()),
            "bound": bound,
            "partitions": test.partitions,
            "exact": test.exact,
            **located.details(),
        },
    )


def association(words: Matrix64, a: Matrix64, b: Matrix64) -> Vector64:
    """Return s(w): mean cosine with A minus mean cosine with B, for unit rows; the mean of cosines is one product."""
    return np.asarray(words @ (a.mean(axis=0) - b.mean(axis=0)), dtype=np.float64)


def effect_size(s_x: Vector64, s_y: Vector64, ddof: int = 0) -> float | None:
    """Return the effect size d of two sets of associations; None where they do not vary."""
    deviation = float(np.concatenate([s_x, s_y]).std(ddof=ddof))
    return float(s_x.mean() - s_y.mean()) / deviation if deviation > ROUNDING else None


def largest_effect(n_x: int, n_y: int, ddof: int = 0) -> float:
    """Return the largest |d| that target sets of these sizes allow.

    The variance over all targets is at least that between the two means, n_x n_y (difference / N)^2, so that
    |d| <= N / sqrt(n_x n_y), times sqrt((N - 1) / N) with `ddof=1`. For equal sizes and `ddof=0` it is 2.

    >>> largest_effect(8, 8), round(largest_effect(2, 8), 3)
    (2.0, 2.5)
    """
    total = n_x + n_y
    return math.sqrt(total * (total - ddof) / (n_x * n_y))


def _reading(query: Query, effect: float, sizes: tuple[int, int], bound: float, alternative: Alternative) -> str:
    near, far = query.attributes if effect >= 0 else query.attributes[::-1]
    first, second = query.targets
    reading = f"the vectors associate {first.name} with {near.name}, {second.name} with {far.name}"
    if abs(effect) > EQUAL_SETS_BOUND + ROUNDING:
        reading += f"; beyond 2 because {sizes[0]} and {sizes[1]} targets allow up to {bound:.2f}"
    if alternative != "two-sided":
        reading += f"; the p-value is one-sided ({alternative})"
    return reading


FEWEST = 3  # words a side: fewer say nothing about the spread
INFLATION = 2.0
PRIOR_WORDS = 15
NARROWEST = 0.25  # the variance is never taken below this share of that of normal scores
BISECTIONS = 40  # to a relative precision of 1e-12
TAIL = 40.0  # a weight of exp(-40) is below the precision of the sum
LARGEST_T = 30.0  # of the trapezoidal rule: the number of its steps grows with t


def effect_size_interval(s_x: Vector64, s_y: Vector64, *, ddof: int = 0, level: float = LEVEL) -> Interval:
    """Return the interval of WEAT's d over target words; None for fewer than three words or no spread within a side.

    Attributes and vectors are fixed; no random numbers are used. The point estimate d is biased away from 0 in small
    samples (by .025 at d = 1.65 with 8 + 8 words), so that it is above the middle of the interval.

    Args:
        s_x: the association of each word of the first target set.
        s_y: the association of each word of the second target set.
        ddof: that of the value. With 1 the interval shrinks by sqrt((N - 1) / N), as d does.
        level: share of samples whose interval covers the population's d.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> low, high = effect_size_interval(rng.normal(1.0, 1.0, 8), rng.normal(-1.0, 1.0, 8))
    >>> -2 < low < high < 2
    True
    """
    n_x, n_y = len(s_x), len(s_y)
    if min(n_x, n_y) < FEWEST:
        return None
    total = n_x + n_y
    p, q = n_x / total, n_y / total
    x, y = _moments(s_x), _moments(s_y)
    within = p * x.variance + q * y.variance
    if not within > (NO_SPREAD * max(float(np.abs(s_x).max()), float(np.abs(s_y).max()))) ** 2:
        return None
    delta = float(s_x.mean() - s_y.mean()) / math.sqrt(within)
    scale = (x.variance / n_x + y.variance / n_y) / within
    spread = 2 * (p**2 * x.variance**2 / (n_x - 1) + q**2 * y.variance**2 / (n_y - 1)) / within**2
    kurtosis = p * x.kurtosis + q * y.kurtosis
    tails = kurtosis * (p**2 * x.variance**2 / n_x + q**2 * y.variance**2 / n_y) / within**2
    skewness = (p * x.third / n_x - q * y.third / n_y) / within**1.5
    extra = (delta**2 / 4 * tails - delta * skewness) / (scale + delta**2 / 4 * spread)
    extra *= INFLATION if extra > 0 else total / (total + PRIOR_WORDS)
    quantile = normal_quantile((1 + level) / 2) * math.sqrt(max(1 + extra, NARROWEST))
    bounds = noncentralities(delta / math.sqrt(scale), 2 / spread, quantile)
    low, high = (bound * math.sqrt(scale) for bound in bounds)
    shrink = math.sqrt((total - ddof) / total)
    return shrink * low / math.sqrt(1 + p * q * low**2), shrink * high / math.sqrt(1 + p * q * high**2)


class _Moments(NamedTuple):
    """Unbiased variance and third cumulant, and excess kurtosis (0 for fewer than four values)."""

    variance: float
    third: float
    kurtosis: float


def _moments(values: Vector64) -> _Moments:
    n, deviations = len(values), values - values.mean()
    second, third, fourth = (float((deviations**power).mean()) for power in (2, 3, 4))
    variance = n / (n - 1) * second
    third_cumulant = n**2 / ((n - 1) * (n - 2)) * third
    if n < 4 or not variance > 0:
        return _Moments(variance, third_cumulant, 0.0)
    fourth_cumulant = n**2 * ((n + 1) * fourth - 3 * (n - 1) * second**2) / ((n - 1) * (n - 2) * (n - 3))
    return _Moments(variance, third_cumulant, fourth_cumulant / variance**2)


def noncentralities(t: float, freedom: float, quantile: float) -> tuple[float, float]:
    """Return the noncentralities at which t is `quantile` normal deviates above and below the median."""
    low = _noncentrality(t, freedom, _normal_share(quantile), -1)
    return low, _noncentrality(t, freedom, _normal_share(-quantile), 1)


def _noncentrality(t: float, freedom: float, probability: float, side: int) -> float:
    """Return where P(T <= t), which falls with the noncentrality, has a given value; by bisection."""
    if t < 0:  # use the mirror image, for which the distribution function is accurate
        return -_noncentrality(-t, freedom, 1 - probability, -side)

    share_below = noncentral_t(t, freedom)

    def excess(noncentrality: float) -> float:
        return (share_below(noncentrality) - probability) * side

    step = math.sqrt(1 + t * t / (2 * freedom))
    inner, outer = t, t + side * step
    while excess(outer) > 0:
        inner, outer, step = outer, outer + side * 2 * step, 2 * step
    if excess(inner) < 0:  # t itself is outside, which happens in small samples
        inner = t - side * 4 * step
    for _ in range(BISECTIONS):
        middle = (inner + outer) / 2
        if excess(middle) > 0:
            inner = middle
        else:
            outer = middle
    return (inner + outer) / 2


def noncentral_t(t: float, freedom: float) -> Callable[[float], float]:
    """Return the function from a noncentrality to P(T <= t), for t >= 0 and two degrees of freedom or more.

    T <= t where a normal variable is below t y - noncentrality, y being sqrt(chi2 / freedom). The trapezoidal rule over
    log y converges faster than any power of its step. `scipy.special.nctdtr` gives the same, but to import it takes
    longer than the rest of a first measure. Sets that are far apart need too many steps, and are left to it.
    """
    if t > LARGEST_T:
        from scipy.special import nctdtr

        return lambda noncentrality: float(nctdtr(freedom, noncentrality, t))
    reach = math.sqrt(TAIL / freedom)
    step = min(1 / math.sqrt(2 * freedom), 1 / max(t, 1.0)) / 4
    logs = np.arange(-reach - TAIL / freedom, reach + step, step)
    weights = np.exp(freedom * (logs - np.expm1(2 * logs) / 2))
    weights /= weights.sum()
    limits = t * np.exp(logs)
    return lambda noncentrality: float(weights @ [_normal_share(limit) for limit in (limits - noncentrality).tolist()])


def _normal_share(limit: float) -> float:
    """Return the share of a standard normal variable below a limit."""
    return math.erfc(-limit / math.sqrt(2)) / 2


TIES_WITHIN = 1e-12
GENERALISED_WEAT_INFO = Info(
    id="generalised-weat",
    title="Generalised WEAT",
    takes="query",
    better="zero",
    formula="g = sum_i <mean X_i - mean X, mean A_i - mean A>, means of unit vectors; mean X, mean A: over the sets",
    reading="Above 0: each target set is nearer to its own attribute set than the sets are on average.",
    limits=(
        "One strong pair of sets can carry the sum: see by_set. It is not an effect size: it has no fixed scale. It "
        "needs as many attribute sets as target sets, in the same order."
    ),
    cites=("swinger2019",),
    matched_sets=True,
    one_against_rest=True,
    definition=4,
)


@measure(GENERALISED_WEAT_INFO)
def generalised_weat(
    call: Call,
    vectors: Vectors,
    query: Query | str,
    *,
    alternative: Alternative = "two-sided",
    samples: int = 10_000,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the summed association of each target set with the attribute set at the same position.

    For two sets it is half of WEAT's difference of means. It is undefined where the numbers of target and attribute
    sets differ, as in the generic queries of a concept with three groups.

    Args:
        vectors: the vectors to measure.
        query: two or more target sets and as many attribute sets.
        alternative: "two-sided" counts shuffles whose sum is at least as far from 0, "greater" and "less" those in one
            direction. Target words are shuffled between the sets, each set keeping its size; the observed assignment
            counts too: (b + 1) / (m + 1). Swinger et al. rotate the attribute vectors instead, one-sided.
        samples: number of shuffles.
        min_share: smallest share of each set that the vocabulary must have.
        reference: vectors before mitigation.
        seed: seed of the shuffles.

    Returns:
        The sum g, with the part of each set in `details["by_set"]`.

    What it does not tell you: which of the sets are associated; and nothing about words outside them.
    """
    if samples < 1:
        raise UsageError(f"samples must be at least 1, got {samples}")
    located = locate_query(vectors, query, targets=None, attributes=None)
    call.describe(located.query, positive="each target with its own attribute", coverage=located.coverage)
    n_targets, n_attributes = located.query.arity
    if n_targets != n_attributes or n_targets < 2:
        concept = f" about {located.query.concept}" if located.query.concept else ""
        raise DegenerateError(
            f"generalised WEAT needs as many target sets as attribute sets, two or more; "
            f"{located.query.name}{concept} has {n_targets} and {n_attributes}"
        )
    call.require(located.lists(), min_share)
    located.require_distinct_means()
    attribute_means = np.stack([unit_rows(group.rows).mean(axis=0) for group in located.attributes])
    deviations = attribute_means - attribute_means.mean(axis=0)
    # the deviations of the attribute means add up to 0, so that the mean of the targets drops out of the sum
    scores = np.concatenate([unit_rows(group.rows) for group in located.targets]) @ deviations.T
    sizes = [len(group.words) for group in located.targets]
    own = _own_scores(scores, sizes)
    parts = _set_means(scores, np.arange(len(scores))[None], sizes)[0]
    value = float(parts.sum())
    relation = "is associated with its own" if value >= 0 else "is associated with other sets than its own"
    one_sided = "" if alternative == "two-sided" else f"; the p-value is one-sided ({alternative})"
    return call.measurement(
        value,
        len(scores),
        interval=contrast_interval(own),  # the sum is one of means of independent samples
        p_value=_p_value(_shuffled_sums(scores, sizes, samples, seed), value, alternative),
        reading=f"summed over the sets, each target {relation} by {abs(value):.3f}{one_sided}",
        units=(contrast_units("word", [group.words for group in located.targets], own),),
        details={
            "by_set": {group.name: float(part) for group, part in zip(located.targets, parts, strict=True)},
            **located.details(),
        },
    )


def _set_means(scores: Matrix64, rows: Rows, sizes: list[int]) -> Matrix64:
    """Return for each assignment of words the mean score of each set with its own attribute: (draws, sets)."""
    ends = np.cumsum(sizes)
    spans = zip(ends - sizes, ends, strict=True)
    means = [scores[rows[:, start:end], column].mean(axis=1) for column, (start, end) in enumerate(spans)]
    return np.stack(means, axis=1)


def _shuffled_sums(scores: Matrix64, sizes: list[int], samples: int, seed: int) -> Vector64:
    order = np.broadcast_to(np.arange(len(scores)), (samples, len(scores)))
    shuffled = np.random.default_rng(seed).permuted(order, axis=1)
    return np.asarray(_set_means(scores, shuffled, sizes).sum(axis=1))


def _p_value(sums: Vector64, value: float, alternative: Alternative) -> float:
    """Return the share of sums at least as extreme; under the null they are centred at 0."""
    if alternative == "two-sided":
        sums, value = np.abs(sums), abs(value)
    elif alternative == "less":
        sums, value = -sums, -value
    return float((np.count_nonzero(sums >= value - TIES_WITHIN) + 1) / (len(sums) + 1))


def _own_scores(scores: Matrix64, sizes: list[int]) -> list[Vector64]:
    """Return the scores of the words of each set with its own attribute."""
    parts = np.split(scores, np.cumsum(sizes)[:-1])
    return [part[:, column] for column, part in enumerate(parts)]
