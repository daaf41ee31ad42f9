"""Permutation tests."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from evenhand.errors import DegenerateError, UsageError
from evenhand.stats import interaction_test, interactions, permutation_test
from evenhand.stats.permutation import sequential_test

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


def test_a_hand_computed_example():
    reached = np.array([0, 1, 0, 1, 1, 0], dtype=bool)
    found = sequential_test(reached, enough=2, most=10)
    assert (found.p_value, found.draws, found.reached) == (2 / 4, 4, 2)
    assert sequential_test(reached, enough=4, most=10) is None  # more must be drawn
    found = sequential_test(reached, enough=4, most=6)
    assert (found.p_value, found.draws, found.reached) == (4 / 7, 6, 3)


def test_draws_beyond_the_most_do_not_count():
    found = sequential_test(np.ones(9, dtype=bool), enough=5, most=3)
    assert (found.p_value, found.draws) == (1.0, 3)


@pytest.mark.parametrize(("enough", "most"), [(1, 4), (2, 5), (3, 6)])
def test_it_is_exact_under_the_null(enough, most):
    """All ranks of the observed value among `most` draws are equally likely: P(p <= a) = a for each value p takes."""
    chances: dict[float, float] = {}
    rng = np.random.default_rng(0)
    for rank in range(most + 1):
        # `rank` of the draws reach the observed value, in any order.
        for _ in range(4000):
            reached = rng.permutation(np.arange(most) < rank)
            p = sequential_test(reached, enough=enough, most=most).p_value
            chances[p] = chances.get(p, 0) + 1 / (4000 * (most + 1))
    for limit in sorted(chances):
        assert sum(share for p, share in chances.items() if p <= limit) == pytest.approx(limit, abs=0.02)


def test_a_table_of_two_by_two_by_hand():
    # means 4, 1 / 2, 1; rows 2.5, 1.5; columns 3, 1; total 2: the first cell is 4 - 2.5 - 3 + 2 = 0.5 above the sum.
    cells = [[np.array([3.0, 5.0]), np.array([0.0, 2.0])], [np.array([1.0, 3.0]), np.array([0.0, 2.0])]]
    found = interaction_test(cells, samples=99)
    assert found.means.tolist() == [[4.0, 1.0], [2.0, 1.0]]
    assert found.expected.tolist() == [[3.5, 1.5], [2.5, 0.5]]
    # every cell has squared deviations of 1 + 1 with one degree of freedom
    assert found.deviation == pytest.approx(np.sqrt(2))
    assert found.effects == pytest.approx(np.array([[0.5, -0.5], [-0.5, 0.5]]) / np.sqrt(2))
    assert found.strength == pytest.approx(0.5 / np.sqrt(2))
    assert 0 < found.p_value <= 1


def test_rows_and_columns_of_the_effects_add_up_to_zero():
    effects = interactions(np.random.default_rng(0).normal(size=(3, 4)))
    assert np.abs(effects.sum(axis=0)).max() < 1e-12
    assert np.abs(effects.sum(axis=1)).max() < 1e-12


def _cells(rng: np.random.Generator, shape: tuple[int, int], effect: float) -> list[list[np.ndarray]]:
    return [
        [rng.normal(4 * row - 3 * column + effect * (row == column == 0), 1.0, 6) for column in range(shape[1])]
        for row in range(shape[0])
    ]


@pytest.mark.parametrize("shape", [(2, 2), (2, 3)])
def test_large_parts_without_interaction_are_rarely_called_one(shape):
    rng = np.random.default_rng(1)
    found = [interaction_test(_cells(rng, shape, 0.0), samples=199, seed=seed) for seed in range(120)]
    rejected = np.mean([one.p_value <= 0.05 for one in found])
    covered = np.mean([low <= 0 <= high for low, high in (one.intervals[0][0] for one in found)])
    assert rejected <= 0.10  # 5 % expected; three standard errors
    assert covered >= 0.89  # 95 % expected


@pytest.mark.parametrize("shape", [(2, 2), (2, 3)])
def test_a_planted_interaction_is_found_with_its_sign(shape):
    rng = np.random.default_rng(2)
    found = [interaction_test(_cells(rng, shape, 4.0), samples=199, seed=seed) for seed in range(40)]
    assert np.mean([one.p_value <= 0.05 for one in found]) > 0.9
    assert all(one.effects[0, 0] > 0 for one in found)


def test_permuted_rows_permute_the_effects():
    cells = _cells(np.random.default_rng(3), (2, 3), 1.0)
    plain, turned = interaction_test(cells, samples=50), interaction_test(cells[::-1], samples=50)
    assert turned.effects == pytest.approx(plain.effects[::-1])
    assert turned.strength == pytest.approx(plain.strength)


def test_what_has_no_spread_or_no_table_is_refused():
    with pytest.raises(DegenerateError, match="do not vary"):
        interaction_test([[np.ones(3), np.zeros(3)], [np.zeros(3), np.ones(3)]])
    with pytest.raises(UsageError, match="two rows and two columns"):
        interaction_test([[np.ones(3), np.zeros(3)]])
    with pytest.raises(UsageError, match="a cell has 1 values"):
        interaction_test([[np.ones(1), np.zeros(3)], [np.zeros(3), np.ones(3)]])


def test_intervals_of_small_cells_are_not_too_wide():
    """The correction for skewness of so few values is noise, and made them cover 98 %."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        cells = [[rng.standard_normal(8) for _ in range(2)] for _ in range(2)]
        low, high = interaction_test(cells, samples=1).intervals[0][0]
        covered += low <= 0 <= high
    assert 0.93 <= covered / 400 <= 0.975
