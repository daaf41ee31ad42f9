"""An interval of WEAT's effect size over target words: the noncentral t, corrected for skewness and kurtosis.

Target words are samples of two populations of words, with means m_x and m_y, variances v_x and v_y, and shares
p = n_x / (n_x + n_y), q = 1 - p. As the samples grow in a fixed ratio, WEAT's d tends to

    d = (m_x - m_y) / sqrt(w + p q (m_x - m_y)^2),    w = p v_x + q v_y,

for `ddof` 0 and 1 alike. It is bounded by 1 / sqrt(p q), which is 2 for sets of equal size. Cohen's effect size
delta = (m_x - m_y) / sqrt(w) and d determine each other: d = delta / sqrt(1 + p q delta^2).

A bootstrap of d fails near the bound, because resamples of 8 words vary too little. For normal scores of equal
variance, delta_hat / sqrt(c) with c = (s_x^2 / n_x + s_y^2 / n_y) / w_hat has a noncentral t distribution with
noncentrality delta / sqrt(c), and inverting its distribution function is exact at any size. Three corrections follow:

1. Unequal variances: degrees of freedom by Satterthwaite, 2 w^2 / var(w_hat).
2. Skewness and kurtosis change the variance of delta_hat, to first order, by the relative amount
   e = (delta^2 / 4 * kurtosis part of var(w_hat) / w^2 - delta * cov(m_x - m_y, w_hat) / w^(3/2))
   / (c + delta^2 / 4 * var(w_hat) / w^2). The normal quantile z becomes z * sqrt(1 + e).
3. Third and fourth moments of a few words are poorly known, and too small for a long tail. So a positive e is doubled,
   and a negative e is multiplied by N / (N + 15).

In simulation 95 % intervals cover the population's d in 92 to 98 % of samples: 6 to 40 words a side, d from 0 to 1.9,
equal and unequal sets, ratios of standard deviations up to 2, normal, uniform and skewed scores (skewness up to 1). The
percentile bootstrap covers it in 53 to 95 %.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Vector64
from evenhand.stats.bootstrap import LEVEL, Interval

FEWEST = 3  # words a side: fewer say nothing about the spread
INFLATION = 2.0
PRIOR_WORDS = 15
NARROWEST = 0.25  # the variance is never taken below this share of that of normal scores
NO_SPREAD = 1e-12  # of the largest score: what varies less varies by rounding
BISECTIONS = 40  # to a relative precision of 1e-12


def effect_size_interval(s_x: Vector64, s_y: Vector64, *, level: float = LEVEL) -> Interval:
    """Return the interval of WEAT's d over target words; None for fewer than three words or no spread within a side.

    Attributes and vectors are fixed; no random numbers are used. The point estimate d is biased away from 0 in small
    samples (by .025 at d = 1.65 with 8 + 8 words), so that it is above the middle of the interval.

    Args:
        s_x: the association of each word of the first target set.
        s_y: the association of each word of the second target set.
        level: share of samples whose interval covers the population's d.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> low, high = effect_size_interval(rng.normal(1.0, 1.0, 8), rng.normal(-1.0, 1.0, 8))
    >>> -2 < low < high < 2
    True
    """
    from scipy.special import ndtri

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
    quantile = float(ndtri((1 + level) / 2)) * math.sqrt(max(1 + extra, NARROWEST))
    bounds = noncentralities(delta / math.sqrt(scale), 2 / spread, quantile)
    low, high = (bound * math.sqrt(scale) for bound in bounds)
    return low / math.sqrt(1 + p * q * low**2), high / math.sqrt(1 + p * q * high**2)


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
    from scipy.special import ndtr

    low = _noncentrality(t, freedom, float(ndtr(quantile)), -1)
    return low, _noncentrality(t, freedom, float(ndtr(-quantile)), 1)


def _noncentrality(t: float, freedom: float, probability: float, side: int) -> float:
    """Return where P(T <= t), which falls with the noncentrality, has a given value; by bisection."""
    from scipy.special import nctdtr

    if t < 0:  # use the mirror image, for which the distribution function is accurate
        return -_noncentrality(-t, freedom, 1 - probability, -side)

    def excess(noncentrality: float) -> float:
        return (float(nctdtr(freedom, noncentrality, t)) - probability) * side

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
