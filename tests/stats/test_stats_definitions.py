"""Statistics against their definitions, computed the long way: every relabelling, every table, every exchange in a loop."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from evenhand.measures.association.weat import _moments, effect_size_interval
from evenhand.stats import cluster_moments, correlation_p, jackknife_interval, permutation_test, spearman
from evenhand.stats.group_rates import (
    Estimates,
    GroupCounts,
    equal_means_p,
    independence_p,
    quotient_limits,
    range_limits,
)
from evenhand.stats.means import combined, moments
from evenhand.stats.permutation import interaction_test, partition_test, relabelling_p
from evenhand.stats.units import STATISTICS, exchange_test, null_p, ratio_units

seeds = st.integers(0, 1_000)


@given(seeds, st.integers(4, 9))
def test_moments_of_associations_are_unbiased_cumulants(seed: int, n: int) -> None:
    values = np.random.default_rng(seed).gamma(2.0, size=n)
    found = _moments(values)
    second, third, fourth = (float(scipy_stats.kstat(values, order)) for order in (2, 3, 4))
    assert found == pytest.approx((second, third, fourth / second**2))
    assert _moments(values[:3]) == pytest.approx(
        (scipy_stats.kstat(values[:3], 2), scipy_stats.kstat(values[:3], 3), 0.0)
    )


@given(seeds, st.integers(2, 3), st.integers(1, 5))
def test_relabelling_counts_every_choice_of_labels(seed: int, labels: int, units: int) -> None:
    table = np.random.default_rng(seed).integers(-4, 5, size=(units, labels)).astype(float)
    every = [
        sum(table[row, label] for row, label in enumerate(chosen)) for chosen in product(range(labels), repeat=units)
    ]
    observed = table[:, 1].sum()
    assert relabelling_p(table, 1) == pytest.approx(np.mean(np.abs(every) >= abs(observed)))


@given(seeds)
def test_the_limits_of_ratios_and_differences_solve_their_equations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    totals = rng.integers(8, 60, 3).astype(float)
    found = GroupCounts(np.floor(rng.uniform(0.15, 0.85, 3) * totals) + 1, totals).estimates()
    values, low, high = found
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]

    def below(i: int, j: int) -> float:
        """Solve (a - R b)^2 = (a - low_a)^2 + R^2 (high_b - b)^2 for the smaller R."""
        a, b = values[i], values[j]
        roots = np.roots([b**2 - (high[j] - b) ** 2, -2 * a * b, a**2 - (a - low[i]) ** 2])
        return float(min(roots.real[roots.real > 0]))

    def above(i: int, j: int) -> float:
        a, b = values[i], values[j]
        roots = np.roots([b**2 - (b - low[j]) ** 2, -2 * a * b, a**2 - (high[i] - a) ** 2])
        return float(max(roots.real))

    expected = max(0.0, min(below(*pair) for pair in pairs)), min(1.0, min(above(*pair) for pair in pairs))
    assert quotient_limits(found) == pytest.approx(expected)
    lower = [values[i] - values[j] - np.hypot(values[i] - low[i], high[j] - values[j]) for i, j in pairs]
    upper = [values[i] - values[j] + np.hypot(high[i] - values[i], values[j] - low[j]) for i, j in pairs]
    assert range_limits(Estimates(values, low, high)) == pytest.approx((max(0.0, max(lower)), max(upper)))


def test_independence_is_that_of_all_tables_with_these_margins() -> None:
    hits, totals = np.array([3, 1, 0]), np.array([4, 5, 3])
    share = hits.sum() / totals.sum()

    def squares(dealt: np.ndarray) -> float:
        return float(((dealt - totals * share) ** 2 / (totals * share * (1 - share))).sum())

    tables = [np.array(each) for each in product(*(range(total + 1) for total in totals)) if sum(each) == hits.sum()]
    chances = [scipy_stats.multivariate_hypergeom.pmf(each, totals, hits.sum()) for each in tables]
    exact = sum(p for p, each in zip(chances, tables, strict=True) if squares(each) >= squares(hits) - 1e-9)
    counts = GroupCounts(hits.astype(float), totals.astype(float))
    assert independence_p([counts]) == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 9_999))


def test_equal_means_are_tested_on_all_orders_of_the_values() -> None:
    values, codes = np.array([3.0, 1.0, 4.0, 1.5, 9.0, 2.0]), np.array([0, 0, 1, 1, 2, 2])

    def spread(order: np.ndarray) -> float:
        return float(sum((order[codes == code] - values.mean()).sum() ** 2 / 2 for code in range(3)))

    every = [spread(np.array(order)) for order in permutations(values)]
    exact = np.mean(np.array(every) >= spread(values) - 1e-9)
    assert equal_means_p(values, codes, 3) == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 9_999))


@given(seeds)
def test_exchanges_and_signs_are_all_tried(seed: int) -> None:
    rng = np.random.default_rng(seed)
    above, below, later = rng.normal(size=5), 1 + rng.random(5), rng.normal(0.5, 1.0, 5)
    before, after = ratio_units("w", "abcde", above, below), ratio_units("w", "abcde", later, below[::-1])
    differences = []
    for swapped in product((False, True), repeat=5):
        chosen = np.array(swapped)
        first = np.where(chosen, later, above).sum() / np.where(chosen, below[::-1], below).sum()
        second = np.where(chosen, above, later).sum() / np.where(chosen, below, below[::-1]).sum()
        differences.append((second - first, abs(second) - abs(first)))
    moved, nearer = np.abs(differences).T
    found = exchange_test(before, after, np.abs)
    assert found is not None
    assert found.p_moved == pytest.approx(np.mean(moved >= moved[0] - 1e-9))
    assert found.p_distance == pytest.approx(np.mean(nearer >= nearer[0] - 1e-9))
    assert found.strength == pytest.approx(nearer[0] / np.sqrt(np.mean(nearer**2)))
    away = above - 0.3 * below
    sums = [abs(float(np.dot(signs, away))) for signs in product((1, -1), repeat=5)]
    assert null_p(before, 0.3) == pytest.approx(np.mean(np.array(sums) >= sums[0] - 1e-9))


@given(seeds)
def test_the_variance_of_two_clusterings_is_that_of_both_less_that_of_their_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(np.arange(24) % 6), rng.permutation(np.arange(24) % 4)
    values = rng.normal(size=24) + rng.normal(size=6)[rows]

    def variance(labels: list[object]) -> float:
        sums = [
            sum(v - values.mean() for v, own in zip(values, labels, strict=True) if own == label)
            for label in set(labels)
        ]
        return len(sums) / (len(sums) - 1) * float(np.var(sums)) * len(sums) / 24**2

    each = variance(rows.tolist()), variance(columns.tolist())
    cells = variance(list(zip(rows.tolist(), columns.tolist(), strict=True)))
    found = cluster_moments(values, [rows.tolist(), columns.tolist()])
    assert found.variance == pytest.approx(max(sum(each) - cells, *each))
    assert found.freedom == pytest.approx(sum(each) ** 2 / (each[0] ** 2 / 5 + each[1] ** 2 / 3))


@given(seeds)
def test_cumulants_of_independent_estimates_add_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples, weights = [rng.gamma(2.0, size=n) for n in (5, 8)], (2.0, -0.5)
    found = combined([moments(sample) for sample in samples], weights)
    variances = [w**2 * np.var(s, ddof=1) / len(s) for w, s in zip(weights, samples, strict=True)]
    assert found.variance == pytest.approx(sum(variances))
    # of a mean: the skewness of the values over sqrt(n), times the standard error to the third power
    third = [
        w**3 * scipy_stats.skew(s) / len(s) ** 0.5 * (np.var(s, ddof=1) / len(s)) ** 1.5
        for w, s in zip(weights, samples, strict=True)
    ]
    assert found.third == pytest.approx(sum(third))
    assert found.freedom == pytest.approx(sum(variances) ** 2 / (variances[0] ** 2 / 4 + variances[1] ** 2 / 7))


def test_the_interaction_test_counts_shuffled_residuals() -> None:
    """With two values in each of four cells, the 8! orders are few enough to count: the sampled share is near theirs."""
    rng = np.random.default_rng(1)
    cells = rng.normal(size=(2, 2, 2)) + np.array([[3.0, 0.0], [0.0, 0.0]])[:, :, None]
    means = cells.mean(axis=2)
    additive = means.mean(axis=1, keepdims=True) + means.mean(axis=0, keepdims=True) - means.mean()
    residuals = (cells - additive[:, :, None]).ravel()

    def statistic(values: np.ndarray) -> np.ndarray:
        table = values.reshape(-1, 2, 2, 2)
        inner = table.mean(axis=3)
        effect = inner[:, 0, 0] - inner[:, 0, 1] - inner[:, 1, 0] + inner[:, 1, 1]
        return np.asarray(effect**2 / table.var(axis=3, ddof=1).mean(axis=(1, 2)))

    every = statistic(residuals[np.array(list(permutations(range(8))))])
    exact = np.mean(every >= statistic(residuals)[0] * (1 - 1e-9))
    found = interaction_test([list(row) for row in cells], samples=4_000).p_value
    assert found == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4_000))


def test_partitions_drawn_at_random_are_near_all_of_them() -> None:
    values = np.random.default_rng(2).normal(size=9)

    def total(members: np.ndarray) -> np.ndarray:
        return np.asarray(values[members].sum(axis=1))

    exact = partition_test(total, 9, 4, observed=1.0)
    drawn = partition_test(total, 9, 4, observed=1.0, exact_up_to=125)
    assert (exact.partitions, exact.exact, drawn.partitions, drawn.exact) == (126, True, 10_000, False)
    assert drawn.p_value == pytest.approx(exact.p_value, abs=0.02)


def test_nothing_at_all_is_as_extreme_as_every_draw() -> None:
    """Where the observed value is exactly 0, or all values are, every draw is at least as extreme: p is 1."""
    zeros = np.zeros(3)
    assert permutation_test(zeros, zeros).p_value == 1
    assert permutation_test(zeros, zeros, ties="gt").p_value == 0
    assert relabelling_p(np.zeros((4, 2)), 0) == 1
    assert correlation_p(np.ones(5), np.arange(5.0)) == 1
    assert correlation_p([1.0, -1.0, 0.0, 0.0], [1.0, 1.0, -1.0, -1.0]) == 1
    assert independence_p([GroupCounts(np.array([5.0, 4.0]), np.array([10.0, 8.0]))]) == 1
    assert equal_means_p(np.array([1.0, 3.0, 0.0, 4.0]), np.array([0, 0, 1, 1]), 2) == 1
    additive = [[np.array([0.0, 2.0]), np.array([1.0, 3.0])], [np.array([1.0, 3.0]), np.array([2.0, 4.0])]]
    assert interaction_test(additive, samples=50).p_value == 1
    mirrored = exchange_test(
        ratio_units("w", "abc", [1, 2, 4], [1, 1, 1]), ratio_units("w", "abc", [-1, -2, -4], [1, 1, 1]), np.abs
    )
    assert mirrored is not None
    assert (mirrored.p_moved, mirrored.p_distance, mirrored.strength) == (0.25, 1.0, 0.0)
    assert moments(zeros) == (0.0, 0.0, 2)
    assert effect_size_interval(zeros, zeros) is None
    constant = np.stack([zeros, np.ones(3)], axis=1)
    assert jackknife_interval(lambda sums: sums[:, 0] / sums[:, 1], constant, scale="log") == (0.0, 0.0)


def test_units_without_numbers_are_not_exchanged() -> None:
    """Two of fourteen units have only zeros: the exchanges of the others are few enough to make all."""
    rng = np.random.default_rng(0)
    above, later, below = rng.normal(size=14), rng.normal(size=14), np.ones(14)
    for column in (above, later, below):
        column[12:] = 0.0
    names = [f"w{number}" for number in range(14)]
    every = exchange_test(ratio_units("w", names, above, below), ratio_units("w", names, later, below), np.abs)
    fewer = exchange_test(
        ratio_units("w", names[:12], above[:12], below[:12]),
        ratio_units("w", names[:12], later[:12], below[:12]),
        np.abs,
    )
    assert every is not None
    assert fewer is not None
    assert (every.p_moved, every.p_distance) == (fewer.p_moved, fewer.p_distance)


@given(seeds, st.integers(3, 8))
def test_statistics_of_sums_are_those_of_the_values(seed: int, n: int) -> None:
    """The sums are those of the values as they are: neither centred nor scaled."""
    rng = np.random.default_rng(seed)
    x, y, ones = rng.normal(3.0, 2.0, n), rng.normal(-1.0, 0.5, n), np.ones(n)
    both = np.array([each.sum() for each in (ones, x, y, x * y, x * x, y * y)])[None]
    assert STATISTICS["pearson"](both) == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert STATISTICS["slope"](both) == pytest.approx(np.polyfit(x, y, 1)[0])
    sides = np.array([each.sum() for each in (ones, x, x * x, ones, y, y * y)])[None]
    pooled = np.concatenate([x, y])
    assert STATISTICS["effect-size"](sides) == pytest.approx((x.mean() - y.mean()) / pooled.std())
    assert STATISTICS["ratios"](np.array([[n, x.sum(), 2.0, y.sum()]])) == pytest.approx(x.mean() + y.sum() / 2)
    assert STATISTICS["exp-ratio"](np.array([[n, x.sum()]])) == pytest.approx(np.exp(x.mean()))
    rates = np.array([[4.0, 1.0, 5.0, 4.0, 8.0, 2.0, 2.0, 1.0]])  # .25 and .8, then .25 and .5
    assert STATISTICS["rate-range"](rates) == pytest.approx(0.55)
    assert STATISTICS["rate-quotient"](rates) == pytest.approx(0.25 / 0.8)
    assert STATISTICS["lowest-rate"](rates) == pytest.approx(0.25)
    assert STATISTICS["worst-rate-range"](rates) == pytest.approx(0.55)
    assert STATISTICS["worst-rate-quotient"](rates) == pytest.approx(0.25 / 0.8)


def test_the_rank_correlation_of_three_points_has_no_interval_whatever_is_drawn() -> None:
    for seed in range(20):
        assert spearman([1.0, 2.0, 3.0], [1.0, 3.0, 2.0], count=10, seed=seed).interval is None
