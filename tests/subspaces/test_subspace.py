from __future__ import annotations

import json

import numpy as np
import pytest

from evenhand.errors import UsageError
from evenhand.subspaces import Subspace

AXES = Subspace(basis=np.eye(3)[:2], strength=[3.0, 1.0], explained=[0.9, 0.1], spectrum=[3.0, 1.0, 0.0])


def test_a_vector_splits_into_its_projection_and_the_rest() -> None:
    x = np.array([1.0, 2.0, 3.0])
    assert AXES.coordinates(x).tolist() == [1.0, 2.0]
    assert AXES.project(x).tolist() == [1.0, 2.0, 0.0]
    assert AXES.reject(x).tolist() == [0.0, 0.0, 3.0]
    assert AXES.reject(np.stack([x, 2 * x])).tolist() == [[0.0, 0.0, 3.0], [0.0, 0.0, 6.0]]


def test_soft_shrinks_each_direction_by_its_own_weight() -> None:
    x = np.array([1.0, 1.0, 1.0])
    assert np.allclose(x @ AXES.soft([0.5, 1.0]), [0.5, 0.0, 1.0])
    assert np.allclose(x @ AXES.soft(), [0.1, 0.9, 1.0])  # a = explained


def test_cosine_is_signed_and_principal_cosines_are_not() -> None:
    diagonal = Subspace.given([[-1.0, 0.0, 1.0]])
    assert AXES.cos([-2.0, 0.0, 0.0]) == -1.0
    assert AXES.cos(diagonal.towards(np.array([-1.0, 0.0, 0.0]), poles=("a", "b"))) == pytest.approx(-np.sqrt(0.5))
    assert AXES.principal_cosines(diagonal) == pytest.approx([np.sqrt(0.5)])


def test_given_directions_are_orthonormalised() -> None:
    plane = Subspace.given([[2.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    assert np.allclose(plane.basis @ plane.basis.T, np.eye(2))
    assert np.allclose(plane.reject([5.0, 7.0, 1.0]), [0.0, 0.0, 1.0])


def test_first_keeps_the_strongest_and_the_whole_spectrum() -> None:
    one = AXES.first(1)
    assert one.k == 1
    assert one.strength.tolist() == [3.0]
    assert one.spectrum.tolist() == [3.0, 1.0, 0.0]


def test_nobody_can_write_into_it() -> None:
    given = np.eye(3)[:1]
    subspace = Subspace(given, [1.0], [1.0])
    given[0, 0] = 9.0
    assert subspace.basis[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        subspace.basis[0, 0] = 2.0


def test_it_becomes_plain_json() -> None:
    record = json.loads(json.dumps(AXES.to_dict()))
    assert record["basis"] == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert record["explained"] == [0.9, 0.1]
    assert "basis" not in AXES.to_dict(basis=False)
    assert Subspace(**{n: getattr(AXES, n) for n in ("basis", "strength", "explained", "spectrum")}) == AXES
    assert AXES.first(1) != AXES


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Subspace([[1.0, 1.0]], [1.0], [1.0]), "orthonormal"),
        (lambda: Subspace([[np.nan, 1.0]], [1.0], [1.0]), "finite"),
        (lambda: Subspace([[1.0, 0.0]], [1.0, 2.0], [1.0, 0.0]), "need 1 strengths"),
        (lambda: AXES.soft([1.0]), "2 weights"),
        (lambda: AXES.reject([1.0, 2.0]), r"dimension 3, got an array of shape \(2,\)"),
        (lambda: AXES.first(3), "k=3, but the subspace has 2 directions"),
        (lambda: AXES.cos([0.0, 0.0, 0.0]), "zero vector"),
    ],
)
def test_misuse_is_named(make: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()  # type: ignore[operator]


def test_repr_says_what_it_is() -> None:
    assert repr(AXES) == "Subspace(given, k=2 of 3, explained 0.90, 0.10)"
