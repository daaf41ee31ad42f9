"""Whole results of the estimators of directions on a small vocabulary, by option, with what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand import subspaces
from evenhand.subspaces import Subspace, differences, learning, subspace
from evenhand.words import Concept, Pairs, Recipe, WordSet
from recorded_numbers import check_whole, outcomes
from small_world import ALONE, BAD, COLOUR, COLOURS, FEMALE, GENDER, GOOD, JOBS, MALE, PAIRS, UNPUBLISHED, before

Calls = dict[str, Callable[[], Any]]
PLANE = eh.Vectors(
    ["a", "b", "c", "d", "e", "f", "g", "h"],
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 5e-4], [1, 0, 4e-3], [0, 2, 0], [0, 0, 0]],
    name="plane",
)
BROKEN = eh.Vectors(["a", "b", "c"], np.array([[1, 0], [np.nan, 1], [np.inf, 2]]), name="broken", verified=True)


@pytest.mark.filterwarnings("ignore:before has")
def test_directions_of_pairs() -> None:
    v = before()
    lossy = [*PAIRS, ("she", "gone"), ("Girl", "boy")]
    calls: Calls = {
        "pair": lambda: subspaces.pair(v, "she", "he"),
        "pair, lengths": lambda: subspaces.pair(v, "she", "he", normalise=False),
        "pairs": lambda: subspaces.pairs(v, PAIRS),
        "pairs, options": lambda: subspaces.pairs(v, lossy, 3, centre=True, normalise=True),
        "named pairs": lambda: subspaces.pairs(v, Pairs("named", lossy[:7], ("women", "men")), 2),
        "span": lambda: subspaces.span(v, PAIRS[:3]),
        "span, options": lambda: subspaces.span(v, PAIRS[:4], rtol=0.4, normalise=True),
        "names": lambda: subspaces.names(v, FEMALE, [*MALE, "gone"]),
        "names, options": lambda: subspaces.names(v, FEMALE, MALE[:3], 2, centre=False, normalise=True),
        "names, one": lambda: subspaces.names(PLANE, ["a", "d"], ["b"], 1, centre=False),
        "names, equal": lambda: subspaces.names(PLANE, ["a"], ["b"]),
        "names in their own case": lambda: subspaces.names(v, ["anna"], MALE),
        "equal pair": lambda: subspaces.pair(PLANE, "a", "e"),
        "near pair": lambda: subspaces.pair(PLANE, "a", "f").basis,
        "an equal and a near pair": lambda: subspaces.pairs(PLANE, [("a", "e"), ("a", "f")]).spectrum,
        "no pair": lambda: subspaces.pairs(v, [("she", "gone")]),
        "empty list": lambda: subspaces.pairs(v, []),
        "twelve lost": lambda: subspaces.pairs(v, [(f"a{row}", f"b{row}") for row in range(12)]),
        "broken": lambda: subspaces.pair(BROKEN, "a", "b"),
        "a text": lambda: differences.as_pairs("she"),
        "a text for a pair": lambda: differences.as_pairs(["ab"]),
        "three words": lambda: differences.as_pairs([("a", "b", "c")]),
        "a number": lambda: differences.as_pairs([("a", 1)]),
        "words of a text": lambda: differences.as_words("she", what="the words"),
        "a number for a word": lambda: differences.as_words(["she", 2], what="the words"),
        "no word": lambda: differences.word_rows(v, [], what="the words"),
        "lost words": lambda: differences.word_rows(v, ["gone", "lost"], what="the words"),
        "rows": lambda: differences.word_rows(PLANE, ["d", "g", "h"], what="the words", normalise=True)[0],
        "listed": lambda: [differences.listed("abcdefghijkl"[:n]) for n in (0, 2, 10, 11, 12)],
        "poles": lambda: [differences.poles_of(each) for each in (PAIRS, Pairs("p", PAIRS, ("x", "y")))],
        "cosines": lambda: [differences._cosines(np.eye(2), np.array(row)) for row in ([3.0, 4.0], [0.0, 0.0])],
        "k of 7": lambda: subspaces.pairs(v, PAIRS, 7),
        "k of 0": lambda: subspaces.pairs(v, PAIRS, 0),
        "k of True": lambda: subspaces.pairs(v, PAIRS, True),
        "k of 1.0": lambda: subspaces.pairs(v, PAIRS, 1.0),  # type: ignore[arg-type]
    }
    check_whole("subspaces pairs", outcomes(calls))


@pytest.mark.filterwarnings("ignore:before has")
def test_directions_of_groups() -> None:
    v = before()
    colours = {**COLOURS, "none": ("gone",)}
    calls: Calls = {
        "two means": lambda: subspaces.two_means(v, FEMALE, MALE),
        "two means, options": lambda: subspaces.two_means(v, WordSet("x", [*GOOD, "gone"]), BAD, normalise=True),
        "equal means": lambda: subspaces.two_means(PLANE, ["a"], ["e"]),
        "group means": lambda: subspaces.group_means(v, COLOURS),
        "group means, options": lambda: subspaces.group_means(v, colours, 1, normalise=True),
        "group means, more": lambda: subspaces.group_means(v, COLOURS, 9).k,
        "group means of a line": lambda: subspaces.group_means(PLANE, {"x": ["a"], "y": ["b"], "z": ["d", "h"]}),
        "one group": lambda: subspaces.group_means(v, {"x": ["ruby"], "y": ["gone"]}),
        "equal groups": lambda: subspaces.group_means(PLANE, {"x": ["a"], "y": ["e"], "z": ["a", "e"]}),
        "words": lambda: subspaces.words(v, JOBS),
        "words, options": lambda: subspaces.words(v, [*JOBS[:5], "gone"], 2, centre=False, normalise=True),
        "equal words": lambda: subspaces.words(PLANE, ["a", "e"]),
        "near words": lambda: subspaces.words(PLANE, ["a", "f"]).basis,
        "a zero word": lambda: subspaces.words(PLANE, ["h"], centre=False),
        "classifier": lambda: subspaces.classifier(v, FEMALE, MALE),
        "classifier, options": lambda: subspaces.classifier(v, GOOD, BAD, C=0.05, normalise=True),
        "means of nouns": lambda: subspaces.grammatical(v, FEMALE, MALE, how="means"),
        "discriminant": lambda: subspaces.grammatical(v, FEMALE, MALE),
        "discriminant of lengths": lambda: subspaces.grammatical(v, FEMALE, MALE, normalise=False),
        "discriminant of equal nouns": lambda: subspaces.grammatical(PLANE, ["a", "A"], ["b", "g"]),
        "discriminant without spread": lambda: subspaces.grammatical(
            eh.Vectors(["a", "b", "c", "d"], [[1, 0], [2, 0], [0, 1], [0, 2]]), ["a", "b"], ["c", "d"]
        ),
        "one noun": lambda: subspaces.grammatical(v, FEMALE[:1], MALE),
        "equal nouns": lambda: subspaces.grammatical(PLANE, ["a", "e"], ["e", "a"]),
        "other": lambda: subspaces.grammatical(v, FEMALE, MALE, how="svm"),  # type: ignore[arg-type]
        "social": lambda: subspaces.social(
            subspaces.pairs(v, PAIRS, normalise=True), subspaces.grammatical(v, FEMALE, MALE, how="means")
        ),
        "nothing social": lambda: subspaces.social(*[subspaces.pair(v, "she", "he")] * 2),
        "two directions": lambda: subspaces.social(subspaces.pairs(v, PAIRS, 2), subspaces.pair(v, "she", "he")),
        "other dimension": lambda: subspaces.social(subspaces.pairs(v, PAIRS), subspaces.gaussian(5)),
        "nouns": lambda: [(each.name, len(each)) for each in subspaces.nouns("fr")],
        "no nouns": lambda: subspaces.nouns("en"),
    }
    check_whole("subspaces groups", outcomes(calls), relative=1e-4)


@pytest.mark.filterwarnings("ignore:before has")
def test_learning() -> None:
    v = before()

    def concept(recipe: Recipe) -> Concept:
        return Concept("c", GENDER.groups, PAIRS, "male", recipe, names=GENDER.names)

    recipes = (
        Recipe("pair", ("she", "he"), normalise=True), Recipe("pairs", k=2, centre=True), Recipe("span"), Recipe("two-means"),
        Recipe("group-means"), Recipe("words", ("scarlet", "olive", "azure"), k=2), Recipe("words"), Recipe("span", k=2),
    )  # fmt: skip
    calls: Calls = {
        "published": lambda: subspaces.learn(v, GENDER),
        "pairs": lambda: subspaces.learn(v, UNPUBLISHED),
        "groups": lambda: subspaces.learn(v, COLOUR),
        "overridden": lambda: subspaces.learn(v, UNPUBLISHED, k=2, centre=True, normalise=True),
        **{f"asked for {how}": lambda how=how: subspaces.learn(v, GENDER, how) for how in learning.ESTIMATORS},
        **{
            f"asked for {how} of colours": lambda how=how: subspaces.learn(v, COLOUR, how)
            for how in learning.ESTIMATORS
        },
        **{f"recipe {row}": lambda one=one: subspaces.learn(v, concept(one)) for row, one in enumerate(recipes)},
        "recipe asked for": lambda: subspaces.learn(v, GENDER, recipes[1]),
        "words of one group": lambda: subspaces.learn(v, Concept("c", {"x": JOBS, "y": ["gone"]}), "words"),
        "one group": lambda: subspaces.learn(v, ALONE),
        "unknown": lambda: subspaces.learn(v, GENDER, "pears"),
        "no option": lambda: subspaces.learn(v, GENDER, "two-means", centre=True),
        "no option k": lambda: subspaces.learn(v, GENDER, "two-means", k=2),
        "usual options": lambda: subspaces.learn(v, GENDER, "two-means", k=1, centre=False).params,
        "three words": lambda: learning._pair(v, GENDER, learning.EstimationPlan("pair", "", ("a", "b", "c"))),
    }
    check_whole("subspaces learning", outcomes(calls), relative=1e-4)


def test_subspaces() -> None:
    rng = np.random.default_rng(0)
    made = Subspace.given(rng.normal(size=(3, 5)))
    plane = Subspace(np.eye(3)[:2], np.array([2.0, 1.0]), np.array([0.8, 0.2]), how="h", poles=("x", "y"))
    x = rng.normal(size=(2, 5))

    def principal(rows: Any, **options: Any) -> Subspace:
        return subspace.principal(np.array(rows, dtype=np.float64), how="rows", **{"k": None, **options})

    calls: Calls = {
        "given": lambda: made,
        "given one": lambda: Subspace.given([3.0, 0.0, 4.0]),
        "maps": lambda: [made.coordinates(x), made.project(x), made.reject(x[0]), made.soft(), made.soft([1, 0, 0.5])],
        "weights": lambda: made.soft([1.0]),
        "first": lambda: [made.first(2), made.first(3).k, made.first(1).k],
        "first 0": lambda: made.first(0),
        "first 4": lambda: made.first(4),
        "towards": lambda: made.towards(-made.basis.sum(axis=0), poles=("p", "q")),
        "cosines": lambda: [made.cos(x[0]), made.cos(made.first(1)), made.principal_cosines(Subspace.given(x))],
        "cosine of zero": lambda: made.cos(np.zeros(5)),
        "without basis": lambda: plane.to_dict(basis=False),
        "shown": lambda: [repr(plane), repr(made), repr(Subspace.given(np.eye(6)[:5] * np.arange(5, 0, -1)[:, None]))],
        "equal": lambda: [plane == plane.first(2), plane == plane.first(1), plane == 3],
        "a number": lambda: made.project(np.float64(3)),
        "other dimension": lambda: made.project(np.ones(4)),
        "spectrum": lambda: [plane.spectrum, plane.first(1).spectrum],
        "one row": lambda: Subspace(np.ones(3), np.ones(1), np.ones(1)),
        "no direction": lambda: Subspace(np.zeros((0, 3)), np.zeros(0), np.zeros(0)),
        "undefined": lambda: Subspace(np.array([[np.nan, 1.0]]), np.ones(1), np.ones(1)),
        "not orthonormal": lambda: Subspace(np.array([[1.0, 1.0]]), np.ones(1), np.ones(1)),
        "nearly orthonormal": lambda: Subspace(np.array([[1.0 + 4e-7, 0.0]]), np.ones(1), np.ones(1)).k,
        "one strength": lambda: Subspace(np.eye(2), np.ones(1), np.ones(1)),
        "other shares": lambda: Subspace(np.eye(2), np.ones(2), np.ones(1)),
        "principal": lambda: principal([[1, 2, 2], [3, 1, 0], [-1, 0, 1]], k=2, towards=np.array([0.0, 0.0, -1.0])),
        "towards nothing": lambda: principal([[0, -3, 2], [1, 0, 0]], towards=np.zeros(3)),
        "towards rounding": lambda: principal([[0, -3, 2], [1, 0, 0]], towards=np.array([-1e-12, -2.0, -3.0])),
        "ties of coordinates": lambda: principal([[-1, 1], [1e-9, 1e-9]], k=1),
        "rank": lambda: [principal([[1, 0], [0, small]]).k for small in (1e-5, 1e-7, 0.0)],
        "rank by tolerance": lambda: principal([[1, 0], [0, 0.1]], rtol=0.2).k,
        "zeros": lambda: principal(np.zeros((2, 2))),
        "no rows": lambda: principal(np.zeros((0, 2))),
        "infinite": lambda: principal([[np.inf, 1.0]]),
        "oriented": lambda: [
            subspace.oriented(np.array([[-0.6, 0.8], [0.8, 0.6]])),
            subspace.oriented(np.array([[-0.6, 0.8], [0.8, 0.6]]), np.array([1.0, 0.0])),
        ],
        "gaussian": lambda: subspaces.gaussian(4, seed=2, k=2),
        "gaussian by default": lambda: subspaces.gaussian(3),
        "gaussian k": lambda: [subspaces.gaussian(3, k=3).k, subspaces.gaussian(1).k],
        "gaussian 0": lambda: subspaces.gaussian(0),
        "gaussian k of 0": lambda: subspaces.gaussian(3, k=0),
        "gaussian k of 4": lambda: subspaces.gaussian(3, k=4),
        "random words": lambda: subspaces.random_words(before(), seed=2, n=6, k=2),
        "random words by default": lambda: subspaces.random_words(before()),
        "two random words": lambda: subspaces.random_words(before(), n=2).coverage,
        "all words": lambda: subspaces.random_words(PLANE, n=8).params,
        "one random word": lambda: subspaces.random_words(before(), n=1),
        "too many": lambda: subspaces.random_words(PLANE, n=9),
    }
    check_whole("subspaces", outcomes(calls))


def test_equally_strong_directions_warn() -> None:
    with pytest.warns(eh.EvenhandWarning, match="directions 1 and 2 are equally strong"):
        subspaces.words(PLANE, ["b", "c"], centre=False)
    with pytest.warns(eh.EvenhandWarning, match=r"plane has 1 of 2 pairs of 'p'; lost: a/gone$"):
        subspaces.pairs(PLANE, Pairs("p", [("a", "b"), ("a", "gone")]))
    with pytest.warns(eh.EvenhandWarning, match=r"before has no word of x, y: the directions are those between"):
        subspaces.group_means(before(), {**COLOURS, "x": ["gone"], "y": ["lost"]})
    subspaces.words(PLANE, ["b", "c"], 2, centre=False)  # both are taken


def test_stability_and_scree() -> None:
    v = before()
    removed, wider = subspaces.pair(v, "she", "he"), subspaces.pairs(v, PAIRS, 2)
    calls: Calls = {
        "pairs": lambda: subspaces.stability(v, PAIRS, removed),
        "words": lambda: subspaces.stability(v, JOBS, wider, normalise=True),
        "pairs of unit length": lambda: subspaces.stability(v, PAIRS[:3], wider, normalise=True),
        "a subspace": lambda: subspaces.stability(v, subspaces.pairs(v, PAIRS, 3), removed),
        "no words": lambda: subspaces.stability(v, [], removed),
        "scree": lambda: subspaces.scree(v, wider, draws=20, seed=3),
        "scree by default": lambda: subspaces.scree(v, subspaces.pairs(v, PAIRS, normalise=True)),
        "scree of words": lambda: subspaces.scree(v, subspaces.words(v, JOBS), draws=5),
        "shares": lambda: [subspaces.scree.__globals__["_shares"](np.array(row)) for row in ([2.0, 1.0], [0.0, 0.0])],
    }
    check_whole("subspaces stability", outcomes(calls))


@pytest.mark.parametrize("factor", [1e4, 1e-4])
def test_what_counts_as_equal_depends_on_the_length_of_the_vectors(factor: float) -> None:
    v = PLANE.with_matrix(PLANE.matrix * np.float32(factor))
    for refused in (
        lambda: subspaces.words(v, ["a", "e"]),
        lambda: subspaces.group_means(v, {"x": ["a"], "y": ["e"]}),
        lambda: subspaces.names(v, ["a", "e"], ["a", "e"], 1),
        lambda: subspaces.pair(v, "a", "e", normalise=False),
        lambda: subspaces.two_means(v, ["a"], ["e"]),
    ):
        with pytest.raises(eh.EvenhandError):
            refused()
    assert subspaces.words(v, ["a", "f"]).k == 1
    assert subspaces.group_means(v, {"x": ["a"], "y": ["f"]}).k == 1
    assert subspaces.names(v, ["a", "f"], ["b"], 1).k == 1
    assert subspaces.pair(v, "a", "f", normalise=False).k == 1
    assert subspaces.span(v, [("a", "b"), ("b", "c"), ("a", "f")]).k == 3
    rows = factor * np.array([[1.0, 0.0, 0.0], [0.0, 1e-3, 0.0], [0.0, 0.0, 1e-8]])
    assert subspace.principal(rows, k=None, how="rows").k == 2
    towards = np.array([-1e-12, 0.0, 1.0]) * factor
    assert subspace.oriented(np.eye(3), towards).tolist() == np.eye(3).tolist()
    assert subspace.oriented(np.eye(3)[:1], np.array([-1e-6, 0.0, 1.0]) * factor).tolist() == [[-1.0, 0.0, 0.0]]
    clear = subspaces.grammatical(v, ["a", "f"], ["b", "g"], how="means", normalise=False)
    assert clear.params["separation"] is not None
    flat = subspaces.grammatical(v, ["a", "A"], ["b", "B"], how="means", normalise=False)
    assert flat.params["separation"] is None
    with pytest.raises(eh.EvenhandError, match="both sides have the same vectors"):
        differences.refuse_equal(np.zeros((2, 3)), np.zeros((2, 3)), what="zeros")
    with pytest.raises(eh.EvenhandError, match="names: all differences are equal"):
        subspaces.names(v, ["h"], ["h"], 1, centre=False)
    with pytest.raises(eh.EvenhandError, match="group-means: all groups have the same mean"):
        subspaces.group_means(v, {"x": ["h"], "y": ["h"]})
