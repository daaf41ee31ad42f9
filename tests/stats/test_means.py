"""Intervals of means, shares, contrasts and functions of sums: hand examples, laws, and their limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from evenhand.errors import UsageError
from evenhand.stats import contrast_interval, jackknife_interval, mean_interval, share_interval, wilson
from evenhand.stats.means import EstimatorMoments, moments

LISTS = st.lists(st.floats(-100, 100, allow_nan=False), min_size=3, max_size=12).filter(lambda x: np.ptp(x) > 1e-3)


def ratio(sums: np.ndarray) -> np.ndarray:
    return np.asarray(sums[:, 0] / sums[:, 1])


def test_without_skewness_it_is_students_interval() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    expected = scipy_stats.t.interval(0.95, 4, values.mean(), values.std(ddof=1) / 5**0.5)
    assert mean_interval(values) == pytest.approx(expected)


def test_skewness_by_hand() -> None:
    """Of 0, 0, 3: mean 1, error 1, skewness .7071, of the mean a = .7071 / sqrt(3) = .4082; t(2, .975) = 4.302653,
    and a is limited to .9 / t = .2092."""
    t, a = 4.302653, 0.9 / 4.302653
    low, high = (1 - 3 / a * (np.cbrt(1 + a * (sign * t - a / 6)) - 1) for sign in (1, -1))
    assert mean_interval([0.0, 0.0, 3.0]) == pytest.approx((low, high), abs=1e-5)


def test_the_bounds_solve_the_equation_that_defines_them() -> None:
    for third in (0.3, -0.2, 1e-9):
        found = EstimatorMoments(1.0, third, 10)
        t = scipy_stats.t.ppf(0.975, 10)
        for bound, end in zip(found.interval(5.0), (t, -t), strict=True):
            z = 5.0 - bound
            assert z + third * z**2 / 3 + third**2 * z**3 / 27 + third / 6 == pytest.approx(end, abs=1e-6)


@given(LISTS)
def test_the_interval_moves_and_scales_with_the_values(values: list[float]) -> None:
    low, high = mean_interval(values) or (math.nan, math.nan)
    assert low < high
    assert mean_interval([-value for value in values]) == pytest.approx((-high, -low))
    assert mean_interval([2 * value + 7 for value in values]) == pytest.approx((2 * low + 7, 2 * high + 7), abs=1e-6)


def test_a_tail_pulls_the_interval_towards_it() -> None:
    values = np.random.default_rng(0).exponential(size=20)
    low, high = mean_interval(values) or (0.0, 0.0)
    assert high - values.mean() > values.mean() - low


def test_constants_few_values_limits_and_bad_levels() -> None:
    assert mean_interval([2.0, 2.0, 2.0]) == (2.0, 2.0)
    assert mean_interval([1.0, 2.0]) is None
    assert share_interval([1.0, 1.0]) is None
    assert contrast_interval([np.ones(5), np.ones(2)]) is None
    assert mean_interval([0.0, 0.1, 0.9], limits=(0.0, 1.0)) == (0.0, 1.0)
    with pytest.raises(UsageError, match="confidence level"):
        mean_interval([1.0, 2.0, 4.0], level=95)


def test_a_share_of_ones_and_zeros_has_wilsons_interval_and_is_no_point_at_the_ends() -> None:
    assert share_interval([1.0] * 8 + [0.0] * 2) == pytest.approx(tuple(wilson(0.8, 10)))
    low, high = share_interval(np.ones(20)) or (1.0, 1.0)
    assert high == 1.0
    assert 0.8 < low < 0.9
    graded = share_interval(np.tile([0.7, 0.9], 10)) or (0.0, 1.0)
    binary = share_interval([1.0] * 16 + [0.0] * 4) or (0.0, 1.0)
    assert binary[0] < graded[0] < 0.8 < graded[1] < binary[1]
    assert share_interval([0.5, 0.5, 0.5]) == (0.5, 0.5)


def test_the_contrast_of_two_means_is_welchs_interval() -> None:
    x, y = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([10.0, 30.0, 50.0])
    welch = scipy_stats.ttest_ind(x, y, equal_var=False).confidence_interval()
    assert contrast_interval([x, y], [1.0, -1.0]) == pytest.approx((welch.low, welch.high))


def test_a_single_sample_is_the_plain_mean() -> None:
    values = np.random.default_rng(1).exponential(size=9)
    assert contrast_interval([values]) == pytest.approx(mean_interval(values))
    ones = np.stack([values, np.ones(9)], axis=1)
    assert jackknife_interval(ratio, ones) == pytest.approx(mean_interval(values))


def test_the_jackknife_of_sets_is_the_contrast_of_their_means() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=6), rng.exponential(size=11)
    codes = np.repeat([0, 1], [6, 11])
    own = codes[:, None] == np.arange(2)
    columns = np.concatenate([own * np.r_[x, y][:, None], own], axis=1).astype(float)
    found = jackknife_interval(lambda s: s[:, 0] / s[:, 2] - s[:, 1] / s[:, 3], columns, strata=codes)
    assert found == pytest.approx(contrast_interval([x, y], [1.0, -1.0]))


def test_scales_keep_their_range_and_perfect_fits_are_points() -> None:
    rng = np.random.default_rng(3)
    positive = np.stack([rng.exponential(size=6), np.ones(6)], axis=1)
    low, high = jackknife_interval(ratio, positive, scale="log") or (0.0, 0.0)
    assert 0 < low < positive[:, 0].mean() < high
    assert jackknife_interval(ratio, np.ones((5, 2)), scale="correlation") == (1.0, 1.0)
    assert jackknife_interval(ratio, np.zeros((5, 2))) is None
    assert jackknife_interval(ratio, positive[:2]) is None


def test_moments_of_a_mean_by_hand() -> None:
    assert moments([0.0, 0.0, 3.0]) == pytest.approx((1.0, 1 / 6**0.5, 2))
