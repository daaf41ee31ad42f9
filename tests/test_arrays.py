from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from evenhand.arrays import as_float64, read_only, row_norms, unit_rows
from evenhand.errors import DegenerateError

NUMBERS = st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False)
MATRICES = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=NUMBERS)


def test_lengths_and_unit_rows_by_hand() -> None:
    matrix = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]], np.float32)
    np.testing.assert_array_equal(row_norms(matrix), [5.0, 0.0, 2.0])
    np.testing.assert_array_equal(unit_rows(matrix), [[0.6, 0.8], [0.0, 0.0], [0.0, -1.0]])


@given(MATRICES)
def test_unit_rows_have_length_one_or_are_zero_and_keep_their_direction(matrix: np.ndarray) -> None:
    unit = unit_rows(matrix)
    assert unit.dtype == np.float64
    zero = ~matrix.any(axis=1)
    np.testing.assert_allclose(row_norms(unit), np.where(zero, 0.0, 1.0), rtol=1e-12)
    np.testing.assert_allclose(unit * row_norms(matrix)[:, None], matrix.astype(np.float64), rtol=1e-12)


def test_lengths_are_summed_in_double_precision() -> None:
    assert row_norms(np.full((1, 2), 3e38, np.float32))[0] == pytest.approx(3e38 * np.sqrt(2), rel=1e-6)
    assert row_norms(np.array([[4096.0, 1.0]], np.float16))[0] == np.sqrt(4096.0**2 + 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_a_row_without_a_length_is_an_error_and_never_a_zero_row(bad: float) -> None:
    with pytest.raises(DegenerateError, match="row 1 has no finite norm"):
        unit_rows(np.array([[1.0, 0.0], [bad, 1.0]]))


def test_double_precision_is_not_copied_and_others_are_widened() -> None:
    double = np.ones((2, 2))
    assert as_float64(double) is double
    assert as_float64(np.ones(2, np.float16)).dtype == np.float64


def test_read_only_is_the_same_memory_and_leaves_the_original_writeable() -> None:
    original = np.zeros(3)
    view = read_only(original)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    original[0] = 2
    assert view[0] == 2
