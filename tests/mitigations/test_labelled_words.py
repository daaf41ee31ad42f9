"""Labelled words, and the linear classifier on them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.mitigations import INLP, LEACE
from evenhand.mitigations.labelled_words import biased, by_lists, plain_rows, train
from evenhand.models.vectors import Vectors
from evenhand.words import Concept, Recipe

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def letters(n: int) -> list[str]:
    return [f"x{LETTERS[i // 676]}{LETTERS[i // 26 % 26]}{LETTERS[i % 26]}" for i in range(n)]


def leaning(n: int = 300, seed: int = 0, dim: int = 8) -> Vectors:
    """she and he on the first axis; the cosine of word i with it falls from 1 to -1."""
    rng = np.random.default_rng(seed)
    angle = np.linspace(0, np.pi, n)
    side = rng.normal(size=(n, dim - 1))
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    rows = np.hstack([np.cos(angle)[:, None], np.sin(angle)[:, None] * side])
    poles = np.eye(dim)[:1] * np.array([[1.0], [-1.0]]) + np.eye(dim)[1:2]
    return Vectors(["she", "he", *letters(n)], np.vstack([poles, rows]), name="toy")


GENDER = Concept(
    "gender", {"female": ["she"], "male": ["he"]}, [("she", "he")], direction=Recipe("pair", ("she", "he"))
)


def test_the_most_biased_words_of_each_side_and_neutral_ones() -> None:
    v = leaning()
    found = biased(v, GENDER, per_class=20, neutral=15, neutral_below=0.2)
    assert found.classes == ("female", "male", "neutral")
    assert np.bincount(found.y).tolist() == [20, 20, 15]
    assert [v.words[row] for row in found.rows[found.y == 0]] == letters(300)[:20]
    assert [v.words[row] for row in found.rows[found.y == 1]] == letters(300)[-20:]
    assert (np.abs(v.matrix[found.rows[found.y == 2], 0]) < 0.2).all()
    assert len(set(found.rows.tolist())) == 55


def test_the_neutral_draw_follows_the_seed_only() -> None:
    draws = [
        biased(leaning(), GENDER, per_class=20, neutral=15, neutral_below=0.4, seed=seed).rows for seed in (1, 1, 2)
    ]
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


def test_small_vocabularies_share_the_words_equally() -> None:
    found = biased(leaning(60), GENDER, per_class=7500, neutral=0)
    assert found.classes == ("female", "male")
    assert np.bincount(found.y).tolist() == [20, 20]
    with_neutral = biased(leaning(60), GENDER, per_class=10, neutral=7500, neutral_below=1.0)
    assert np.bincount(with_neutral.y).tolist() == [10, 10, 20]


def test_a_handful_of_neutral_words_is_no_class() -> None:
    assert biased(leaning(), GENDER, per_class=90, neutral=90, neutral_below=0.01).classes == ("female", "male")


def test_three_groups_each_have_their_direction() -> None:
    names = letters(90)
    rng = np.random.default_rng(0)
    rows = np.eye(6)[np.arange(90) % 3] * 2 + 0.3 * rng.normal(size=(90, 6))
    v = Vectors(["one", "two", "three", *names], np.vstack([np.eye(6)[:3], rows]))
    concept = Concept("faith", {"a": ["one"], "b": ["two"], "c": ["three", "gone"]})
    found = biased(v, concept, per_class=20, neutral=0)
    assert found.classes == ("a", "b", "c")
    # the first three rows are the poles, so that a word's axis is its row number modulo 3 here as well
    assert np.array_equal(found.rows % 3, found.y)
    assert found.coverage.missing == ("gone",)
    with pytest.raises(UsageError, match="3 groups, each with its own direction"):
        biased(v, concept, per_class=5, neutral=0, direction="pairs")


def test_parts_are_disjoint_and_of_the_same_mixture() -> None:
    found = biased(leaning(), GENDER, per_class=100, neutral=0)
    train, dev, test = found.parts
    assert sorted([*train, *dev, *test]) == list(range(200))
    assert [np.bincount(found.y[part]).tolist() for part in found.parts] == [[49, 49], [21, 21], [30, 30]]
    assert found.majority == 0.5


def test_small_classes_are_not_split() -> None:
    found = biased(leaning(), GENDER, per_class=10, neutral=0)
    assert all(np.array_equal(part, np.arange(20)) for part in found.parts)
    report = LEACE(per_class=10, neutral=0).fit(leaning(), GENDER).report
    assert report["held_out"] is False
    assert LEACE(per_class=40, neutral=0).fit(leaning(), GENDER).report["held_out"] is True


def test_ordinary_words() -> None:
    words = ["nurse", "naïve", "New_York", "a1", "it's", "x_", "_", "a" * 19, "a" * 20, "日本"]
    v = Vectors(words, np.ones((len(words), 2)))
    assert [words[row] for row in plain_rows(v, 100)] == ["nurse", "naïve", "New_York", "a" * 19, "日本"]
    assert plain_rows(v, 2).tolist() == [0, 1]


def test_the_concepts_lists_are_classes_too() -> None:
    v = leaning()
    found = by_lists(v, {"a": ["she", "xaaa"], "b": ["he", "gone"], "c": ["lost"]}, what="groups")
    assert found.classes == ("a", "b")
    assert found.y.tolist() == [0, 0, 1]
    assert found.coverage.missing == ("gone", "lost")
    assert found.params["classes_lost"] == ["c"]


def test_errors() -> None:
    v = leaning()
    with pytest.raises(DegenerateError, match=r"toy has words of 1 classes[\s\S]*missing: gone"):
        INLP(labels="groups").fit(v, Concept("g", {"a": ["she"], "b": ["gone"]}))
    with pytest.raises(UsageError, match="has names for 0"):
        INLP(labels="names").fit(v, GENDER)
    with pytest.raises(UsageError, match="more than one class: she"):
        by_lists(v, {"a": ["she"], "b": ["she", "he"]}, what="groups")
    with pytest.raises(UsageError, match="has one group only"):
        INLP().fit(v, Concept("g", {"a": ["she"]}))
    with pytest.raises(UsageError, match="unknown labels 'all'"):
        INLP(labels="all").fit(v, GENDER)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at least 1"):
        INLP(per_class=0).fit(v, GENDER)
    with pytest.raises(VocabularyError, match="gal/guy"):
        INLP().fit(v, Concept("g", {"f": ["gal"], "m": ["guy"]}, [("gal", "guy")]))
    with pytest.raises(DegenerateError, match="no word is biased to"):
        INLP().fit(Vectors(["she", "he"], np.eye(2)), GENDER)


def clouds(seed: int, classes: int, *, n: int = 120, dim: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return rng.normal(size=(n, dim)) + 0.7 * rng.normal(size=(classes, dim))[y], y


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("classes", "C"), [(2, 1.0), (2, 0.01), (3, 1.0), (5, 10.0)])
def test_it_is_the_minimum_that_liblinear_looks_for(classes: int, C: float, intercept: bool) -> None:
    x, y = clouds(classes, classes)
    theirs = LinearSVC(C=C, fit_intercept=intercept, dual=False, tol=1e-10, max_iter=100_000).fit(x, y)
    ours = train(x, y, C=C, intercept=intercept)
    assert np.allclose(ours.directions, theirs.coef_, atol=1e-5)
    assert np.array_equal(ours.predict(x), theirs.predict(x))
    assert ours.accuracy(x, y) == pytest.approx(theirs.score(x, y))


def test_by_hand() -> None:
    # One row at 2, one at -2: w^2 / 2 + 2 (1 - 2 w)^2 is least at w = 8 / 17.
    learned = train(np.array([[2.0], [-2.0]]), np.array([1, 0]))
    assert learned.weights == pytest.approx(np.array([[8 / 17]]))
    assert learned.predict(np.array([[1.0], [-1.0], [0.0]])).tolist() == [1, 0, 0]


def test_separable_rows_outside_the_margin_do_not_count() -> None:
    near = train(np.array([[1.0], [-1.0]]), np.array([1, 0]), C=100.0)
    also_far = train(np.array([[1.0], [-1.0], [50.0]]), np.array([1, 0, 1]), C=100.0)
    assert also_far.weights == pytest.approx(near.weights)


def test_rows_without_information_give_zero() -> None:
    assert not train(np.zeros((4, 3)), np.array([0, 1, 0, 1])).weights.any()


def test_the_classes_keep_their_numbers() -> None:
    x, y = clouds(0, 3)
    assert set(train(x, y + 4).predict(x).tolist()) <= {4, 5, 6}
