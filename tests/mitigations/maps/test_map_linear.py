from __future__ import annotations

import numpy as np
import pytest

from evenhand.errors import UsageError
from evenhand.mitigations.maps import Affine, LowRank, SoftProjection


def test_a_projection_by_hand() -> None:
    vm = SoftProjection([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.25])
    assert vm(np.array([2.0, 4.0])).tolist() == [0.0, 3.0]
    assert vm.rank_removed == 1
    assert (vm.in_dim, vm.out_dim, vm.is_linear, vm.needs_words) == (2, 2, True, False)


def test_weights_are_one_unless_given() -> None:
    assert SoftProjection([[0.6, 0.8]])(np.array([3.0, 4.0])) == pytest.approx([0, 0])


def test_no_direction_at_all_is_the_identity() -> None:
    vm = SoftProjection(np.empty((0, 3)))
    assert vm(np.array([1.0, 2.0, 3.0])).tolist() == [1.0, 2.0, 3.0]
    assert vm.rank_removed == 0


def test_affine_by_hand() -> None:
    vm = Affine([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], [0.0, 0.0, 10.0])
    assert vm(np.array([[1.0, 2.0]])).tolist() == [[1.0, 2.0, 13.0]]
    assert (vm.in_dim, vm.out_dim, vm.rank_removed) == (2, 3, 0)
    assert Affine([[1.0, 1.0], [1.0, 1.0]]).rank_removed == 1


def test_low_rank_by_hand() -> None:
    # an oblique projection: takes the first coordinate away, and half of it from the second
    vm = LowRank([[1.0], [0.0]], [[1.0, 0.5]], [0.0, 7.0])
    assert vm(np.array([2.0, 4.0])).tolist() == [0.0, 10.0]
    assert vm.rank_removed == 1
    assert LowRank([[0.5], [0.0]], [[1.0, 0.0]]).rank_removed == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SoftProjection([[1.0, 1.0]]), "orthonormal"),
        (lambda: SoftProjection([[1.0, 0.0], [0.8, 0.6]]), "removed twice"),
        (lambda: SoftProjection([[1.0, 0.0]], [0.5, 0.5]), "directions and weights differ: 1 and 2"),
        (lambda: SoftProjection([[1.0, 0.0]], [1.5]), r"between 0 \(keep\) and 1 \(remove\), got \[1.5\]"),
        (lambda: SoftProjection([1.0, 0.0]), r"must have 2 axes, got shape \(2,\)"),
        (lambda: Affine([[np.nan]]), "NaN or infinity"),
        (lambda: Affine([[1.0], [1.0, 2.0]]), "regular array"),
        (lambda: Affine([["a"]]), "must be numbers"),
        (lambda: Affine(np.eye(2), [1.0]), "columns of the matrix and bias differ: 2 and 1"),
        (lambda: LowRank(np.ones((3, 1)), np.ones((2, 3))), "differ: 1 and 2"),
        (lambda: LowRank(np.ones((3, 1)), np.ones((1, 4))), "dimensions of the two factors"),
    ],
)
def test_misuse_is_named(make: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()  # type: ignore[operator]
