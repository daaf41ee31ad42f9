"""Percentile and BCa intervals: scipy's own, coverage by simulation, and the cases without an interval."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from evenhand.errors import UsageError
from evenhand.stats import bca_interval, interval, percentile_interval, resamples
from evenhand.stats.bootstrap import drawn_values, leave_one_out

SKEWED = np.random.default_rng(1).exponential(size=40)


def mean_of(values):
    return lambda rows: values[rows].mean(axis=1)


def variance_of(values):
    return lambda rows: values[rows].var(axis=1)


def test_the_middle_of_a_hundred_and_one_values():
    assert interval(np.arange(101.0), 0.9) == pytest.approx((5.0, 95.0))


def test_undefined_draws_are_left_out_unless_they_are_too_many():
    values = np.arange(100.0)
    values[:5] = np.nan
    assert interval(values) is not None
    values[:20] = np.nan
    assert interval(values) is None
    assert interval(np.full(10, np.nan)) is None


def test_draws_are_seeded():
    assert np.array_equal(resamples(7, 5, seed=2), resamples(7, 5, seed=2))
    assert not np.array_equal(resamples(7, 5, seed=2), resamples(7, 5, seed=3))


# The name of the argument before and since scipy 1.15.
RNG = "rng" if "rng" in inspect.signature(scipy_stats.bootstrap).parameters else "random_state"


@pytest.mark.parametrize(("statistic", "function"), [(mean_of, np.mean), (variance_of, np.var)])
@pytest.mark.parametrize(("ours", "method"), [(percentile_interval, "percentile"), (bca_interval, "BCa")])
def test_is_what_scipy_gives_for_the_same_draws(statistic, function, ours, method):
    seeded = {RNG: np.random.default_rng(9)}
    theirs = scipy_stats.bootstrap(
        (SKEWED,), function, n_resamples=3_000, method=method, axis=-1, **seeded
    ).confidence_interval
    low, high = ours(statistic(SKEWED), len(SKEWED), count=3_000, seed=9)
    assert (low, high) == pytest.approx((theirs.low, theirs.high), rel=1e-9)


def test_bca_shifts_the_interval_of_a_skewed_statistic_upwards():
    plain = percentile_interval(variance_of(SKEWED), len(SKEWED))
    corrected = bca_interval(variance_of(SKEWED), len(SKEWED))
    assert corrected[0] > plain[0]
    assert corrected[1] > plain[1]


@pytest.mark.parametrize("ours", [percentile_interval, bca_interval])
def test_ninety_percent_intervals_of_a_mean_hold_it_about_ninety_percent_of_the_time(ours):
    rng = np.random.default_rng(4)
    held = 0
    for trial in range(300):
        low, high = ours(mean_of(rng.normal(2, 1, 30)), 30, count=500, level=0.9, seed=trial)
        held += low <= 2 <= high
    assert 0.84 <= held / 300 <= 0.95  # 0.9 less the known shortfall at n = 30, and 3 standard errors of 300 trials


def test_leaving_out_each_of_three():
    assert leave_one_out(3).tolist() == [[1, 2], [0, 2], [0, 1]]


def test_there_is_no_bca_interval_where_nothing_varies():
    assert bca_interval(mean_of(np.array([1.0])), 1) is None
    assert bca_interval(lambda rows: np.full(len(rows), np.nan), 5) is None
    # the maximum is never exceeded by a resample, so that z0 is infinite unless it is drawn often enough
    assert bca_interval(lambda rows: -np.ones(len(rows)) if rows.shape[0] == 1 else np.ones(len(rows)), 5) is None


@given(st.floats(-1e3, 1e3), st.floats(0.1, 10))
def test_bca_follows_shift_and_scale(shift, scale):
    low, high = bca_interval(mean_of(SKEWED), len(SKEWED), count=200)
    moved = bca_interval(mean_of(SKEWED * scale + shift), len(SKEWED), count=200)
    assert moved == pytest.approx((low * scale + shift, high * scale + shift), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("level", [0, 1, 95])
def test_a_level_outside_0_and_1_is_named(level):
    with pytest.raises(UsageError, match=str(level)):
        interval(np.arange(10.0), level)
    with pytest.raises(UsageError, match=str(level)):
        bca_interval(mean_of(SKEWED), 40, level=level)


def test_nothing_to_draw_is_an_error():
    with pytest.raises(UsageError, match="0"):
        resamples(0)


def test_draws_in_blocks_are_the_draws_at_once(monkeypatch):
    whole = mean_of(SKEWED)(resamples(40, 300, seed=5))
    monkeypatch.setattr("evenhand.stats.bootstrap.CELLS_AT_ONCE", 40 * 7)
    assert drawn_values(mean_of(SKEWED), 40, 300, seed=5).tolist() == whole.tolist()
    with pytest.raises(UsageError, match="0"):
        drawn_values(mean_of(SKEWED), 0)
