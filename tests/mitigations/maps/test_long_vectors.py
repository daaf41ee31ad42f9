"""A map with a limit of the length, by hand."""

import numpy as np
import pytest

from evenhand.errors import UsageError
from evenhand.mitigations.maps import DropCoordinates, ExceptLongVectors, SoftProjection

FIRST = SoftProjection(np.array([[1.0, 0.0]]))


def test_long_rows_stay_and_others_are_mapped() -> None:
    found = ExceptLongVectors(FIRST, 5.0)(np.array([[3.0, 4.0], [3.0, 4.1], [1.0, 0.0]]))
    assert found.tolist() == [[0.0, 4.0], [3.0, 4.1], [0.0, 0.0]]


def test_it_is_not_linear_and_names_its_limit() -> None:
    limited = ExceptLongVectors(FIRST, 5.0)
    assert not limited.is_linear
    assert (limited.norm_limit, limited.within_limit, limited.rank_removed) == (5.0, FIRST, 1)
    assert (FIRST.norm_limit, FIRST.within_limit) == (None, FIRST)
    assert limited.digest != ExceptLongVectors(FIRST, 6.0).digest
    with pytest.raises(UsageError, match="not linear"):
        limited.to_matrix()


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf")])
def test_a_limit_is_a_positive_number(limit: float) -> None:
    with pytest.raises(UsageError, match="positive number"):
        ExceptLongVectors(FIRST, limit)


def test_the_dimension_must_stay() -> None:
    with pytest.raises(UsageError, match="changes the dimension"):
        ExceptLongVectors(DropCoordinates([0], 3), 1.0)
