"""Correlations and slopes."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats as scipy_stats

from evenhand.errors import DegenerateError, UsageError
from evenhand.stats import pearson, spearman, theil_sen
from evenhand.stats.correlation import mean_ranks, spearman_rows

RNG = np.random.default_rng(0)
X = RNG.normal(size=30)
Y = X + RNG.normal(size=30)
whole = st.integers(-5, 5).map(float)


def test_pearson_by_hand():
    # deviations (-1, 0, 1) and (-1, 1, 0): 1 / sqrt(2 * 2)
    assert pearson(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])).value == pytest.approx(0.5)


def test_spearman_by_hand_with_a_tie():
    # ranks (1.5, 1.5, 3) and (1, 2, 3): 1.5 / sqrt(1.5 * 2)
    assert spearman(np.array([5.0, 5.0, 9.0]), np.array([1.0, 4.0, 20.0])).value == pytest.approx(1.5 / np.sqrt(3))


@given(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 9)), elements=whole))
def test_ranks_are_scipys(values):
    assert mean_ranks(values).tolist() == scipy_stats.rankdata(values, axis=1).tolist()


@given(st.lists(st.tuples(whole, whole), min_size=3, max_size=12))
def test_both_are_scipys(points):
    x, y = np.array(points).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        with pytest.raises(DegenerateError, match="constant"):
            spearman(x, y)
        return
    assert spearman(x, y, count=10).value == pytest.approx(scipy_stats.spearmanr(x, y).statistic, abs=1e-12)
    assert pearson(x, y).value == pytest.approx(scipy_stats.pearsonr(x, y).statistic, abs=1e-12)


@given(st.floats(0.1, 10), st.floats(-5, 5))
def test_spearman_sees_order_only(scale, shift):
    assert spearman(X, np.exp(scale * Y) + shift, count=10).value == pytest.approx(spearman(X, Y, count=10).value)
    assert spearman(X, -Y, count=10).value == pytest.approx(-spearman(X, Y, count=10).value)


def test_rows_are_correlated_one_by_one():
    many = RNG.integers(0, 5, size=(20, 8)).astype(float)
    other = RNG.integers(0, 5, size=(20, 8)).astype(float)
    each = [scipy_stats.spearmanr(a, b).statistic for a, b in zip(many, other, strict=True)]
    assert spearman_rows(many, other) == pytest.approx(each, abs=1e-12)


def test_one_point_that_makes_the_correlation_shows_in_the_range():
    x = np.array([0.0, 1.0, 0.0, 1.0, 10.0])
    y = np.array([0.0, 1.0, 1.0, 0.0, 10.0])
    found = pearson(x, y)
    assert found.value > 0.95
    each = [scipy_stats.pearsonr(np.delete(x, i), np.delete(y, i)).statistic for i in range(5)]
    assert found.leave_one_out == pytest.approx((0.0, max(each)), abs=1e-12)
    assert found.n == 5


def test_the_interval_is_seeded_and_holds_the_value():
    found, again = (spearman(X, Y, seed=3) for _ in range(2))
    assert found == again
    assert found.interval[0] < found.value < found.interval[1]


def test_the_interval_of_r_covers():
    rng = np.random.default_rng(8)
    held = 0
    for _ in range(200):
        x = rng.normal(size=40)
        low, high = pearson(x, x + rng.normal(size=40), level=0.9).interval
        held += low <= np.sqrt(0.5) <= high
    assert 0.8 <= held / 200 <= 0.96


def test_two_points_have_a_value_and_nothing_else():
    found = pearson(np.array([1.0, 2.0]), np.array([3.0, 1.0]))
    assert (found.value, found.interval, found.leave_one_out) == (-1.0, None, None)


def test_what_cannot_be_correlated_says_why():
    with pytest.raises(DegenerateError, match="constant"):
        pearson(np.full(5, 0.1), X[:5])
    with pytest.raises(DegenerateError, match="at least 2"):
        pearson(X[:1], Y[:1])
    with pytest.raises(UsageError, match="same length"):
        pearson(X, Y[:3])
    with pytest.raises(UsageError, match="NaN"):
        spearman(np.array([1.0, np.nan]), np.array([1.0, 2.0]))


slope_whole = st.integers(-6, 6).map(float)


def test_four_points_by_hand():
    # slopes: 1, 1.5, 1, 2, 1, 0 -> median 1; medians of x and y: 1.5 and 2 -> intercept 0.5
    found = theil_sen(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 1.0, 3.0, 3.0]))
    assert (found.slope, found.intercept, found.pairs, found.exact) == (1.0, 0.5, 6, True)


@given(st.lists(st.tuples(slope_whole, slope_whole), min_size=2, max_size=15))
def test_slope_intercept_and_interval_are_scipys(points):
    x, y = np.array(points).T
    assume(np.ptp(x) > 0 and np.ptp(y) > 0)
    theirs = scipy_stats.theilslopes(y, x, alpha=0.95)
    found = theil_sen(x, y)
    assert (found.slope, found.intercept) == pytest.approx((theirs.slope, theirs.intercept))
    assert found.interval == pytest.approx((theirs.low_slope, theirs.high_slope))


def test_values_that_only_rounding_tells_apart_are_ties():
    # 0.1 + 0.2 and 0.3 are one number in two orders; the slope between them would be a quotient of rounding errors.
    x, same = np.array([0.1 + 0.2, 0.3, 1.0, 2.0]), np.array([0.3, 0.3, 1.0, 2.0])
    y = np.array([5.0, -5.0, 1.0, 2.0])
    assert x[0] != x[1]
    assert (theil_sen(x, y).slope, theil_sen(x, y).pairs) == pytest.approx((theil_sen(same, y).slope, 5))
    assert theil_sen(x, y).interval == pytest.approx(theil_sen(same, y).interval)
    assert theil_sen(y, x).interval == pytest.approx(theil_sen(y, same).interval)
    assert theil_sen(1e-20 * same, y).pairs == 5  # small numbers are not rounding
    with pytest.raises(DegenerateError, match="all x are equal"):
        theil_sen(x[:2], y[:2])


def test_outliers_do_not_move_it():
    x = np.arange(20.0)
    y = 3 * x + 1
    y[[2, 9, 15]] = [500, -900, 1000]
    assert theil_sen(x, y).slope == pytest.approx(3)
    assert abs(np.polyfit(x, y, 1)[0] - 3) > 2  # least squares follows them


@given(st.floats(0.1, 9), st.floats(-9, 9))
def test_follows_scale_and_shift_of_y(scale, shift):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 15))
    plain, moved = theil_sen(x, y), theil_sen(x, scale * y + shift)
    assert moved.slope == pytest.approx(scale * plain.slope)
    assert moved.intercept == pytest.approx(scale * plain.intercept + shift, abs=1e-9)


def test_a_sample_of_pairs_is_near_all_of_them_and_says_so():
    rng = np.random.default_rng(2)
    x = rng.normal(size=400)
    y = 0.7 * x + rng.normal(size=400)
    exact, sampled = theil_sen(x, y), theil_sen(x, y, pairs_at_most=40_000, seed=1)
    assert (exact.exact, sampled.exact, sampled.pairs) == (True, False, 40_000)
    assert sampled.slope == pytest.approx(exact.slope, abs=0.03)
    assert sampled.interval == pytest.approx(exact.interval, abs=0.03)
    assert theil_sen(x, y, pairs_at_most=40_000, seed=1) == sampled


def test_the_interval_covers():
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(300):
        x = rng.normal(size=25)
        low, high = theil_sen(x, 0.5 * x + rng.standard_t(3, size=25), level=0.9).interval
        held += low <= 0.5 <= high
    assert 0.85 <= held / 300 <= 0.95


def test_what_has_no_slope_says_why():
    with pytest.raises(DegenerateError, match="all x are equal"):
        theil_sen(np.ones(5), np.arange(5.0))
    with pytest.raises(DegenerateError, match="at least 2"):
        theil_sen(np.ones(1), np.ones(1))
    with pytest.raises(UsageError, match="same length"):
        theil_sen(np.ones(2), np.ones(3))
    with pytest.raises(UsageError, match="infinity"):
        theil_sen(np.array([0, 1.0]), np.array([0, np.inf]))
    with pytest.raises(UsageError, match="level"):
        theil_sen(np.arange(3.0), np.arange(3.0), level=95)
