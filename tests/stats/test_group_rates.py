"""Intervals and tests of rates of several groups."""

import numpy as np
import pytest
from scipy import stats

from evenhand.stats.group_rates import (
    Estimates,
    GroupCounts,
    equal_means_p,
    independence_p,
    quotient_limits,
    range_limits,
    simultaneous_quantile,
)


def counts(*pairs: tuple[int, int]) -> GroupCounts:
    hits, totals = np.array(pairs, dtype=np.float64).T
    return GroupCounts(hits, totals)


def test_two_groups_have_newcombes_interval() -> None:
    # Newcombe (1998), method 10, example 56/70 - 48/80: 0.0524 to 0.3339
    low, high = range_limits(counts((56, 70), (48, 80)).estimates())
    assert (round(low, 4), round(high, 4)) == (0.0524, 0.3339)


def test_an_interval_that_includes_no_difference_begins_at_0() -> None:
    low, high = range_limits(counts((5, 10), (5, 10)).estimates())
    assert low == 0
    assert 0.3 < high < 0.5


def test_a_ratio_of_precise_rates_has_a_narrow_interval_around_it() -> None:
    low, high = quotient_limits(counts((30_000, 100_000), (60_000, 100_000)).estimates())
    assert low < 0.5 < high
    # on the scale of logarithms: sqrt(.7 / 30,000 + .4 / 60,000) times 1.96
    reach = 1.96 * np.sqrt(0.7 / 30_000 + 0.4 / 60_000)
    assert (low, high) == (pytest.approx(0.5 * np.exp(-reach), rel=1e-3), pytest.approx(0.5 * np.exp(reach), rel=1e-3))


def test_a_rate_of_0_has_a_ratio_of_0_with_an_upper_limit() -> None:
    low, high = quotient_limits(counts((0, 20), (15, 20)).estimates())
    assert low == 0
    assert 0.1 < high < 0.4
    assert quotient_limits(counts((0, 20), (0, 20)).estimates()) == (0.0, 1.0)


def test_the_simultaneous_quantile_is_tukeys() -> None:
    equal = np.ones(4)
    expected = stats.studentized_range.ppf(0.95, 4, np.inf) / np.sqrt(2)
    assert simultaneous_quantile([equal]) == pytest.approx(expected, abs=0.03)
    assert simultaneous_quantile([np.ones(2)]) == pytest.approx(1.959964, abs=1e-6)
    assert simultaneous_quantile([np.ones(2), np.ones(2)]) > 2.2


def test_the_test_of_independence_is_fishers_for_two_groups() -> None:
    table = counts((8, 10), (3, 12))
    exact = stats.fisher_exact([[8, 2], [3, 9]]).pvalue
    assert independence_p([table]) == pytest.approx(exact, abs=0.015)
    assert independence_p([counts((0, 10), (0, 12))]) is None
    assert independence_p([counts((3, 10))]) is None


def test_welchs_test_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(0, 1, 3000), rng.normal(0.04, 2, 1500)
    values, codes = np.concatenate([first, second]), np.repeat([0, 1], [3000, 1500])
    expected = stats.ttest_ind(first, second, equal_var=False).pvalue
    assert equal_means_p(values, codes, 2) == pytest.approx(expected, rel=1e-6)
    assert equal_means_p(np.ones(10), np.repeat([0, 1], 5), 2) is None


def test_the_limits_of_a_range_hold_for_means_too() -> None:
    low, high = range_limits(Estimates(np.array([0.0, 1.0]), np.array([-0.1, 0.8]), np.array([0.1, 1.2])))
    assert (low, high) == (pytest.approx(1 - np.hypot(0.2, 0.1)), pytest.approx(1 + np.hypot(0.2, 0.1)))


def test_standard_errors_add_one_hit_and_one_miss() -> None:
    # (4 + 1) / (8 + 2) = .5, so sqrt(.25 / 8); a rate of 1 has (8 + 1) / 10 = .9
    np.testing.assert_allclose(counts((4, 8), (8, 8)).errors, [np.sqrt(0.25 / 8), np.sqrt(0.09 / 8)])
