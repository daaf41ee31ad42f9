"""GBDD: the direction by a stacked SVD and by hand, and its relation to linear projection."""

import numpy as np
import pytest

import evenhand as eh
from evenhand.arrays import unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.projection.gbdd import GBDD, common_direction

WORDS = {
    "a": [3.0, 4.0, 0.0], "b": [0.0, 2.0, 0.0], "c": [1.0, 0.0, 0.0], "d": [5.0, 0.0, 0.0], "x": [2.0, 2.0, 0.0],
    "y": [0.0, 0.0, 3.0], "z": [0.0, 0.0, -3.0],
}  # fmt: skip
CONCEPT = eh.Concept("toy", groups={"up": ["a", "b"], "right": ["c", "d"]}, positive="up")


def toy() -> eh.Vectors:
    return eh.Vectors(tuple(WORDS), np.array(list(WORDS.values())), name="toy")


def test_two_by_two_words_by_hand() -> None:
    """At unit length a = (.6, .8), b = (0, 1), c = d = (1, 0): differences (-.4, .8) twice and (-1, 1) twice."""
    change = GBDD().fit(toy(), CONCEPT)
    gram = 2 * np.array([[0.16 + 1, -0.32 - 1], [-0.32 - 1, 0.64 + 1]])
    values, vectors = np.linalg.eigh(gram)
    direction = np.append(vectors[:, 1] * np.sign(vectors[1, 1]), 0.0)
    assert change.report["pairs"] == 4
    assert change.report["share_of_squares"] == pytest.approx(values[1] / values.sum())
    x = np.array([2.0, 2.0, 0.0]) / np.sqrt(8)
    assert change(toy())["x"] == pytest.approx(x - (x @ direction) * direction, abs=1e-6)


def test_the_direction_is_that_of_the_stacked_differences() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(7, 5)) + 1, rng.normal(size=(4, 5))
    stacked = (first[:, None] - second[None]).reshape(-1, 5)
    _, strength, right = np.linalg.svd(stacked)
    direction, share = common_direction(first, second)
    assert abs(direction @ right[0]) == pytest.approx(1)
    assert share == pytest.approx(strength[0] ** 2 / (strength**2).sum())
    assert (first.mean(axis=0) - second.mean(axis=0)) @ direction > 0
    back, _ = common_direction(second, first)
    assert back == pytest.approx(-direction)


def test_it_is_idempotent_and_leaves_unit_length_or_none() -> None:
    change = GBDD().fit(toy(), CONCEPT)
    plain = GBDD(normalise=False).fit(toy(), CONCEPT)
    matrix = plain.to_matrix()[0]
    assert matrix @ matrix == pytest.approx(matrix)
    assert np.linalg.norm(change(toy()).matrix, axis=1).max() <= 1 + 1e-6
    direction, _ = common_direction(toy().matrix[:2].astype(float), toy().matrix[2:4].astype(float))
    assert np.abs(plain(toy()).matrix @ direction).max() < 1e-6


def test_real_vectors_lose_the_direction() -> None:
    vectors = eh.Vectors.default()
    change = GBDD().fit(vectors, "gender")
    concept = eh.concept("gender")
    other = next(name for name in concept.groups if name != concept.positive)
    first, second = (
        unit_rows(vectors.take(concept.groups[name])[0].astype(float)) for name in (concept.positive, other)
    )
    direction, _ = common_direction(first, second)
    assert np.abs(change(vectors.head(500)).matrix @ direction).max() < 1e-5


def test_what_it_refuses() -> None:
    with pytest.raises(UsageError, match="two groups"):
        GBDD().fit(toy(), eh.concept("religion"))
    with pytest.raises(DegenerateError, match="same vectors"):
        common_direction(np.ones((2, 3)), np.ones((4, 3)))
