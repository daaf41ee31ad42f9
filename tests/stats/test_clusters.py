"""The clustered bootstrap: brute force over the same draws, and the coverage that the plain one does not have."""

import numpy as np
import pytest

from evenhand.errors import UsageError
from evenhand.stats import (
    cluster_moments,
    cluster_weights,
    clustered_interval,
    clustered_means,
    crossed_share_note,
    interval,
    mean_interval,
    percentile_interval,
    wilson,
)

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
