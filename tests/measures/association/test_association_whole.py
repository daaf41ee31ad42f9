"""Whole results of the association measures on a small vocabulary, by option, with what leaves them undefined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand import measures
from evenhand.measures.association import bat, located_query, mweat, ripa, rnsb, same, weat
from evenhand.words import Concept, Pairs, Query
from recorded_numbers import check_whole, outcomes
from small_world import (
    ALONE,
    BAD,
    COLOUR,
    FEELINGS,
    FEMALE,
    GENDER,
    GOOD,
    JOBS,
    LOSSY,
    MALE,
    PAIRS,
    PLEASANT,
    TARGETS,
    TWO,
    UNPUBLISHED,
    after,
    before,
)

Calls = dict[str, Callable[[], Any]]
ZERO = eh.Vectors(
    ["a", "b", "c", "d", "e", "f", "g", "h", "i"],
    [[1, 0], [0, 1], [0, 0], [1, 1], [2, -1], [0.5, 0.25], [-1, 3], [-1, 0], [1, 0]],
)


def test_weat() -> None:
    measure, v = measures.weat, before()
    few = Query("few", [JOBS[:2], JOBS[8:11]], [["she"], ["he"]])
    equal = Query("equal", [["a"], ["a", "d"]], [["b"], ["e"]])
    calls: Calls = {
        "targets": lambda: measure(v, TARGETS, seed=4),
        "sample": lambda: measure(v, TARGETS, ddof=1, alternative="greater", reference=after()),
        "less": lambda: measure(v, PLEASANT, alternative="less", ties="gt"),
        "turned": lambda: measure(v, Query("turned", TARGETS.targets[::-1], TARGETS.attributes)),
        "lossy": lambda: measure(v, LOSSY),
        "required": lambda: measure(v, LOSSY, min_share=0.9),
        "few": lambda: measure(v, few),
        "beyond 2": lambda: measure(ZERO, Query("q", [["a"], ["b", "g", "d"]], [["e"], ["g"]])),
        "equal means": lambda: measure(ZERO, equal),
        "no spread": lambda: measure(ZERO, Query("q", [["a"], ["h"]], [["b"], ["c"]])),
        "ddof": lambda: measure(v, TARGETS, ddof=2),
        "three targets": lambda: measure(v, FEELINGS),
        "one target": lambda: measure(v, Query("one", [JOBS], TARGETS.attributes)),
        "three attributes": lambda: measure(v, TWO),
    }
    check_whole("weat", outcomes(calls))


def test_intervals_of_effect_sizes() -> None:
    rng = np.random.default_rng(2)
    kinds = {
        "normal": (rng.normal(1, 1, 8), rng.normal(0, 1, 7)),
        "far": (rng.normal(9, 1, 6), rng.normal(0, 2, 9)),
        "very far": (rng.normal(200, 1, 5), rng.normal(0, 1, 5)),
        "negative": (rng.normal(-2, 1, 5), rng.normal(0, 0.2, 12)),
        "skewed": (rng.exponential(size=9), -rng.exponential(size=5)),
        "heavy tails": (rng.standard_t(2, 12), 1 + rng.standard_t(2, 11)),
        "light tails": (np.repeat([0.0, 1.0], 6), np.repeat([0.2, 1.3], 5)),
        "three and three": (np.array([1.0, 2.0, 4.0]), np.array([0.0, 0.5, 3.0])),
        "three and four": (np.array([1.0, 2.0, 4.0]), np.array([0.0, 0.5, 3.0, 3.1])),
        "one side constant": (np.ones(4), rng.normal(0, 1, 5)),
        "constant": (np.ones(4), np.zeros(4)),
        "rounding": (np.array([1.0, 1.0, 1.0 + 1e-13]), np.zeros(3)),
        "two": (np.ones(2), rng.normal(size=5)),
    }
    calls: Calls = {}
    for name, (x, y) in kinds.items():
        for ddof, level in ((0, 0.95), (1, 0.8)):
            calls[f"{name} {ddof} {level}"] = lambda x=x, y=y, ddof=ddof, level=level: weat.effect_size_interval(
                x, y, ddof=ddof, level=level
            )
    calls["moments"] = lambda: [tuple(weat._moments(x)) for x, _ in kinds.values() if len(x) > 2]
    calls["bounds"] = lambda: [weat.largest_effect(2, 5, ddof) for ddof in (0, 1)]
    calls["effects"] = lambda: [
        weat.effect_size(np.array([1.0, 2.0]), np.array([0.0]), 1), weat.effect_size(np.ones(2), np.ones(3)),
    ]  # fmt: skip
    # rounding decides the last digits of these differences, and the noncentralities are solved to 1e-12
    check_whole("effect size intervals", outcomes(calls))


def test_generalised_weat() -> None:
    measure, v = measures.get("generalised-weat"), before()
    three = Query(
        "three",
        {"x": JOBS[:3], "y": JOBS[3:7], "z": JOBS[7:12]},
        {"a": GOOD, "b": BAD, "c": ["she", "woman"]},
    )
    two = Query("two", {"x": [*GOOD[:2], "Joy", "gone"], "y": BAD[:4]}, {"a": GOOD[2:], "b": BAD[3:]})
    turned = Query("turned", two.targets[::-1], two.attributes)
    calls: Calls = {
        **{
            f"three {name}": lambda name=name: measure(v, three, alternative=name, samples=99, seed=2)
            for name in ("two-sided", "greater", "less")
        },
        "by default": lambda: measure(v, TARGETS),
        "two": lambda: measure(v, two, samples=200),
        "turned": lambda: measure(v, turned, samples=200),
        "turned less": lambda: measure(v, turned, samples=200, alternative="less"),
        "required": lambda: measure(v, two, min_share=0.9),
        "uneven": lambda: measure(v, FEELINGS),
        "uneven, no concept": lambda: measure(v, TWO),
        "one": lambda: measure(v, Query("one", [GOOD], [BAD])),
        "equal means": lambda: measure(v, Query("equal", [GOOD, GOOD], [BAD, JOBS])),
        "one sample": lambda: measure(v, two, samples=1).p_value,
        "no sample": lambda: measure(v, two, samples=0),
    }
    check_whole("generalised weat", outcomes(calls))


@pytest.mark.filterwarnings("ignore:before has 6 of 7 pairs")
def test_ripa() -> None:
    measure, v = measures.ripa, before()
    twenty_five = eh.Vectors(
        [f"{side}{number}" for number in range(26) for side in "ab"] + ["w", "u"],
        np.random.default_rng(7).normal(size=(54, 4))
        + np.r_[np.tile([1.0, -1.0], 26), 0.5, 0.2][:, None] * [2, 1, 0, 0],
    )
    many = Concept("many", {"a": ["a0"], "b": ["b0"]}, [(f"a{number}", f"b{number}") for number in range(26)])
    opposed = Concept(
        "opposed", {"a": ["she"], "b": ["he"]}, [pair[:: 1 - 2 * (row % 2)] for row, pair in enumerate(PAIRS)]
    )
    lossy = Concept("lossy", {"a": ["she"], "b": ["he"]}, [*PAIRS, ("she", "gone")])
    calls: Calls = {
        "jobs": lambda: measure(v, JOBS, concept=GENDER, seed=3),
        "by default": lambda: measure(v, JOBS[:4], concept=GENDER).details,
        "mean of pairs": lambda: measure(v, JOBS, concept=GENDER, relation="mean-of-pairs", seed=3),
        "four pairs": lambda: measure(v, [*JOBS[:3], "Nurse", "gone"], concept=UNPUBLISHED),
        "lost pairs": lambda: measure(v, JOBS[:3], concept=lossy),
        "opposed pairs": lambda: measure(v, JOBS[:4], concept=opposed),
        "opposed mean": lambda: measure(v, JOBS[:4], concept=opposed, relation="mean-of-pairs"),
        "many pairs": lambda: measure(twenty_five, ["w", "u", "a0"], concept=many),
        "required": lambda: measure(v, [*JOBS[:3], "gone"], concept=GENDER, min_share=0.8),
        "required pairs": lambda: measure(v, JOBS[:3], concept=lossy, min_share=0.9),
        "no pairs": lambda: measure(v, JOBS, concept=COLOUR),
        "equal pairs": lambda: measure(ZERO, ["a"], concept=Concept("c", {"x": ["a"], "y": ["d"]}, [("a", "i")])),
        "one equal pair": lambda: measure(
            ZERO, ["a", "f"], concept=Concept("c", {"x": ["a"], "y": ["d"]}, [("a", "b"), ("a", "i"), ("e", "g")])
        ),
        "a zero vector": lambda: measure(
            ZERO, ["a", "c", "e"], concept=Concept("c", {"x": ["a"], "y": ["d"]}, [("a", "d")])
        ),
    }
    for count in (4, 5, 20, 21, 24, 26):
        contrasts = np.random.default_rng(count).normal(size=(count, 5)) + 2 * np.eye(5)[0]
        rows = np.random.default_rng(9).normal(size=(4, 5))
        for relation in ("pc", "mean-of-pairs"):
            calls[f"{count} {relation}"] = lambda rows=rows, contrasts=contrasts, relation=relation: (
                ripa.pair_intervals(rows, contrasts, relation, level=0.9, seed=1)
            )
    noise = np.random.default_rng(1).normal(size=(9, 40))
    calls["words of length 0"] = lambda: ripa.pair_intervals(np.zeros((2, 40)), noise + 4 * np.eye(40)[0])
    calls["noise"] = lambda: ripa.pair_intervals(noise[:2], noise, seed=1)
    calls["noise, mean"] = lambda: ripa.pair_intervals(noise[:2], noise, "mean-of-pairs", seed=1)
    calls["weak"] = lambda: [
        ripa.pair_intervals(noise[:2], noise + np.eye(40)[0] * size) for size in (1.5, 2, 2.5, 3, 4)
    ]
    check_whole("ripa", outcomes(calls))


def test_same() -> None:
    measure, v = measures.same, before()
    words = [*JOBS[:5], "Nurse", "gone"]
    twice = Concept("twice", {"a": ["scarlet", "ruby"], "b": ["olive", "jade"], "c": ["olive", "jade"]})
    calls: Calls = {
        "two groups": lambda: measure(v, words, concept=GENDER, seed=5),
        **{
            f"three groups {name}": lambda name=name: measure(v, words, concept=COLOUR, combine=name)
            for name in ("length", "sum", "released")
        },
        "positive last": lambda: measure(v, words, concept=Concept("c", COLOUR.groups, positive="blue"), combine="sum"),
        "a group twice": lambda: measure(v, words, concept=twice),
        "up to 1": lambda: (
            measure(ZERO, ["a", "e", "f", "b", "i"], concept=Concept("c", {"x": ["a"], "y": ["h"]})).interval
        ),
        "required": lambda: measure(v, words, concept=GENDER, min_share=0.9),
        "one group": lambda: measure(v, words, concept=ALONE),
        "equal groups": lambda: measure(v, words, concept=Concept("c", {"x": ["ruby"], "y": ["ruby"], "z": ["jade"]})),
        "components": lambda: same.components(np.array([[1.0, 0, 0], [0, 1, 0], [-1, 2, 0], [0, 0, 1]])),
    }
    check_whole("same", outcomes(calls))


def test_bat() -> None:
    measure, v = measures.bat, before()
    ties = Query("ties", [["a", "d"], ["b", "e"]], [["a", "b", "h"], ["d", "e"]])
    calls: Calls = {
        "targets": lambda: measure(v, TARGETS, seed=2),
        "unit length": lambda: measure(v, PLEASANT, normalise=True),
        "lossy": lambda: measure(v, LOSSY),
        "required": lambda: measure(v, LOSSY, min_share=0.9),
        "ties": lambda: measure(ZERO, ties),
        "one word": lambda: measure(v, Query("one", TARGETS.targets, [["she"], ["he"]])),
        "one word of one": lambda: measure(v, Query("one", TARGETS.targets, [["she", "woman"], ["he"]])),
        "shares": lambda: bat.analogy_shares(*(v.matrix[rows].astype(float) for rows in np.arange(16).reshape(4, 4))),
    }
    check_whole("bat", outcomes(calls))


def test_ect_and_mac() -> None:
    v, ties = before(), Query("ties", [["a", "d"], ["b"]], [["a", "A", "e"], ["a", "h", "g"]])
    flat = Query("flat", [["a"], ["d"]], [["b", "c", "b"]])
    other = Query("other", [*PLEASANT.targets], [[*GOOD, "gone"]])
    calls: Calls = {
        "ect": lambda: measures.ect(v, TWO, seed=1),
        "ect by default": lambda: measures.ect(v, PLEASANT).interval,
        "ect ties": lambda: measures.ect(ZERO, ties),
        "ect lossy": lambda: measures.ect(v, LOSSY),
        "ect required": lambda: measures.ect(v, LOSSY, min_share=0.9),
        "ect of two words": lambda: measures.ect(v, Query("two", TARGETS.targets, [["she", "he"]])),
        "ect of three words": lambda: measures.ect(v, Query("three", TARGETS.targets, [["she", "he"], ["aunt"]])),
        "ect flat": lambda: measures.ect(ZERO, flat),
        "ect equal": lambda: measures.ect(ZERO, Query("e", [["a"], ["d"]], [["e", "f", "h"]])),
        "mac": lambda: measures.mac(v, FEELINGS, seed=1),
        "mac changed": lambda: measures.mac(after(), TWO, reference=v),
        "mac itself": lambda: measures.mac(v, TWO, reference=v).details,
        "mac unchanged": lambda: measures.mac(v, TWO, reference=v.with_matrix(v.matrix)).details,
        "mac other words": lambda: measures.mac(v, other, reference=eh.Vectors(v.words[:-1], v.matrix[:-1])).details,
        "mac lost words": lambda: (
            measures.mac(v, other, reference=v.restrict([w for w in v.words if w != "joy"])).details
        ),
        "mac of one": lambda: measures.mac(
            ZERO, Query("o", [["a"]], [["d"]]), reference=ZERO.with_matrix(-ZERO.matrix + 1)
        ),
        "mac required": lambda: measures.mac(v, LOSSY, min_share=0.9),
    }
    check_whole("ect and mac", outcomes(calls))


def test_rnd() -> None:
    measure, v = measures.rnd, before()
    large = Query("large", [JOBS, [*FEMALE, *MALE, *GOOD]], [BAD, ["she", "he"]])
    opposite = Query("opposite", [["a", "h"], ["b", "d"]], [["e", "f"]])
    calls: Calls = {
        **{
            f"{distance} {normalise}": lambda distance=distance, normalise=normalise: measure(
                v, TWO, distance=distance, normalise=normalise, attribute="bad", seed=3
            )
            for distance in ("euclidean", "cosine")
            for normalise in (False, True)
        },
        "by default": lambda: measure(v, TWO),
        "large": lambda: [measure(v, large, distance=name, seed=1).p_value for name in ("euclidean", "cosine")],
        "large by default": lambda: measure(v, large).p_value,
        "lossy": lambda: measure(v, LOSSY),
        "required": lambda: measure(v, LOSSY, min_share=0.9),
        "unknown": lambda: measure(v, TWO, attribute="god"),
        "zero mean": lambda: measure(ZERO, opposite, distance="cosine"),
        "zero mean, euclidean": lambda: measure(ZERO, opposite),
        "one and one": lambda: measure(ZERO, Query("one", [["a"], ["b"]], [["d", "c"]]), distance="cosine"),
    }
    check_whole("rnd", outcomes(calls))


def test_rnsb() -> None:
    measure, v = measures.rnsb, before()
    neutral = Query("neutral", [*TARGETS.targets], [JOBS[10:], JOBS[:2]])
    calls: Calls = {
        "pleasant": lambda: measure(v, PLEASANT, splits=3, seed=2),
        "by default": lambda: measure(v, PLEASANT).details,
        "other sentiment": lambda: measure(v, neutral, sentiment=PLEASANT, splits=1),
        "three targets": lambda: measure(v, FEELINGS, splits=1),
        "two words": lambda: measure(v, Query("two", [["she"], ["he"]], [GOOD, BAD]), splits=1),
        "one word": lambda: measure(v, Query("one", [["she"]], [GOOD, BAD]), splits=1),
        "few words": lambda: measure(v, Query("few", [["she"], ["he"]], [GOOD[:4], BAD[:4]])),
        "no split": lambda: measure(v, PLEASANT, splits=0),
        "required": lambda: measure(v, LOSSY, min_share=0.9),
        "divergences": lambda: rnsb.divergences(
            np.array([[0.1, 0.4, 0.5], [0.0, 0.5, 0.5]]), np.array([[0, 1, 2], [1, 1, 2]])
        ),
    }
    check_whole("rnsb", outcomes(calls), relative=1e-4)


def test_interactions() -> None:
    v = before()
    cells = {"a x c": JOBS[:4], "a x d": JOBS[4:9], "b x c": JOBS[9:12] + GOOD[:1], "b x d": BAD}
    query = Query("crossed", cells, {"female": ["she", "woman"], "male": ["he", "man"]})
    three = Query("wide", {**cells, "a x e": GOOD, "b x e": [*FEMALE]}, query.attributes, concept="jobs")
    few = Query("few", {**cells, "b x d": BAD[:3]}, query.attributes)
    measure = measures.interaction
    calls: Calls = {
        "two by two": lambda: measure(v, query, samples=99, seed=2),
        "two by three": lambda: measure(v, three, samples=50),
        "by default": lambda: measure(v, query).p_value,
        "three words": lambda: measure(v, few, samples=9),
        "lossy": lambda: measure(v, Query("l", {**cells, "b x d": [*BAD, "gone", "War"]}, query.attributes), samples=9),
        "required": lambda: measure(v, Query("l", {**cells, "b x d": [*BAD, "gone"]}, query.attributes), min_share=0.9),
        "no cells": lambda: measure(v, TARGETS),
        "no cells of a concept": lambda: measure(v, Query("c", TARGETS.targets, TARGETS.attributes, concept="jobs")),
        "no table": lambda: measure(v, Query("n", dict(list(cells.items())[:3]), query.attributes)),
        "one row": lambda: measure(v, Query("n", dict(list(cells.items())[:2]), query.attributes)),
        "one column": lambda: measure(
            v, Query("n", {k: w for k, w in cells.items() if k.endswith("c")}, query.attributes)
        ),
        "equal attributes": lambda: measure(v, Query("e", cells, [GOOD, GOOD])),
    }
    check_whole("interaction", outcomes(calls))


def test_mweat() -> None:
    measure, v = measures.mweat, before()
    forms = [
        ("nurse", "guard"),
        ("maid", "miner"),
        ("dancer", "pilot"),
        ("clerk", "driver"),
        ("tailor", "gone"),
        ("maid", "boss"),
    ]
    calls: Calls = {
        "forms": lambda: measure(v, forms, concept=GENDER, seed=1),
        "three groups": lambda: measure(v, Pairs("jobs", forms[:4]), concept=COLOUR),
        "two forms": lambda: measure(v, forms[:2], concept=GENDER),
        "three forms": lambda: measure(v, forms[:3], concept=GENDER),
        "required": lambda: measure(v, forms, concept=GENDER, min_share=0.9),
        "no forms": lambda: measure(v, [("gone", "lost")], concept=GENDER),
        "equal groups": lambda: measure(v, forms, concept=Concept("e", {"x": ["she"], "y": ["she"]})),
        "lost groups": lambda: measure(v, forms, concept=Concept("l", {"x": ["she", "gone", "lost"], "y": ["he"]})),
        "strength": lambda: [
            mweat.strength_interval(np.array(first), np.array(second))
            for first, second in (
                ([1.0, 2, 4], [1.0, 2, 2]), ([0.1, 0.2, 0.3], [1.0, 1.1, 1.3]), ([1.0, 1.1, 1.3], [-0.1, -0.2, 0]), ([1.0, 2], [0.0, 1])
            )
        ],
    }  # fmt: skip
    check_whole("mweat", outcomes(calls))


def test_located_queries() -> None:
    query = Query("q", {"x": ["a", "A", "c", "gone"], "y": ["b", "a"]}, {"u": ["c", "d"], "w": ["e", "E"]})
    located = located_query.locate_query(ZERO, query, targets=None, attributes=None)
    rows = np.array([[1.0, 0.0], [0.0, 1.0]])
    calls: Calls = {
        "details": lambda: located.details(),
        "sets": lambda: [(group.name, group.words, group.ids, group.rows, group.repeated) for group in located.sets],
        "lists": lambda: [tuple(each) for each in located.lists()],
        "items": lambda: located.target_items(np.arange(4.0)),
        "names": lambda: located.target_names(),
        "spans": lambda: [(group.name, span.start, span.stop) for group, span in located.target_spans()],
        "zero vectors": lambda: [group.zero_vectors for group in located.sets],
        **{
            f"needs {targets} and {attributes}": lambda targets=targets, attributes=attributes: (
                located_query.locate_query(ZERO, query, targets=targets, attributes=attributes).coverage
            )
            for targets, attributes in ((2, 2), (1, None), (None, 1), (3, 2), (None, 3))
        },
        "three targets": lambda: located_query.locate_query(
            ZERO, Query("t", [["a"], ["b"], ["c"]], [["d"]]), targets=2, attributes=None
        ),
        "same direction": lambda: [
            located_query.same_direction(rows[0], rows[0] * factor) for factor in (1.0, 1.0005, 0.9995, 1.002, 0.998)
        ],
        "different": lambda: located_query.require_distinct_means(["x", "y", "z"], [rows, rows, rows[:1]]),
        "equal": lambda: located_query.require_distinct_means(["x", "y", "z"], [rows, rows, rows]),
    }
    check_whole("located queries", outcomes(calls))


@pytest.mark.parametrize("factor", [1e4, 1e-4])
def test_what_counts_as_equal_depends_on_the_length_of_the_vectors(factor: float) -> None:
    first = np.array([1.0, 2.0, 0.0]) * factor
    assert located_query.same_direction(first, first * 1.0005)
    assert not located_query.same_direction(first, first * 1.002)
    means = factor * np.array([[1.0, 0.0], [0.0, 0.0], [1e-3, 0.0], [0.5, 1e-3]])
    assert len(same.components(means)) == 2
    v = eh.Vectors(
        ["a", "b", "c", "d", "w"], np.array([[1.0, 0], [1, 5e-4], [0, 1], [0, 3], [2, 1]]) * factor * 100, name="scaled"
    )
    pairs = Pairs("pairs", [("a", "b"), ("c", "d"), ("a", "c")])
    assert ripa.pair_differences(v, pairs)[1] == (("c", "d"), ("a", "c"))
    scores = factor * np.array([1.0, 2.0, 4.0, 3.0])
    assert weat.effect_size_interval(scores, scores[::-1] + factor) == pytest.approx(
        weat.effect_size_interval(scores / factor, scores[::-1] / factor + 1)
    )
    flat = factor * (1 + 1e-15 * np.arange(4))
    assert weat.effect_size_interval(flat, flat + factor) is None
    assert weat.effect_size_interval(factor * (1 + 1e-9 * np.arange(4)), scores) is not None


def test_two_vectors_of_length_0_are_the_same() -> None:
    zero = np.zeros(2)
    assert located_query.same_direction(zero, zero)
    assert same.components(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])).tolist() == [[1.0, -1.0]]
    v = eh.Vectors(["a", "b", "c", "d"], [[1, 0], [0, 1], [0, 0], [0, 0]])
    assert ripa.pair_differences(v, Pairs("pairs", [("a", "b"), ("c", "d")]))[1] == (("a", "b"),)
