from __future__ import annotations

import numpy as np
import pytest

from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps import PlaneRotation


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
