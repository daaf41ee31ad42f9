"""Every function of `evenhand.stats` gives the recorded result on small inputs that reach each of its branches."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from evenhand.stats import bootstrap, correlation, group_rates, means, multiplicity, permutation, units
from evenhand.stats.group_rates import Estimates, GroupCounts
from evenhand.stats.means import EstimatorMoments
from evenhand.stats.units import Units
from recorded_numbers import check_whole, outcomes

RNG = np.random.default_rng(0)
NORMAL, OTHER = RNG.normal(1.0, 2.0, 12), RNG.normal(size=12)
SKEWED = RNG.exponential(size=9)
SHARES = RNG.random(8)
TIED = np.array([3.0, 1.0, 3.0, 2.0, 1.0, 3.0, 7.0, 7.0, 0.0])
NAMES = [f"word {number}" for number in range(12)]
NAN = float("nan")


def ratio(sums: np.ndarray) -> np.ndarray:
    return np.asarray(sums[:, 0] / sums[:, 1])


def mean_of(values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rows: values[rows].mean(axis=1)


def undefined_without(first: int, values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The mean, undefined for draws that lack a unit."""
    return lambda rows: np.where((rows == first).any(axis=1), values[rows].mean(axis=1), np.nan)


def test_bootstrap() -> None:
    grid = np.arange(20.0)
    some = np.where(grid < 2, np.nan, grid)
    calls: dict[str, Callable[[], Any]] = {
        "quantile": lambda: [bootstrap.normal_quantile(p) for p in (0.025, 0.5, 0.9)],
        "resamples": lambda: bootstrap.resamples(4, 3, seed=2),
        "resamples by default": lambda: bootstrap.resamples(2).sum(axis=0),
        "one of one": lambda: bootstrap.resamples(1, 1),
        "no unit": lambda: bootstrap.resamples(0, 3),
        "no resample": lambda: bootstrap.resamples(3, 0),
        "no unit to draw": lambda: bootstrap.drawn_values(mean_of(grid), 0, 3),
        "no draw": lambda: bootstrap.drawn_values(mean_of(grid), 3, 0),
        "one draw of one": lambda: bootstrap.drawn_values(mean_of(grid), 1, 1),
        "interval": lambda: [bootstrap.interval(grid, level) for level in (0.5, 0.95)],
        "level 0": lambda: bootstrap.interval(grid, 0.0),
        "level 1": lambda: bootstrap.interval(grid, 1.0),
        "just enough": lambda: bootstrap.interval(some),
        "too few": lambda: bootstrap.interval(np.where(grid < 3, np.nan, grid)),
        "none": lambda: bootstrap.interval(np.zeros(0)),
        "percentile": lambda: bootstrap.percentile_interval(mean_of(SKEWED), 9, count=200, level=0.9, seed=3),
        "percentile by default": lambda: bootstrap.percentile_interval(mean_of(SKEWED), 9),
        "bca": lambda: bootstrap.bca_interval(mean_of(SKEWED), 9, count=200, level=0.9, seed=3),
        "bca by default": lambda: bootstrap.bca_interval(lambda rows: SKEWED[rows].var(axis=1), 9),
        "bca level 0": lambda: bootstrap.bca_interval(mean_of(SKEWED), 9, level=0.0),
        "bca level 1": lambda: bootstrap.bca_interval(mean_of(SKEWED), 9, level=1.0),
        "bca of two": lambda: bootstrap.bca_interval(mean_of(grid), 2, count=50),
        "bca of one": lambda: bootstrap.bca_interval(mean_of(grid), 1, count=50),
        "bca with lost draws": lambda: bootstrap.bca_interval(
            lambda rows: np.where((rows == 0).sum(axis=1) > 2, np.nan, SKEWED[rows].mean(axis=1)), 9, count=300
        ),
        "bca without enough": lambda: bootstrap.bca_interval(
            lambda rows: np.where((rows == 0).sum(axis=1) > 1, np.nan, SKEWED[rows].mean(axis=1)), 9, count=300
        ),
        "bca without acceleration": lambda: bootstrap.bca_interval(undefined_without(0, SKEWED), 9, count=100),
        "bca of a maximum": lambda: bootstrap.bca_interval(lambda rows: TIED[rows].max(axis=1), 9, count=50, seed=1),
        "bca of all below": lambda: bootstrap.bca_interval(lambda rows: np.full(len(rows), 1.0 - (len(rows) > 1)), 5),
        "bca of an undefined value": lambda: bootstrap.bca_interval(
            lambda rows: np.where(len(rows) == 1, np.nan, SKEWED[rows].mean(axis=1)), 9, count=50
        ),
        "bca of undefined draws": lambda: bootstrap.bca_interval(
            lambda rows: np.full(len(rows), 1.0 if len(rows) == 1 else np.nan), 5, count=50
        ),
        "bca with just enough": lambda: [
            bootstrap.bca_interval(
                lambda rows, lost=lost: np.where(
                    np.arange(len(rows)) < (len(rows) > 9) * lost, np.nan, rows.mean(axis=1)
                ),
                9,
                count=20,
            )
            for lost in (2, 3)
        ],
        "bca of a constant": lambda: bootstrap.bca_interval(lambda rows: np.ones(len(rows)), 5, count=50),
        "leave one out": lambda: bootstrap.leave_one_out(4),
        "wilson": lambda: bootstrap.wilson([0.0, 0.25, 0.5, 1.0], [8, 8, 20, 3]),
        "wilson, one error": lambda: bootstrap.wilson([0.0, 0.3, 1.0], 7, quantile=1.0),
        "wilson of nothing": lambda: bootstrap.wilson(0.5, NAN),
    }
    check_whole("stats bootstrap", outcomes(calls))


@pytest.mark.parametrize("kind", ["plain", "share"])
def test_intervals_of_moments(kind: str) -> None:
    skews = (0.0, 1e-8, 0.02, -0.02, 0.3, -0.3, 5.0, -5.0)
    made = [EstimatorMoments(0.04, third * 0.008, freedom) for third in skews for freedom in (1, 8, np.inf)]
    odd = [
        EstimatorMoments(variance, 0.0, freedom)
        for variance in (0.0, -1e-9, NAN, np.inf, 0.01)
        for freedom in (5, 0, NAN, -1)
    ]
    calls: dict[str, Callable[[], Any]] = {}
    for number, one in enumerate([*made, *odd, EstimatorMoments(0.01, NAN, 4)]):
        if kind == "plain":
            calls[f"{number}"] = lambda one=one: [one.interval(0.4), one.interval(NAN)]
            calls[f"{number} narrow"] = lambda one=one: one.interval(0.4, limits=(0.3, 0.5), level=0.8)
        else:
            calls[f"{number}"] = lambda one=one: [one.share_interval(share, 9) for share in (0.0, 0.2, 1.0, NAN)]
            calls[f"{number} narrow"] = lambda one=one: one.share_interval(0.7, 9, level=0.8)
    calls["level 0"] = lambda: made[0].interval(0.4, level=0.0)
    calls["level 1"] = lambda: made[0].interval(0.4, level=1.0)
    check_whole(f"stats moments {kind}", outcomes(calls))


def test_means() -> None:
    columns = np.stack([NORMAL, 1 + OTHER**2], axis=1)
    strata = np.repeat([0, 1, 2], [5, 4, 3])
    sets = np.concatenate([np.where(strata[:, None] == code, columns, 0.0) for code in range(3)], axis=1)
    binary = np.stack([(NORMAL > 1).astype(float), np.ones(12)], axis=1)

    def summed(sums: np.ndarray) -> np.ndarray:
        return np.asarray(sums[:, 0] / sums[:, 1] + sums[:, 2] / sums[:, 3] - sums[:, 4] / sums[:, 5])

    calls: dict[str, Callable[[], Any]] = {
        "moments": lambda: [means.moments(values) for values in (NORMAL, SKEWED, [1.0, 1.0, 1.0], [2.0, 2.0 + 4e-16])],
        "moments of rounding": lambda: means.moments([5.0, 5.0 + 4e-12, 5.0]),
        "mean": lambda: [means.mean_interval(values, level=0.9) for values in (NORMAL, SKEWED, -SKEWED, SKEWED[:3])],
        "mean of two": lambda: means.mean_interval(SKEWED[:2]),
        "limits": lambda: means.mean_interval([0.1, 0.2, 0.9], limits=(0.0, 0.5)),
        "share": lambda: [
            means.share_interval(values) for values in (SHARES, [0, 1, 1], [0, 0, 0], [0, 0.5, 1], [0, 1])
        ],
        "share, level": lambda: [means.share_interval(values, level=0.8) for values in (SHARES, [0, 1, 1, 1])],
        "unanimous": lambda: [
            means.unanimous_interval(value, 5, (-1.0, 2.0), level=level)
            for value in (0.0, 2.0)
            for level in (0.95, 0.5)
        ],
        "contrast": lambda: [
            means.contrast_interval([NORMAL, OTHER, SKEWED]),
            means.contrast_interval([NORMAL, OTHER, SKEWED], [2.0, -1.0, 0.5], level=0.8),
            means.contrast_interval([NORMAL[:3], OTHER[:2]]),
            means.contrast_interval([np.ones(3), np.ones(4)], [1.0, -1.0]),
        ],
        "combined": lambda: [
            means.combined([means.moments(NORMAL), means.moments(SKEWED)], [2.0, -3.0]),
            means.combined([means.moments(np.ones(5)), means.moments(np.ones(4))], [1.0, 1.0]),
        ],
        "jackknife": lambda: means.jackknife_interval(ratio, columns),
        "jackknife of three": lambda: [means.jackknife_interval(ratio, columns[:n]) for n in (0, 2, 3)],
        "jackknife, level": lambda: means.jackknife_interval(ratio, columns, level=0.8, limits=(0.2, 0.7)),
        "jackknife, symmetric": lambda: means.jackknife_interval(ratio, columns, skewed=False),
        "jackknife, log": lambda: means.jackknife_interval(ratio, np.abs(columns), scale="log"),
        "jackknife, correlation": lambda: means.jackknife_interval(
            lambda sums: ratio(sums) / 10, columns, scale="correlation"
        ),
        "jackknife, undefined log": lambda: means.jackknife_interval(ratio, -np.abs(columns), scale="log"),
        "jackknife, strata": lambda: means.jackknife_interval(summed, sets, strata=strata),
        "jackknife, small stratum": lambda: means.jackknife_interval(
            lambda sums: ratio(sums), columns, strata=np.repeat([0, 1], [10, 2])
        ),
        "jackknife, share": lambda: means.jackknife_interval(ratio, binary, share_of=1.0, level=0.9),
        "jackknife, percentage": lambda: means.jackknife_interval(lambda s: 100 * ratio(s), binary, share_of=100.0),
        "jackknife, all hits": lambda: means.jackknife_interval(ratio, np.ones((5, 2)), share_of=1.0),
        "jackknife, constant": lambda: means.jackknife_interval(ratio, np.ones((5, 2)) * [3.0, 1.0]),
    }
    check_whole("stats means", outcomes(calls))


def test_clusters() -> None:
    rows = ["a", "a", "b", "b", "b", "c", "c", "d", "d", "d", "a", "b"]
    columns = [1, 2, 1, 2, 3, 3, 4, 4, 1, 2, 3, 4]
    values, hits = NORMAL, (NORMAL > 1).astype(float)
    table = np.stack([values, OTHER], axis=1)
    calls: dict[str, Callable[[], Any]] = {
        "weights": lambda: [w.sum(axis=0) for w in means.cluster_weights([rows, columns], 30, seed=2)],
        "weights by default": lambda: [(w.shape, w[:3]) for w in means.cluster_weights([rows])],
        "means": lambda: means.clustered_means(values, [rows], count=4, seed=1),
        "means of columns": lambda: means.clustered_means(table, [rows, columns], count=4, seed=1),
        "means by default": lambda: means.clustered_means(values, [rows, columns]).shape,
        "sums": lambda: means.clustered_sums(table, [rows, columns], count=3, seed=1),
        "moments": lambda: [means.cluster_moments(values, each) for each in ([rows], [columns], [rows, columns])],
        "moments of wrong labels": lambda: means.cluster_moments(values, [rows, columns[:5]]),
        "moments of three": lambda: means.cluster_moments(values, [rows] * 3),
        "moments of constants": lambda: means.cluster_moments(np.full(12, 0.1), [rows]),
        "moments of crossed effects": lambda: means.cluster_moments(
            [float(ord(row) * column % 7) for row, column in zip(rows, columns, strict=True)], [rows, columns]
        ),
        "interval": lambda: [means.clustered_interval(values, each) for each in ([rows], [columns], [rows, columns])],
        "limits": lambda: means.clustered_interval(values, [rows], limits=(0.5, 1.0)),
        "share": lambda: [means.clustered_interval(hits, each, share=True) for each in ([rows], [rows, columns])],
        "share of hits": lambda: means.clustered_interval(np.ones(12), [rows, columns], share=True),
        "three clusters": lambda: means.clustered_interval(values[:9], [[0, 1, 2] * 3]),
        "two clusters": lambda: means.clustered_interval(values, [rows, [0, 1] * 6]),
        "no labels": lambda: means.clustered_interval(values, [[]]),
        "no clusterings": lambda: means.cluster_moments(values, []),
        "a text": lambda: means.cluster_moments(values, "abc"),
    }
    many, few = [list(range(30)), [row % 25 for row in range(30)]], [list(range(30)), [row % 24 for row in range(30)]]
    for share in (0.0, 0.001, 0.1, 0.1001, 0.8999, 0.9, 0.999, 1.0):
        calls[f"note {share}"] = lambda share=share: [
            means.crossed_share_note(share, each) for each in (few, many, few[1:])
        ]
    check_whole("stats clusters", outcomes(calls))


def test_permutation() -> None:
    x, y = np.array([2.0, 1.0, 4.0, 4.0]), np.array([1.0, 3.0, 0.0])
    options = itertools.product(("greater", "less", "two-sided"), ("ge", "gt"), (200_000, 34, 35))
    calls: dict[str, Callable[[], Any]] = {
        f"{alternative} {ties} {most}": lambda alternative=alternative, ties=ties, most=most: (
            permutation.permutation_test(x, y, alternative=alternative, ties=ties, samples=99, exact_up_to=most, seed=1)
        )
        for alternative, ties, most in options
    }
    long = NORMAL + np.array([2.0, 0, 0, 0, 1, 0, 0, 3, 0, 0, 0, 0])
    calls |= {
        "by default": lambda: permutation.permutation_test(long, OTHER),
        "sampled by default": lambda: permutation.permutation_test(np.r_[long, x], OTHER),
        "partitions": lambda: permutation.partition_test(
            lambda members: members.sum(axis=1).astype(float), 6, 2, observed=8.0, alternative="two-sided"
        ),
        "partitions up to rounding": lambda: [
            permutation.partition_test(
                lambda members: members.sum(axis=1).astype(float), 6, 2, observed=8.0 + away, scale=scale, ties=ties
            )
            for away in (-5e-12, 0.0, 5e-12)
            for scale in (1.0, 10.0)
            for ties in ("ge", "gt")
        ],
        "first empty": lambda: permutation.permutation_test(x[:0], y),
        "second empty": lambda: permutation.permutation_test(x, y[:0]),
        "second infinite": lambda: permutation.permutation_test(x, np.array([1.0, np.inf])),
        "first undefined": lambda: permutation.permutation_test(np.array([1.0, NAN]), y),
        "one sample": lambda: permutation.permutation_test(x, y, samples=1, exact_up_to=0),
        "no sample": lambda: permutation.permutation_test(x, y, samples=0),
        "bigger": lambda: permutation.permutation_test(x, y, alternative="bigger"),
        "eq": lambda: permutation.permutation_test(x, y, ties="eq"),
        "sequential": lambda: [
            permutation.sequential_test(np.array(reached, dtype=bool), enough=2, most=4)
            for reached in ([1, 1], [0, 1, 0, 1], [0, 1, 0, 0], [0, 0, 0], [0, 0, 0, 0, 1, 1], [1, 0, 1, 1, 1])
        ],
        "relabelling": lambda: [
            permutation.relabelling_p(np.stack([NORMAL[:6], OTHER[:6]], axis=1), label, samples=samples, seed=2)
            for label in (0, 1)
            for samples in (63, 64, 500)
        ],
        "relabelling by default": lambda: permutation.relabelling_p(np.stack([NORMAL, OTHER, -NORMAL], axis=1), 2),
        "interactions": lambda: permutation.interactions(RNG_TABLE),
    }
    check_whole("stats permutation", outcomes(calls))


RNG_TABLE = np.random.default_rng(4).normal(size=(2, 3, 4))


def cells(*sizes: int, seed: int = 5) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    drawn = [rng.normal(number, 1.0, size) for number, size in enumerate(sizes)]
    return [drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]]


def test_interactions() -> None:
    flat = [[np.zeros(2), np.ones(2)], [np.ones(2), np.array([0.0, 2.0])]]
    calls: dict[str, Callable[[], Any]] = {
        "unequal cells": lambda: permutation.interaction_test(cells(4, 3, 5, 6), samples=99, seed=2),
        "by default": lambda: permutation.interaction_test(cells(3, 3, 3, 3)).p_value,
        "two by three": lambda: permutation.interaction_test(cells(3, 4, 3, 5, 3, 4), samples=50),
        "pairs of values": lambda: permutation.interaction_test(cells(2, 3, 2, 3), samples=20),
        "one cell varies": lambda: permutation.interaction_test(flat, samples=20),
        "nothing varies": lambda: permutation.interaction_test([[np.ones(2)] * 2, [np.zeros(2)] * 2], samples=20),
        "all zero": lambda: permutation.interaction_test([[np.zeros(2)] * 2] * 2, samples=20),
        "one sample": lambda: permutation.interaction_test(cells(3, 3, 3, 3), samples=1).p_value,
        "no sample": lambda: permutation.interaction_test(cells(3, 3, 3, 3), samples=0),
        "one row": lambda: permutation.interaction_test(cells(3, 3, 3, 3)[:1]),
        "one column": lambda: permutation.interaction_test([row[:1] for row in cells(3, 3, 3, 3)]),
        "ragged": lambda: permutation.interaction_test([cells(3, 3, 3, 3)[0], cells(3, 3)[0]]),
        "one value": lambda: permutation.interaction_test(cells(3, 3, 3, 1)),
    }
    check_whole("stats interactions", outcomes(calls))


def test_correlations() -> None:
    calls: dict[str, Callable[[], Any]] = {
        "pearson": lambda: [correlation.pearson(NORMAL[:n], OTHER[:n], level=0.9) for n in (2, 3, 4, 12)],
        "spearman": lambda: [
            correlation.spearman(TIED[:n], SKEWED[:n], count=100, level=0.9, seed=2) for n in (2, 3, 4, 9)
        ],
        "by default": lambda: [correlation.pearson(TIED, SKEWED), correlation.spearman(TIED, SKEWED)],
        "perfect": lambda: correlation.pearson(NORMAL, 2 * NORMAL),
        "one way to vary": lambda: correlation.pearson(np.array([0.0, 0.0, 0.0, 1.0]), np.array([2.0, 1.0, 3.0, 4.0])),
        "constant": lambda: correlation.pearson(NORMAL, np.full(12, 0.3)),
        "constant ranks": lambda: correlation.spearman(np.full(12, 0.3), NORMAL),
        "one point": lambda: correlation.pearson(NORMAL[:1], OTHER[:1]),
        "two axes": lambda: correlation.pearson(NORMAL[None], OTHER[None]),
        "lengths": lambda: correlation.spearman(NORMAL, OTHER[:3]),
        "infinite": lambda: correlation.pearson(NORMAL[:2], np.array([1.0, np.inf])),
        "undefined": lambda: correlation.pearson(np.array([1.0, NAN]), NORMAL[:2]),
        "interval": lambda: [correlation.pearson_interval(NORMAL, OTHER), correlation.pearson_interval(TIED, SKEWED)],
        "p": lambda: [correlation.correlation_p(TIED[:n], SKEWED[:n], samples=200, seed=1) for n in (2, 3, 7, 8, 9)],
        "p by default": lambda: correlation.correlation_p(NORMAL, OTHER),
        "p with ties": lambda: correlation.correlation_p([1.0, 1.0, 2.0, 3.0], [0.1, 0.3, 0.3, 0.1 + 0.2]),
        "rows": lambda: [
            function(np.stack([TIED, SKEWED, np.full(9, 0.1)]), np.stack([SKEWED, SKEWED, TIED]))
            for function in (correlation.pearson_rows, correlation.spearman_rows)
        ],
        "ranks": lambda: correlation.mean_ranks(np.stack([TIED, SKEWED])),
        "slope": lambda: [correlation.theil_sen(TIED, SKEWED, level=level) for level in (0.5, 0.95, 0.999)],
        "slope with ties": lambda: [correlation.theil_sen(SKEWED, TIED), correlation.theil_sen(TIED, TIED[::-1])],
        "slope of two": lambda: correlation.theil_sen([0.0, 2.0], [1.0, 5.0]),
        "slope of a sample": lambda: [
            correlation.theil_sen(TIED, SKEWED, pairs_at_most=most, seed=1) for most in (10, 35, 36)
        ],
        "slope by default": lambda: correlation.theil_sen(NORMAL, OTHER),
        "no slope": lambda: correlation.theil_sen([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]),
        "one point has no slope": lambda: correlation.theil_sen([1.0], [1.0]),
        "level 0": lambda: correlation.theil_sen(NORMAL, OTHER, level=0.0),
        "level 1": lambda: correlation.theil_sen(NORMAL, OTHER, level=1.0),
        "infinite slope": lambda: correlation.theil_sen(NORMAL[:2], np.array([1.0, np.inf])),
    }
    check_whole("stats correlation", outcomes(calls))


def counted(*pairs: tuple[float, float]) -> GroupCounts:
    hits, totals = np.array(pairs, dtype=np.float64).T
    return GroupCounts(hits, totals)


def test_rates_of_groups() -> None:
    two, three = counted((5, 10), (9, 12)), counted((5, 10), (9, 12), (1, 20))
    ends = counted((0, 8), (8, 8), (3, 9))
    rng = np.random.default_rng(6)
    many, codes = rng.normal(size=2_200), rng.integers(3, size=2_200)
    many = many + 0.15 * (codes == 2)
    limits = Estimates(np.array([0.2, 0.5, 0.4]), np.array([0.1, 0.45, 0.0]), np.array([0.35, 0.6, 0.9]))
    calls: dict[str, Callable[[], Any]] = {
        "counts": lambda: GroupCounts.of(np.array([0, 2, 2, 0, 0]), np.array([1.0, 0.0, 1.0, 1.0, 0.0]), 4),
        "rates": lambda: [(each.rates, each.errors) for each in (two, three, ends)],
        "estimates": lambda: [each.estimates() for each in (two, ends)],
        "estimates, wider": lambda: three.estimates(2.5),
        "quantile": lambda: [
            group_rates.simultaneous_quantile(families, level=0.9, seed=2)
            for families in ([three.errors], [two.errors, three.errors], [two.errors], [two.errors[:1]])
        ],
        "low quantile": lambda: group_rates.simultaneous_quantile([three.errors], level=0.05),
        "groups of one": lambda: group_rates.independence_p([counted((1, 1), (3, 9), (2, 8))]),
        "quantile by default": lambda: group_rates.simultaneous_quantile([three.errors]),
        "range": lambda: [group_rates.range_limits(each) for each in (two.estimates(), three.estimates(), limits)],
        "quotient": lambda: [
            group_rates.quotient_limits(each)
            for each in (two.estimates(), three.estimates(), ends.estimates(), limits, ends.estimates(0.5))
        ],
        "independence": lambda: [group_rates.independence_p([each], seed=2) for each in (two, three, ends)],
        "independence by default": lambda: group_rates.independence_p([two, three]),
        "independence of nothing": lambda: [
            group_rates.independence_p(strata)
            for strata in ([], [counted((0, 5), (0, 4))], [counted((5, 5), (4, 4))], [counted((2, 5), (0, 0))])
        ],
        "independence with empty strata": lambda: group_rates.independence_p([counted((0, 5), (0, 4)), two]),
        "independence with an empty group": lambda: group_rates.independence_p([counted((5, 10), (0, 0), (9, 12))]),
        "means": lambda: [
            group_rates.equal_means_p(NORMAL, np.repeat([0, 1, 2], 4), 3, seed=1),
            group_rates.equal_means_p(NORMAL, np.repeat([0, 2], 6), 3),
            group_rates.equal_means_p(NORMAL, np.zeros(12, dtype=int), 2),
            group_rates.equal_means_p(np.ones(12), np.repeat([0, 1], 6), 2),
        ],
        "means of many": lambda: group_rates.equal_means_p(many, codes, 3),
        "means of 2,000": lambda: [group_rates.equal_means_p(many[:n], codes[:n], 3) for n in (2_000, 2_001)],
        "means with small groups": lambda: group_rates.equal_means_p(many, np.r_[codes[:-2], 3, 3], 4),
        "means with constant groups": lambda: [
            group_rates.equal_means_p(np.where(codes == 0, 0.5, many), codes, 3),
            group_rates.equal_means_p(np.where(codes < 2, 0.5, many), codes, 3),
            group_rates.equal_means_p(many, np.r_[np.zeros(2_197, dtype=int), 1, 1, 1], 2),
        ],
    }
    check_whole("stats group rates", outcomes(calls))


def test_multiplicity() -> None:
    calls: dict[str, Callable[[], Any]] = {
        "holm": lambda: [multiplicity.holm(p) for p in ([], [0.2], [0.01, 0.04, 0.03, 0.5, 0.0], [0.4, 0.4, 1.0])],
        "bh": lambda: [
            multiplicity.benjamini_hochberg(p) for p in ([], [0.2], [0.01, 0.04, 0.03, 0.5, 0.0], [0.4, 0.4, 1.0])
        ],
        "negative": lambda: multiplicity.holm([0.5, -0.01]),
        "above 1": lambda: multiplicity.benjamini_hochberg([0.5, 1.01]),
        "undefined": lambda: multiplicity.holm([NAN]),
        "table": lambda: multiplicity.holm(np.array([[0.5]])),
        "harmonic": lambda: [
            multiplicity.harmonic_mean_p(p) for p in ([0.2], [0.1, 0.1, 0.1], [0.01, 1.0], [0.0, 0.5], [0.2, 0.3, 0.9])
        ],
        "harmonic of none": lambda: multiplicity.harmonic_mean_p([]),
        "two-sided": lambda: [multiplicity.two_sided_p(z) for z in (0.0, 1.0, -1.959963984540054, 3.0)],
    }
    check_whole("stats multiplicity", outcomes(calls))


def made_units() -> dict[str, Units]:
    x, y = NORMAL[:6], OTHER[:6]
    names = NAMES[:6]
    codes, hits = np.array([0, 1, 2, 0, 1, 2, -1, 0]), np.array([1.0, 0, 1, 0, 1, 1, 1, 1])
    large = np.arange(600) % 3
    return {
        "mean": units.mean_units("word", names, x),
        "repeated": units.mean_units("word", ["a", "b", "a", "c", "c", "d"], x),
        "ratio": units.ratio_units("pair", names, x, y**2).scaled(100).scaled(0.5),
        "contrast": units.contrast_units("word", [names, names[:4]], [x, y[:4]], [1.0, -2.0]),
        "sum": units.contrast_units("word", [names, names[:4]], [x, y[:4]]),
        "effect": units.effect_size_units("word", names, names[:4], x, y[:4]),
        "effect of a sample": units.effect_size_units("word", names, names[:4], x, y[:4], ddof=1),
        "effect of constants": units.effect_size_units("word", names[:3], names[:3], np.ones(3), np.ones(3)),
        "pearson": units.correlation_units("word", names, x, y),
        "pearson of constants": units.correlation_units("word", names, np.ones(6), y),
        "slope": units.correlation_units("word", names, x, y, statistic="slope"),
        "exp-ratio": units.units("exp-ratio", "text", names, np.full(6, 2.0), x),
        "linearised": units.linearised_units("word", names, 0.3, x),
        "rates": units.rate_units("rate-range", "row", [codes], [hits]),
        "quotient": units.rate_units("rate-quotient", "row", [codes], [hits]),
        "lowest": units.rate_units("lowest-rate", "row", [codes], [hits]),
        "worst range": units.rate_units("worst-rate-range", "row", [codes, codes[::-1]], [hits, 1 - hits]),
        "worst quotient": units.rate_units("worst-rate-quotient", "row", [codes, codes[::-1]], [hits, 1 - hits]),
        "named rows": units.rate_units("rate-range", "row", [large[:256]], [large[:256] > 0]).scaled(2.0),
    }


def test_units() -> None:
    made = made_units()
    calls: dict[str, Callable[[], Any]] = {
        name: lambda each=each: [
            each.value, units.Units.from_dict(each.to_dict()).value, each.to_dict() if each.count < 9 else each.count
        ]
        for name, each in made.items()
    }  # fmt: skip
    large = np.arange(600) % 3
    blocks = units.rate_units("rate-range", "row", [large], [(large > 0) * 1.0])
    more = units.mean_units("word", range(257), np.arange(257.0))
    calls |= {
        "rows in blocks": lambda: [blocks.names, blocks.columns.shape, blocks.columns[:3], blocks.value, blocks.count],
        "words in blocks": lambda: [more.names, more.columns.shape, more.columns[:3], more.value, more.count],
        "256 words": lambda: units.mean_units("word", range(256), np.arange(256.0)).names is None,
        "blocks of blocks": lambda: more.in_blocks() is more,
        "unknown": lambda: units.units("median", "word", NAMES, NORMAL),
        "values": lambda: made["mean"].values(np.array([[2.0, 1.0], [0.0, 1.0]])),
        "fits": lambda: [(name, [width for width in range(14) if units._fits(name, width)]) for name in units.NAMES],
    }
    check_whole("stats units", outcomes(calls))


def test_records_of_units_that_are_damaged() -> None:
    record = made_units()["mean"].to_dict()
    width = [[1.0, 2.0, 3.0]] * 6
    for change in (
        {"statistic": "median"}, {"columns": [1.0] * 6}, {"columns": record["columns"][:5]}, {"columns": width},
        {"names": None}, {"names": ["a"] * 6}, {"statistic": "pearson"}, {"statistic": "worst-rate-range"},
        {"columns": [*record["columns"][:5], [1.0, np.inf]]},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="the units of a measurement are damaged"):
            Units.from_dict(record | change)
    assert Units.from_dict(record | {"names": None, "columns": [[1.0, 2.0]] * 256}).value == 2.0


def test_tests_of_units() -> None:
    made = made_units()
    moved = units.mean_units("word", NAMES[:6], NORMAL[:6] - 1.0)
    names = [f"w{number}" for number in range(14)]
    rng = np.random.default_rng(8)
    before, after = rng.normal(1.0, 1.0, 14), rng.normal(0.5, 1.0, 14)
    long = [
        (units.mean_units("w", names[:n], before[:n]), units.mean_units("w", names[:n], after[:n])) for n in (13, 14)
    ]
    many = (
        units.mean_units("w", range(300), np.arange(300.0)),
        units.mean_units("w", range(280), np.arange(280.0) ** 0.5),
    )
    zero = units.mean_units("word", "abc", [0.0, 0.0, 0.0])
    calls: dict[str, Callable[[], Any]] = {
        "moved": lambda: units.exchange_test(made["mean"], moved, np.abs),
        "from 1": lambda: units.exchange_test(made["mean"], moved, lambda values: np.abs(values - 1)),
        "same": lambda: units.exchange_test(made["mean"], made["mean"].scaled(1.0), np.abs),
        "13 and 14 units": lambda: [units.exchange_test(*both, np.abs) for both in long],
        "effects": lambda: units.exchange_test(made["effect"], made["effect of a sample"], np.abs),
        "other kind": lambda: units.exchange_test(made["mean"], made["slope"], np.abs),
        "other unit": lambda: units.exchange_test(made["mean"], units.mean_units("w", NAMES[:6], NORMAL[:6]), np.abs),
        "other width": lambda: units.exchange_test(made["mean"], made["sum"], np.abs),
        "fewer": lambda: [
            units.exchange_test(made["mean"], units.mean_units("word", NAMES[6 - n : 12], NORMAL[: 6 + n]), np.abs)
            for n in (0, 2, 3, 6)
        ],
        "blocks": lambda: units.exchange_test(*many, np.abs),
        "undefined": lambda: units.exchange_test(made["pearson of constants"], made["pearson"], np.abs),
        "null": lambda: [units.null_p(made[name]) for name in ("mean", "repeated", "ratio", "linearised")],
        "null of 1": lambda: [units.null_p(made[name], 1.0) for name in ("mean", "ratio", "exp-ratio")],
        "null of many": lambda: [units.null_p(both[0]) for both in long],
        "null of zeros": lambda: units.null_p(zero),
        "null of nothing": lambda: units.null_p(units.ratio_units("w", "abcd", [0, 1, 2, 0], [0, 1, 1, 0])),
        "null of two": lambda: units.null_p(units.mean_units("w", "ab", [1.0, 2.0])),
        "null of pearson": lambda: units.null_p(made["pearson"]),
        "null of a sum": lambda: units.null_p(made["sum"]),
    }
    check_whole("stats tests of units", outcomes(calls))


def test_what_counts_as_rounding_depends_on_the_size_of_the_values() -> None:
    """Large values that differ in their last digits are constant; small ones that differ by as little are not."""
    steps = np.array([0.0, 1.0, 2.0, 5.0, 3.0, 4.0, 9.0, 7.0])
    large, small = 1e6 + 1e-8 * steps, 1e-7 * (1 + 1e-3 * steps)
    codes, labels = np.repeat([0, 1], 4), [0, 0, 1, 1, 2, 2, 3, 3]
    calls: dict[str, Callable[[], Any]] = {}
    for name, values in {"large": large, "small": small}.items():
        columns = np.stack([values, np.ones(8)], axis=1)
        calls |= {
            f"{name} moments": lambda values=values: means.moments(values).variance > 0,
            f"{name} clusters": lambda values=values: means.cluster_moments(values, [labels]).variance > 0,
            f"{name} jackknife": lambda columns=columns: np.ptp(means.jackknife_interval(ratio, columns)) > 0,
            f"{name} correlation": lambda values=values: correlation.pearson(values, steps).value,
            f"{name} correlation the other way": lambda values=values: correlation.pearson(steps, values).value,
            f"{name} p": lambda values=values: correlation.correlation_p(values[:6], steps[:6]),
            f"{name} slope": lambda values=values: correlation.theil_sen(values, steps).pairs,
            f"{name} interaction": lambda values=values: (
                permutation.interaction_test([[values[:2], values[2:4]], [values[4:6], values[6:]]], samples=5).p_value
            ),
            f"{name} permutation": lambda values=values: permutation.permutation_test(values[:4], values[4:]).p_value,
            f"{name} relabelling": lambda values=values: permutation.relabelling_p(
                np.stack([values, -values], axis=1)[:4], 0
            ),
            f"{name} equal means": lambda values=values: group_rates.equal_means_p(values * 1e3, codes, 2) > 0.5,
            f"{name} exchange": lambda values=values: units.exchange_test(
                units.mean_units("w", range(8), values), units.mean_units("w", range(8), values[::-1]), np.abs
            ),
            f"{name} null": lambda values=values: units.null_p(
                units.mean_units("w", range(8), values), float(values[3])
            ),
        }
    check_whole("stats rounding", outcomes(calls))
