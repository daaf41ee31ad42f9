"""The permutation test: hand-counted cases, scipy's exact test, and what must hold for any values."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from evenhand.errors import UsageError
from evenhand.stats import permutation_test

few = st.lists(st.integers(-20, 20).map(float), min_size=1, max_size=4)


def counted(x, y, alternative, ties):
    """The definition by brute force, in exact rational arithmetic on integers."""
    pooled, n, m = [*x, *y], len(x), len(y)
    total = sum(pooled)

    def difference(chosen):
        inside = sum(pooled[i] for i in chosen)
        return m * inside - n * (total - inside)  # n m (mean - mean)

    observed = difference(range(n))
    every = [difference(chosen) for chosen in combinations(range(n + m), n)]
    if alternative == "two-sided":
        every, observed = [abs(d) for d in every], abs(observed)
    if alternative == "less":
        every, observed = [-d for d in every], -observed
    return sum(d >= observed if ties == "ge" else d > observed for d in every) / len(every)


def test_two_against_two_counted_by_hand():
    # 6 partitions of {4, 3, 2, 1}; X = {4, 3} has the largest sum, and only it reaches 7
    test = permutation_test(np.array([4.0, 3.0]), np.array([2.0, 1.0]))
    assert (test.p_value, test.partitions, test.exact) == (1 / 6, 6, True)
    assert permutation_test(np.array([4.0, 3.0]), np.array([2.0, 1.0]), ties="gt").p_value == 0
    assert permutation_test(np.array([4.0, 3.0]), np.array([2.0, 1.0]), alternative="two-sided").p_value == 2 / 6


@pytest.mark.parametrize(("x", "y", "p"), [(1.0, 0.0, 0.0), (0.0, 1.0, 0.5)])
def test_one_against_one_is_nothing_or_a_half_when_ties_do_not_count(x, y, p):
    assert permutation_test(np.array([x]), np.array([y]), ties="gt").p_value == p


def test_eight_against_eight_counts_all_12870():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=8), rng.normal(size=8)
    test = permutation_test(x, y)
    scipy_test = scipy_stats.permutation_test(
        (x, y),
        lambda a, b, axis: a.mean(axis) - b.mean(axis),
        vectorized=True,
        n_resamples=math.inf,
        alternative="greater",
    )
    assert (test.partitions, test.exact) == (12_870, True)
    assert test.p_value == pytest.approx(scipy_test.pvalue, abs=1e-12)


@given(few, few, st.sampled_from(["greater", "less", "two-sided"]), st.sampled_from(["ge", "gt"]))
def test_is_the_definition_whatever_the_sizes_and_ties(x, y, alternative, ties):
    test = permutation_test(np.array(x), np.array(y), alternative=alternative, ties=ties)
    assert test.p_value == pytest.approx(counted(x, y, alternative, ties), abs=1e-12)


@given(few, few)
def test_greater_and_less_turn_into_each_other_when_the_sides_are_swapped(x, y):
    x, y = np.array(x), np.array(y)
    swapped = permutation_test(y, x, alternative="less")
    assert permutation_test(x, y).p_value == pytest.approx(swapped.p_value, abs=1e-12)


@given(few, few)
def test_the_two_tails_share_the_partitions(x, y):
    above = permutation_test(np.array(x), np.array(y), ties="ge").p_value
    below = permutation_test(np.array(x), np.array(y), alternative="less", ties="gt").p_value
    assert above + below == pytest.approx(1)


def test_p_is_uniform_over_all_relabelings():
    """Under the null every relabeling is as likely as another: p <= k / 20 must happen exactly k times in 20."""
    values = np.array([0.3, 1.1, -0.7, 2.9, 0.05, -4.2])
    p = []
    for chosen in combinations(range(6), 3):
        rest = [i for i in range(6) if i not in chosen]
        p.append(permutation_test(values[list(chosen)], values[rest]).p_value)
    assert sorted(p) == pytest.approx([k / 20 for k in range(1, 21)])


def test_values_with_a_large_common_part_are_still_distinguished():
    x, y = np.array([4.0, 3.0]) * 1e-9 + 1, np.array([2.0, 1.0]) * 1e-9 + 1
    assert permutation_test(x, y).p_value == pytest.approx(1 / 6)


def test_sampling_agrees_with_counting_and_counts_the_observed_one():
    rng = np.random.default_rng(0)
    x, y = rng.normal(0.6, 1, 8), rng.normal(0, 1, 8)
    exact, drawn = permutation_test(x, y).p_value, permutation_test(x, y, exact_up_to=0, samples=20_000)
    assert not drawn.exact
    assert drawn.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000))
    far = permutation_test(np.arange(100.0, 125.0), np.arange(25.0), samples=999)
    assert far.p_value == 1 / 1000  # (0 + 1) / (999 + 1), never 0


def test_sampling_is_seeded():
    x, y = np.arange(25.0), np.arange(25.0) + 1
    assert permutation_test(x, y, seed=5) == permutation_test(x, y, seed=5)
    assert len({permutation_test(x, y, seed=seed).p_value for seed in range(5)}) > 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alternative": "bigger"}, "bigger"),
        ({"ties": "eq"}, "eq"),
        ({"samples": 0, "exact_up_to": 0}, "at least 1 sample"),
    ],
)
def test_wrong_options_are_named(change, message):
    with pytest.raises(UsageError, match=message):
        permutation_test(np.array([1.0]), np.array([0.0]), **change)


@pytest.mark.parametrize("x", [[], [np.nan]])
def test_nothing_to_permute_is_an_error(x):
    with pytest.raises(UsageError, match="permutation test"):
        permutation_test(np.array(x), np.array([0.0]))
