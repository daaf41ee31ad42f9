"""Intervals of means, shares and clustered values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from evenhand.errors import UsageError
from evenhand.stats import (
    cluster_moments,
    cluster_weights,
    clustered_interval,
    clustered_means,
    contrast_interval,
    crossed_share_note,
    interval,
    jackknife_interval,
    mean_interval,
    percentile_interval,
    score_interval,
    share_interval,
    wilson,
)
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
    half = 1.959964**2 / (3 + 1.959964**2) / 2  # Wilson's upper bound of none of three, times the distance to 0 and 1
    assert share_interval([0.5, 0.5, 0.5]) == pytest.approx((0.5 - half, 0.5 + half))


def test_scores_that_all_agree_have_an_interval_towards_their_limits() -> None:
    """By hand: Wilson's upper bound of none of six is 0.3903; the mean could move so far of the way to each limit."""
    six = np.ones(6)
    assert score_interval(0 * six, limits=(-1.0, 1.0)) == pytest.approx((-0.3903, 0.3903), abs=1e-4)
    assert score_interval(six, limits=(-1.0, 1.0)) == pytest.approx((1 - 2 * 0.3903, 1.0), abs=1e-4)
    assert score_interval(six / 2, limits=(0.0, 2.0)) == pytest.approx((0.5 - 0.1952, 0.5 + 0.5855), abs=1e-4)
    assert score_interval(six[:2], limits=(-1.0, 1.0)) is None
    varied = [1.0, 1.0, -1.0, 1.0]
    assert score_interval(varied, limits=(-1.0, 1.0)) == mean_interval(varied, limits=(-1.0, 1.0))


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


WORDS = ["a", "a", "b", "b", "b", "c"]
TEMPLATES = [1, 2, 1, 2, 3, 3]
VALUES = np.array([1.0, 2.0, 3.0, 5.0, 7.0, 11.0])


def by_hand(values, weights):
    total = weights.sum(axis=1)
    return np.where(total > 0, (weights * values).sum(axis=1) / np.where(total > 0, total, 1), np.nan)


def test_one_clustering_is_the_mean_over_the_drawn_words():
    (drawn,) = cluster_weights([WORDS], 50, seed=1)
    weights = drawn[:, [0, 0, 1, 1, 1, 2]]
    assert clustered_means(VALUES, [WORDS], count=50, seed=1) == pytest.approx(by_hand(VALUES, weights))


def test_two_crossed_clusterings_multiply_their_weights():
    words, templates = cluster_weights([WORDS, TEMPLATES], 200, seed=2)
    weights = words[:, [0, 0, 1, 1, 1, 2]] * templates[:, [0, 1, 0, 1, 2, 2]]
    means = clustered_means(VALUES, [WORDS, TEMPLATES], count=200, seed=2)
    assert means == pytest.approx(by_hand(VALUES, weights), nan_ok=True)
    assert np.isnan(means).any()  # some draw has no word with a drawn template, and says so


def test_each_draw_takes_as_many_clusters_as_there_are():
    for drawn, size in zip(cluster_weights([WORDS, TEMPLATES], 30), (3, 3), strict=True):
        assert drawn.sum(axis=1).tolist() == [size] * 30


def test_every_value_its_own_cluster_is_the_plain_bootstrap():
    rng = np.random.default_rng(0)
    values = rng.normal(size=60)
    low, high = interval(clustered_means(values, [range(60)], count=4_000))
    assert (low, high) == pytest.approx(
        percentile_interval(lambda r: values[r].mean(axis=1), 60, count=4_000), abs=0.03
    )


def test_columns_are_drawn_together():
    two = np.column_stack([VALUES, VALUES + 1])
    means = clustered_means(two, [WORDS], count=40)
    assert means.shape == (40, 2)
    assert means[:, 1] - means[:, 0] == pytest.approx(np.ones(40))


def test_covers_where_values_share_a_word_and_the_plain_one_does_not():
    rng = np.random.default_rng(7)
    held = {"clustered": 0, "plain": 0}
    words = np.repeat(np.arange(20), 15)
    for trial in range(150):
        values = rng.normal(size=20)[words] + 0.3 * rng.normal(size=300)
        low, high = interval(clustered_means(values, [words.tolist()], count=300, seed=trial), 0.9)
        held["clustered"] += low <= 0 <= high
        low, high = percentile_interval(lambda r, v=values: v[r].mean(axis=1), 300, count=300, level=0.9, seed=trial)
        held["plain"] += low <= 0 <= high
    assert held["clustered"] / 150 > 0.8
    assert held["plain"] / 150 < 0.5


def test_labels_that_do_not_fit_are_errors():
    with pytest.raises(UsageError, match="6 labels"):
        clustered_means(VALUES, [WORDS[:3]])
    with pytest.raises(UsageError, match=r"use \[words\]"):
        clustered_means(VALUES, WORDS)
    with pytest.raises(UsageError, match="clusters must be"):
        clustered_means(VALUES, [])


def test_too_many_combinations_are_refused_before_memory_is():
    many = list(range(10_000))
    with pytest.raises(UsageError, match="10000 x 10000"):
        clustered_means(np.zeros(10_000), [many, many])


def test_the_interval_of_single_values_is_that_of_their_mean() -> None:
    values = np.random.default_rng(0).exponential(size=12)
    assert clustered_interval(values, [list(range(12))]) == pytest.approx(mean_interval(values))


def test_values_that_repeat_within_clusters_count_once() -> None:
    values = np.random.default_rng(0).normal(size=10)
    once = clustered_interval(values, [list(range(10))])
    thrice = clustered_interval(np.repeat(values, 3), [np.repeat(np.arange(10), 3).tolist()])
    assert thrice == pytest.approx(once)


def test_the_two_way_variance_of_a_full_table_by_hand() -> None:
    """Rows differ, columns do not: the variance of the row means (1, 2, 6) over 3, with nothing within rows."""
    table = np.repeat([[1.0], [2.0], [6.0]], 4, axis=1)
    rows, columns = np.indices(table.shape).reshape(2, -1).tolist()
    found = cluster_moments(table.ravel(), [rows, columns])
    assert found.variance == pytest.approx(7 / 3)
    assert found.freedom == pytest.approx(2)


def test_a_share_of_clusters_is_never_a_point_and_few_clusters_have_none() -> None:
    ones = np.ones(12)
    low, high = clustered_interval(ones, [np.repeat(np.arange(4), 3).tolist()], share=True) or (1.0, 1.0)
    assert low == pytest.approx(wilson(1.0, 4)[0])
    assert high == 1.0
    assert clustered_interval(ones, [[0, 1] * 6]) is None
    with pytest.raises(UsageError, match="one or two clusterings"):
        clustered_interval(ones, [list(range(12))] * 3)


def test_a_crossed_share_near_1_with_few_clusters_is_named():
    crossed = [list(range(10)) * 60, [row // 10 for row in range(600)]]
    assert "with 10 clusters of one kind" in crossed_share_note(0.92, crossed)
    assert "approximate" in crossed_share_note(0.05, crossed)
    assert crossed_share_note(0.5, crossed) == ""
    assert crossed_share_note(1.0, crossed) == ""  # Wilson's, over clusters
    assert crossed_share_note(0.92, crossed[:1]) == ""
    many = [list(range(40)) * 40, [row // 40 for row in range(1600)]]
    assert crossed_share_note(0.92, many) == ""


@given(n=st.integers(1, 500), share=st.floats(0, 1))
def test_wilson_holds_the_share_and_stays_inside(n, share):
    right = round(share * n)
    low, high = wilson(right / n, n)
    assert 0 <= low <= right / n <= high <= 1


def test_wilson_is_where_the_score_test_turns():
    low, high = wilson(0.3, 100)
    for end in (low, high):
        assert (0.3 - end) ** 2 == pytest.approx(1.959963985**2 * end * (1 - end) / 100)


def test_wilson_covers():
    rights = np.random.default_rng(0).binomial(200, 0.8, 2_000)
    covered = np.mean([low <= 0.8 <= high for low, high in wilson(rights / 200, 200).T])
    assert covered == pytest.approx(0.95, abs=0.02)
