"""Maps of coordinates: linear maps and rotations."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps import (
    Affine,
    DropCoordinates,
    Encoder,
    LowRank,
    PlaneRotation,
    RowNormalise,
    SoftProjection,
)


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


def test_properties_of_every_map_by_hand() -> None:
    turned = PlaneRotation.between(at(0), at(60))
    state = turned.state()
    assert (turned.in_dim, turned.out_dim, turned.angle) == (2, 2, pytest.approx(np.pi / 3))
    assert (state.arrays["angle"].tolist(), PlaneRotation.from_state(state)) == ([turned.angle], turned)
    scaled = RowNormalise(3)
    assert (scaled.in_dim, scaled.out_dim, RowNormalise().in_dim, RowNormalise().out_dim_of(5)) == (3, 3, None, 5)
    assert (scaled.out_dim_of(None), scaled.is_linear, scaled.rank_removed) == (3, False, 0)
    dropped = DropCoordinates([2, 0, 2, -1])
    assert (dropped.indices, dropped.in_dim, dropped.out_dim, dropped.out_dim_of(5), dropped.rank_removed) == (
        (-1, 0, 2), None, None, 2, 3,
    )  # fmt: skip
    assert DropCoordinates(1).indices == (1,)
    matrix, bias = DropCoordinates([1], 3).to_matrix()
    assert (matrix.tolist(), bias.tolist()) == ([[1, 0], [0, 0], [0, 1]], [0, 0])
    assert DropCoordinates([-3, 1], 3)(np.array([1.0, 2.0, 3.0])).tolist() == [3.0]
    for index in (3, -4):
        with pytest.raises(UsageError, match=f"no coordinate {index} in 3"):
            DropCoordinates([index], 3)
    affine = Affine([[1.0, 2.0]])
    assert (affine.in_dim, affine.out_dim, affine.bias.tolist(), affine.is_linear) == (1, 2, [0.0, 0.0], True)
    low = LowRank(np.ones((3, 1)), np.ones((1, 3)) / 3)
    assert (low.in_dim, low.out_dim, low.is_linear, low.rank_removed, low.bias.tolist()) == (3, 3, True, 1, [0, 0, 0])
    assert LowRank(np.empty((2, 0)), np.empty((0, 2))).rank_removed == 0
    encoder = Encoder(np.eye(3)[:, :2], [0.0, 1.0])
    assert (encoder.in_dim, encoder.out_dim, encoder.rank_removed, encoder.is_linear) == (3, 2, 1, False)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_rank_of_a_low_rank_map_does_not_depend_on_the_scale_of_its_factors(scale: float) -> None:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(6, 3)))[0]
    for weights, rank in (([1.0, 1.0, 1.0], 3), ([1.0, 0.5, 1.0], 2), ([0.5, 0.9, 2.0], 0)):
        vm = LowRank(basis * weights * scale, basis.T / scale)
        matrix = np.eye(6) - vm.left @ vm.right
        assert vm.rank_removed == 6 - np.linalg.matrix_rank(matrix, tol=1e-6) == rank


@pytest.mark.parametrize("directions", [1, 2, 3, 4])
def test_few_and_many_directions_take_the_same_projection(directions: int) -> None:
    rng = np.random.default_rng(directions)
    basis = np.linalg.qr(rng.normal(size=(4, 4)))[0][:directions]
    weights = rng.uniform(size=directions)
    x = rng.normal(size=(5, 4))
    wanted = x - sum(weight * np.outer(x @ row, row) for weight, row in zip(weights, basis, strict=True))
    vm = SoftProjection(basis, weights)
    assert np.allclose(vm(x), wanted)
    matrix, bias = vm.to_matrix()
    assert np.allclose(x @ matrix + bias, wanted)
    matrix[:] = 0.0
    assert np.allclose(vm(x), wanted)
    assert (SoftProjection(basis, [0.0] * directions).rank_removed, SoftProjection(basis).rank_removed) == (
        0,
        directions,
    )


def test_angles_near_parallel_and_opposite() -> None:
    for angle, fits in ((2e-6, True), (5e-7, False), (np.pi - 2e-6, True), (np.pi - 5e-7, False)):
        if fits:
            assert PlaneRotation(at(0), at(90), angle).angle == angle
        else:
            with pytest.raises(DegenerateError, match="parallel"):
                PlaneRotation(at(0), at(90), angle)
    for weights in ([-0.1], [1.1]):
        with pytest.raises(UsageError, match="between 0"):
            SoftProjection([[1.0, 0.0]], weights)
    with pytest.raises(UsageError, match="dimensions and bias differ"):
        LowRank(np.ones((3, 1)), np.ones((1, 3)), [1.0])
    with pytest.raises(UsageError, match="dimensions of the two directions"):
        PlaneRotation.between([1.0, 0.0], [1.0, 0.0, 0.0])
