"""Maps of coordinates: linear maps and rotations."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps import Affine, LowRank, PlaneRotation, SoftProjection


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


def at(degrees: float) -> np.ndarray:
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


def four_cases(x: np.ndarray, v1: np.ndarray, e: np.ndarray, angle: float) -> np.ndarray:
    """The corrected four cases of OSCaR as the paper writes them, for one vector of the plane."""
    phi = np.arccos(np.clip(x @ v1 / np.linalg.norm(x), -1, 1))
    theta = np.pi / 2 - angle
    if x @ e > 0:
        turn = theta * phi / angle if phi <= angle else theta * (np.pi - phi) / (np.pi - angle)
    else:
        turn = theta * (np.pi - phi) / angle if phi >= np.pi - angle else theta * phi / (np.pi - angle)
    spin = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return spin @ x


@pytest.mark.parametrize("degrees", [20, 60, 90, 120])
def test_it_is_the_four_cases_of_the_paper(degrees: float) -> None:
    vm = PlaneRotation.between(at(0), at(degrees))
    for where in range(-179, 180, 7):
        x = 2 * at(where)
        assert np.allclose(vm(x), four_cases(x, at(0), at(90), np.radians(degrees)), atol=1e-12), where


def test_rotations_by_hand() -> None:
    vm = PlaneRotation.between(at(0), at(60))
    for before, after in [(0, 0), (30, 45), (60, 90), (120, 135), (180, 180), (-120, -90), (-60, -45)]:
        assert np.allclose(vm(at(before)), at(after)), before


def test_what_is_outside_the_plane_and_the_origin_stay() -> None:
    vm = PlaneRotation.between([1.0, 0.0, 0.0], [1.0, 1.0, 0.0])
    assert vm(np.array([0.0, 0.0, 3.0])).tolist() == [0.0, 0.0, 3.0]
    assert vm(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    assert (vm.is_linear, vm.rank_removed) == (False, 0)


def test_parallel_directions_span_no_plane() -> None:
    for other in ([2.0, 0.0], [-1.0, 0.0]):
        with pytest.raises(DegenerateError, match="parallel"):
            PlaneRotation.between([1.0, 0.0], other)
    with pytest.raises(DegenerateError, match="zero vector"):
        PlaneRotation.between([1.0, 0.0], [0.0, 0.0])
    with pytest.raises(UsageError, match="between"):
        PlaneRotation([1.0, 0.0], [1.0, 1.0], 1.0)


def test_it_has_no_matrix() -> None:
    with pytest.raises(UsageError, match=r"cannot be written as x M \+ b: it is not linear"):
        PlaneRotation.between(at(0), at(60)).to_matrix()
