"""Labelled words, and the linear classifier on them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.mitigations import INLP, LEACE
from evenhand.mitigations.labelled_words import (
    LinearClassifier,
    _cosines,
    _line_search,
    _most_biased,
    _split,
    biased,
    by_lists,
    plain_rows,
    poles,
    rows_of_two_groups,
    train,
)
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


def test_scores_and_classes_of_a_classifier_by_hand() -> None:
    two = LinearClassifier(np.array([[1.0, -2.0, 0.5]]), np.array([3, 8]), intercept=True)
    x = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.25]])
    assert two.directions.tolist() == [[1.0, -2.0]]
    assert two.scores(x).tolist() == [[1.5], [-1.5], [0.0]]
    assert two.predict(x).tolist() == [8, 3, 3]
    assert two.accuracy(x, np.array([8, 3, 8])) == pytest.approx(2 / 3)
    three = LinearClassifier(np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]), np.array([1, 2, 5]))
    assert three.predict(np.array([[2.0, 1.0], [1.0, 2.0], [-1.0, -1.0]])).tolist() == [1, 2, 5]


def test_a_step_must_lower_the_loss_as_far_as_its_slope_says() -> None:
    """The loss is w^2 / 2 without rows; from w = 1, steps past the minimum are halved until they lower it."""
    nothing = np.zeros(0)

    def length(step: float, slope: float) -> float:
        return _line_search(np.array([1.0]), nothing, np.array([step]), nothing, nothing, 1.0, slope)

    assert [length(step, step) for step in (-1.0, -1.9, -2.0, -3.9, -4.1)] == [1.0, 1.0, 0.5, 0.5, 0.25]
    assert [length(-1.0, slope) for slope in (-4.9e3, -5.1e3)] == [
        1.0,
        0.5,
    ]  # a decrease of 1e-4 of the slope is asked for
    assert length(1.0, 1.0) == 0.0


def test_cosines_and_the_nearest_pole() -> None:
    v = Vectors(["a", "b", "c", "zero"], [[3.0, 4.0], [0.0, -2.0], [1.0, 0.0], [0.0, 0.0]])
    found = _cosines(v, np.array([0, 1, 3]), np.array([[2.0, 0.0], [0.0, 0.5], [0.0, 0.0]]))
    assert np.allclose(found, [[0.6, 0.8, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 0.0]])
    cosines = np.array([[0.9, 0.1], [0.2, 0.3], [0.5, 0.4], [-0.1, -0.2], [0.0, 0.0], [0.5, 0.2], [0.1, 0.9]])
    assert [rows.tolist() for rows in _most_biased(cosines, 2)] == [[0, 2], [1, 6]]
    assert [rows.tolist() for rows in _most_biased(cosines, 9)] == [[0, 2, 5], [1, 6]]


def test_the_share_of_neutral_words_that_makes_a_class() -> None:
    counts = {}
    for neutral in (9, 10, 11):
        found = biased(leaning(), GENDER, per_class=100, neutral=neutral, neutral_below=0.9)
        counts[neutral] = np.bincount(found.y).tolist()
    assert counts == {9: [100, 100], 10: [100, 100], 11: [100, 100, 11]}
    excluded = biased(leaning(), GENDER, per_class=5, neutral=0, excluded=[letters(300)[0], "gone"])
    assert letters(300)[0] not in [leaning().words[row] for row in excluded.rows]
    assert excluded.params["words"] == "biased"
    for wrong in ({"per_class": 0}, {"neutral": -1}, {"vocabulary": 0}):
        with pytest.raises(UsageError, match="must be at least 1"):
            biased(leaning(), GENDER, **{"per_class": 1, "neutral": 0, **wrong})  # type: ignore[arg-type]
    assert biased(leaning(), GENDER, per_class=1, neutral=0, vocabulary=12).rows.max() < 12


def test_the_parts_of_unequal_classes() -> None:
    y = np.repeat([0, 1, 2], [20, 33, 101])
    parts = _split(y, 4)
    assert [np.bincount(y[part]).tolist() for part in parts] == [[10, 16, 49], [4, 7, 22], [6, 10, 30]]
    assert sorted(np.concatenate(parts).tolist()) == list(range(154))
    assert all((np.diff(part) > 0).all() for part in parts)
    assert [len(part) for part in _split(np.repeat([0, 1], [19, 50]), 4)] == [69, 69, 69]
    assert not np.array_equal(_split(y, 4)[0], _split(y, 5)[0])
    found = biased(leaning(), GENDER, per_class=100, neutral=40, neutral_below=0.9)
    test = found.y[found.parts[2]]
    assert found.majority == pytest.approx(30 / len(test))


def test_poles_of_three_groups_are_differences_from_the_mean_of_means() -> None:
    v = Vectors(["a", "b", "c", "d"], np.diag([1.0, 2.0, 3.0, 4.0]))
    concept = Concept("c", {"x": ["a", "b"], "y": ["c"], "z": ["d", "gone"]})
    directions, names, coverage, how = poles(v, concept, None)
    means = np.array([[0.5, 1.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 4.0]])
    assert np.allclose(directions, means - means.mean(axis=0))
    assert (names, coverage.missing, how) == (("x", "y", "z"), ("gone",), {"how": "group means", "concept": "c"})
    ends, both, _, about = poles(leaning(), GENDER, None)
    assert np.allclose(ends[0], -ends[1])
    assert (both, about["how"]) == (("female", "male"), "pair")
    first, second, found = rows_of_two_groups(v, Concept("c", {"x": ["a", "b"], "y": ["c", "gone"]}, positive="y"))
    assert (first.tolist(), len(second), found.missing) == ([[0.0, 0.0, 3.0, 0.0]], 2, ("gone",))


def test_the_report_of_labels_in_full() -> None:
    v = leaning()
    found = by_lists(v, {"a": letters(300)[:30], "b": letters(300)[-40:]}, what="groups", seed=3)
    x = found.matrix(v)
    assert x.dtype == np.float64
    report = found.report(x, np.zeros_like(x), extra=1)
    assert report == {
        "labels": {"words": "groups", "classes_lost": [], "sizes": {"a": 30, "b": 40}, "extra": 1}, "accuracy_before": 1.0,
        "accuracy_after": pytest.approx(12 / 21), "majority": pytest.approx(12 / 21), "held_out": True,
    }  # fmt: skip
    few = by_lists(v, {"a": letters(300)[:3], "b": letters(300)[-4:]}, what="groups")
    assert few.report(few.matrix(v), few.matrix(v))["held_out"] is False
