from __future__ import annotations

import numpy as np
import pytest

from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.models.vectors import Vectors
from evenhand.subspaces import classifier, two_means, words
from evenhand.words import WordSet

V = Vectors(["a", "b", "c", "d"], [[2, 0, 1], [4, 0, 1], [0, 1, 1], [0, -1, 1]], name="toy")


def test_two_means_by_hand() -> None:
    direction = two_means(V, ["a", "b"], ["c", "d"])
    assert np.allclose(direction.basis, [[1, 0, 0]])
    assert direction.strength.tolist() == [3.0]
    assert np.allclose(two_means(V, ["c", "d"], ["a", "b"]).basis, [[-1, 0, 0]])


def test_poles_are_the_names_of_the_groups() -> None:
    assert two_means(V, WordSet("left", ["a"]), WordSet("right", ["c"])).poles == ("left", "right")
    assert two_means(V, ["a"], ["c"]).poles == ("A", "B")


def test_words_centred_is_a_pca_and_uncentred_points_to_the_mean() -> None:
    v = Vectors(["p", "q", "r"], [[10, 1, 0], [10, -1, 0], [10, 0, 0]])
    centred = words(v, ["p", "q", "r"])
    assert np.allclose(centred.basis, [[0, 1, 0]])
    assert np.allclose(centred.strength, [np.sqrt(2)])
    assert np.allclose(words(v, ["p", "q", "r"], centre=False).basis, [[1, 0, 0]])


def test_words_agree_with_sklearn() -> None:
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(0)
    v = Vectors([f"w{i}" for i in range(8)], rng.normal(size=(8, 5)))
    expected = PCA(n_components=2, svd_solver="full").fit(v.matrix.astype(float))
    learned = words(v, v.words, k=2)
    assert np.allclose(np.abs(learned.basis @ expected.components_.T), np.eye(2), atol=1e-9)
    assert np.allclose(learned.explained, expected.explained_variance_ratio_)
    assert np.allclose(learned.strength, expected.singular_values_)


def test_the_largest_coordinate_of_a_direction_without_poles_is_positive() -> None:
    v = Vectors(["p", "q"], [[1, -5], [0, 0]])
    assert words(v, ["p", "q"]).basis[0, 1] > 0
    assert words(v, ["q", "p"]).basis[0, 1] > 0
    tie = Vectors(["p", "q"], [[-1, 1], [1, -1]])
    assert words(tie, ["p", "q"]).basis[0, 0] > 0


def test_classifier_separates_along_the_margin() -> None:
    v = Vectors(["p", "q", "r", "s"], [[1, 0], [1, 5], [-1, 0], [-1, 5]])
    normal = classifier(v, ["p", "q"], ["r", "s"])
    assert np.allclose(normal.basis, [[1, 0]], atol=1e-5)
    assert normal.strength[0] == pytest.approx(1, abs=1e-5)  # margin 2 / strength = distance 2
    assert np.allclose(classifier(v, ["r", "s"], ["p", "q"]).basis, [[-1, 0]], atol=1e-5)
    assert normal.params["C"] == 1.0


def test_a_lost_group_is_named() -> None:
    with pytest.raises(VocabularyError, match="toy has no word of the second group: x, y"):
        two_means(V, ["a"], ["x", "y"])
    assert two_means(V, ["a", "x"], ["c"]).coverage.missing == ("x",)


def test_equal_means_have_no_direction() -> None:
    with pytest.raises(DegenerateError, match="the means of the two groups"):
        two_means(V, ["a", "b"], ["b", "a"])


def test_one_word_has_no_variation() -> None:
    with pytest.raises(DegenerateError, match="1 word found: a"):
        words(V, ["a", "zzz"])
    assert words(V, ["a"], centre=False).k == 1


def test_one_string_is_not_a_list_of_letters() -> None:
    with pytest.raises(UsageError, match="'abc'"):
        words(V, "abc")
    with pytest.raises(UsageError, match="got 3"):
        words(V, [3])  # type: ignore[list-item]
