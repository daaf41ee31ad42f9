"""Erasure with labels: hand-computed means, equal moments, least change, and words without a label."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.erasure.leace import Statistics
from evenhand.mitigations.erasure.oracle import (
    OracleLEACE,
    QuadraticLEACE,
    barycentre,
    erase_means,
    erase_moments,
    transport,
)

SMALL = {"per_class": 200, "neutral": 200}


def data(seed: int, classes: int = 3, size: int = 40, dim: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(size + 5 * k, dim)) @ rng.normal(size=(dim, dim)) + 3 * k for k in range(classes)]
    return np.concatenate(parts), np.repeat(np.arange(classes), [len(part) for part in parts])


def test_means_by_hand_and_by_the_formula_of_the_paper() -> None:
    x, y = data(0)
    z = np.eye(3)[y]
    centred, away = x - x.mean(axis=0), z - z.mean(axis=0)
    cross, own = centred.T @ away / len(x), away.T @ away / len(x)
    expected = x - away @ (cross @ np.linalg.pinv(own)).T
    assert erase_means(x, y) == pytest.approx(expected)


@given(st.integers(0, 50), st.integers(2, 4))
def test_classes_have_equal_means_and_the_change_is_less_than_that_of_leace(seed: int, classes: int) -> None:
    x, y = data(seed, classes)
    erased = erase_means(x, y)
    for one in range(classes):
        assert erased[y == one].mean(axis=0) == pytest.approx(x.mean(axis=0), abs=1e-9)
    blind = Statistics(x.shape[1], classes).update(x, y).eraser()(x)
    assert np.sum((erased - x) ** 2) <= np.sum((blind - x) ** 2) * (1 + 1e-9)
    assert erase_means(erased, y) == pytest.approx(erased)


@given(st.integers(0, 30), st.integers(2, 4))
def test_moments_are_equal_afterwards(seed: int, classes: int) -> None:
    x, y = data(seed, classes)
    erased = erase_moments(x, y)
    covariances = [np.cov(erased[y == one].T, bias=True) for one in range(classes)]
    for one in range(classes):
        assert erased[y == one].mean(axis=0) == pytest.approx(x.mean(axis=0), abs=1e-8)
        assert covariances[one] == pytest.approx(covariances[0], rel=1e-5, abs=1e-6)
    assert erase_moments(erased, y) == pytest.approx(erased, abs=1e-5)


def test_transport_and_barycentre_by_hand() -> None:
    """Of commuting covariances the roots are averaged: diag(1, 4) and diag(9, 16), weights 1/4 and 3/4."""
    one, other = np.diag([1.0, 4.0]), np.diag([9.0, 16.0])
    centre = barycentre([one, other], np.array([0.25, 0.75]))
    assert centre == pytest.approx(np.diag([(0.25 * 1 + 0.75 * 3) ** 2, (0.25 * 2 + 0.75 * 4) ** 2]))
    assert transport(one, other) == pytest.approx(np.diag([3.0, 2.0]))
    rng = np.random.default_rng(1)
    a, b = (m @ m.T + np.eye(3) for m in rng.normal(size=(2, 3, 3)))
    moved = transport(a, b)
    assert moved @ a @ moved == pytest.approx(b)
    assert moved == pytest.approx(moved.T)


@pytest.mark.parametrize("method", [OracleLEACE, QuadraticLEACE])
def test_words_without_a_label_keep_their_vectors(method: type[OracleLEACE]) -> None:
    vectors = eh.Vectors.default()
    change = method(**SMALL).fit(vectors, "gender")
    changed = change(vectors)
    moved = np.abs(changed.matrix - vectors.matrix).max(axis=1) > 1e-5
    sizes = change.report["labels"]["sizes"]
    assert 0 < moved.sum() <= sum(sizes.values())
    assert change.report["accuracy_before"] > 0.9
    assert change.report["accuracy_after"] < 0.55
    assert "needs the label" in change.report["unlabelled_words"]
    shuffled = method(**SMALL, control=True).fit(vectors, "gender")
    assert shuffled.report["accuracy_after"] > 0.8
    assert shuffled.report["mean_squared_change"] < change.report["mean_squared_change"]


def test_the_quadratic_one_moves_further_than_that_of_means() -> None:
    vectors = eh.Vectors.default()
    changes = [method(**SMALL).fit(vectors, "gender") for method in (OracleLEACE, QuadraticLEACE)]
    assert changes[0].report["mean_squared_change"] < changes[1].report["mean_squared_change"]


def test_what_they_refuse() -> None:
    x, y = data(0, dim=4)
    with pytest.raises(DegenerateError, match="one class"):
        erase_means(x, np.zeros(len(x), dtype=np.int64))
    with pytest.raises(DegenerateError, match="one class"):
        erase_moments(x, np.zeros(len(x), dtype=np.int64))
    with pytest.raises(DegenerateError, match="too few for its covariance"):
        erase_moments(x[[0, 1, -2, -1]], y[[0, 1, -2, -1]])
    with pytest.raises(UsageError, match="has no label"):
        OracleLEACE(examples="sentences").fit(eh.Vectors.default(), "gender")


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_the_barycentre_scales_with_its_covariances(scale: float) -> None:
    rng = np.random.default_rng(3)
    covariances = [m @ m.T + 0.1 * np.eye(4) for m in rng.normal(size=(3, 4, 4))]
    weights = np.array([0.2, 0.3, 0.5])
    centre = barycentre(covariances, weights)
    scaled = barycentre([scale * one for one in covariances], weights)
    assert scaled / scale == pytest.approx(centre, rel=1e-9)
    roots = [
        transport(centre, one) for one in covariances
    ]  # at the barycentre the mean of the transports is the identity
    assert sum(weight * root for weight, root in zip(weights, roots, strict=True)) == pytest.approx(np.eye(4), abs=1e-8)
