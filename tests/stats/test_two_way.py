"""Two-way tables against hand computation, and the error rate and power of the test."""

import numpy as np
import pytest

from evenhand.errors import DegenerateError, UsageError
from evenhand.stats import interaction_test, interactions


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
