"""Whole results of the measures of geometry on a small vocabulary, by option, with what leaves them undefined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import evenhand as eh
from evenhand import measures
from evenhand.measures.geometry import analogies, biased_words, direct_bias, proximity_bias, separability
from evenhand.measures.geometry.biased_words import Restriction, concept_poles
from evenhand.subspaces import Subspace
from evenhand.words import Concept, Pairs, Table, WordSet
from recorded_numbers import check_whole, outcomes
from small_world import ALONE, COLOUR, FEMALE, GENDER, GOOD, JOBS, MALE, OTHERS, PAIRS, UNPUBLISHED, after, before

Calls = dict[str, Callable[[], Any]]
MIXED = [*JOBS, *GOOD, "Nurse", "gone"]
PLANE = eh.Vectors(
    ["a", "b", "c", "d", "e", "f", "g"], [[1, 0], [0, 1], [1, 1], [2, 0], [-1, 1], [0, 0], [1, 1e-5]], name="plane"
)
AB = Concept("ab", {"x": ["a"], "y": ["b"]}, [("a", "b")], specific=["a", "b"])
FEW_PAIRS = Concept("few", GENDER.groups, [("she", "he"), ("gone", "man"), ("girl", "lost")])
NO_LIST = Concept("no list", GENDER.groups, PAIRS[:2])


def test_direct_bias() -> None:
    measure, v = measures.direct_bias, before()
    given = Subspace.given(np.eye(8)[:2] * [[2.0], [1.0]])
    calls: Calls = {
        "words": lambda: measure(v, MIXED, concept=GENDER, seed=2),
        "original": lambda: measure(after(), JOBS, concept=GENDER, direction="original", reference=v, c=2.0),
        "own": lambda: measure(after(), JOBS, concept=GENDER, reference=v),
        "pair": lambda: measure(v, JOBS[:4], concept=GENDER, how="pair"),
        "pair of groups": lambda: measure(v, JOBS[:4], concept=COLOUR, how="pair"),
        "strict": lambda: measure(PLANE, ["a", "c", "e", "f", "g"], concept=AB, c=0.0),
        "vocabulary": lambda: measure(v, "vocabulary", concept=GENDER, restriction=Restriction(40, 6)),
        "given": lambda: measure(v, JOBS[:3], concept=GENDER, subspace=given, c=0.5),
        "without pairs": lambda: measure(v, JOBS[:3], concept=COLOUR),
        "one word": lambda: measure(v, JOBS[:1], concept=GENDER).items,
        "two equal words": lambda: measure(PLANE, ["a", "d"], concept=AB).items,
        "no words of groups": lambda: (
            measure(v, JOBS, concept=Concept("g", {"x": ["gone"], "y": ["he"]}, PAIRS)).details
        ),
        "required": lambda: measure(v, MIXED[-4:], concept=GENDER, min_share=0.9),
        "alone": lambda: measure(v, JOBS, concept=ALONE),
        "few pairs": lambda: measure(v, JOBS[:3], concept=FEW_PAIRS),
        "few pairs, given": lambda: measure(v, JOBS[:3], concept=FEW_PAIRS, subspace=given).value,
        "negative": lambda: measure(v, JOBS, concept=GENDER, c=-0.1),
        "other dimension": lambda: measure(PLANE, ["a"], concept=AB, direction="original", reference=v),
    }
    check_whole("direct bias", outcomes(calls))


def test_indirect_bias() -> None:
    measure, v = measures.indirect_bias, before()
    pairs = [("nurse", "maid"), ("boss", "guard"), ("nurse", "gone"), ("pilot", "queen"), ("Nurse", "pilot")]
    calls: Calls = {
        "pairs": lambda: measure(v, pairs, concept=GENDER, seed=1),
        "named": lambda: measure(after(), Pairs("named", pairs[:2]), concept=GENDER, reference=v, direction="original"),
        "pair": lambda: measure(v, pairs, concept=GENDER, how="pair", smallest=0.4),
        "given": lambda: measure(
            v, pairs, concept=GENDER, subspace=Subspace.given(np.eye(8)[:3] * [[3.0], [2.0], [1.0]])
        ),
        "undefined": lambda: measure(PLANE, [("a", "b")], concept=AB),
        "on the direction": lambda: measure(PLANE, [("a", "d")], concept=AB, subspace=Subspace.given([1.0, 0.0])),
        "required": lambda: measure(v, pairs, concept=GENDER, min_share=0.9),
        "beta": lambda: direct_bias.beta(
            np.array([0.5, 1e-6, 9e-7, -0.5, 0.5]),
            np.array([[0.1], [0.1], [0.1], [0.2], [1.0]]),
            np.array([[0.3], [0.3], [0.3], [-0.4], [0.3]]),
        ),
        "beta, smallest": lambda: direct_bias.beta(
            np.array([0.5, 0.49, -0.5]), np.zeros((3, 1)), np.array([[0.0], [0.0], [0.5]]), smallest=0.5
        ),
    }
    check_whole("indirect bias", outcomes(calls))


def test_midb() -> None:
    measure, v = measures.midb, before()
    cased = Concept(
        "cased",
        {"x": ["she"], "y": ["she2"], "z": ["he"]},
        names={"x": ["Anna", "emma"], "y": ["Paul"], "z": ["Tom", "Karl"]},
    )
    calls: Calls = {
        "words": lambda: measure(v, MIXED, concept=GENDER, d=3, seed=2),
        "by default": lambda: measure(v, concept=GENDER),
        "uncentred": lambda: measure(v, JOBS, concept=GENDER, d=2, centre=False, signed=False),
        "original": lambda: measure(after(), JOBS, concept=GENDER, d=2, direction="original", reference=v),
        "own case": lambda: measure(v, JOBS[:3], concept=cased, d=1),
        "required": lambda: measure(v, JOBS[:3], concept=cased, d=1, min_share=0.6),
        "no names": lambda: measure(v, JOBS, concept=NO_LIST),
        "no positive names": lambda: measure(v, JOBS, concept=Concept("n", GENDER.groups, names={"male": MALE})),
        "colours": lambda: measure(v, JOBS, concept=COLOUR, d=2),
    }
    check_whole("midb", outcomes(calls))


def test_neighbours() -> None:
    measure, v = measures.neighbours, before()
    pool = [*JOBS, *OTHERS[:4], *GOOD]
    calls: Calls = {
        "words": lambda: measure(v, MIXED, k=5, concept=GENDER, seed=3),
        "options": lambda: measure(
            after(), JOBS, k=3, pool=pool, statistic="spearman", score="projection", reference=v, concept=GENDER
        ),
        "sample": lambda: measure(v, k=4, sample=9, concept=GENDER, pair=("woman", "man"), seed=5),
        "groups": lambda: measure(v, JOBS, k=4, concept=COLOUR),
        "many neighbours": lambda: measure(v, JOBS, k=500, pool=pool, concept=GENDER),
        "restricted": lambda: measure(v, JOBS, k=2, concept=GENDER, restriction=Restriction(30, exclude="")),
        "no variation": lambda: measure(v, JOBS[:3], k=2, pool=JOBS[:3], concept=GENDER),
        "one pool word": lambda: measure(v, JOBS, k=2, pool=JOBS[:1], concept=GENDER),
        "k of 0": lambda: measure(v, JOBS, k=0, concept=GENDER),
        "sample of 0": lambda: measure(v, JOBS, sample=0, concept=GENDER),
        "required": lambda: measure(v, MIXED[-3:], concept=GENDER, min_share=0.9),
        "statistic": lambda: measures.neighbours.__wrapped__(None, v, statistic="kendall"),  # type: ignore[attr-defined]
    }
    check_whole("neighbours", outcomes(calls))


def test_occupation_share() -> None:
    measure, v = measures.occupation_share, before()
    shares = WordSet(
        "shares",
        [*JOBS, "gone"],
        scores={"women": [90.0, 95, 60, 55, 50, 45, 70, 20, 10, 5, 15, 30, 1], "pay": list(range(13))},
    )
    calls: Calls = {
        "shares": lambda: measure(v, shares, concept=GENDER, seed=2),
        "pay": lambda: measure(
            v, shares, column="pay", statistic="spearman", score="projection", concept=GENDER, seed=2
        ),
        "pair": lambda: measure(v, shares, pair=("queen", "king"), concept=GENDER),
        "groups": lambda: measure(v, shares, concept=COLOUR),
        "required": lambda: measure(v, shares, concept=GENDER, min_share=0.95),
        "no column": lambda: measure(v, shares, column="women's", concept=GENDER),
        "no numbers": lambda: measure(v, WordSet("plain", JOBS), concept=GENDER),
        "constant": lambda: measure(v, WordSet("c", JOBS, scores={"x": [1.0] * 12}), concept=GENDER),
    }
    check_whole("occupation share", outcomes(calls))


def test_proximity() -> None:
    proximity, gipe, v = measures.proximity_bias, measures.gipe, before()
    pool = [*JOBS, *OTHERS[:4], *GOOD]
    graph = proximity_bias.NeighbourGraph(np.array([[1, 2], [0, 2], [0, 1]]), np.array([0, 1, -1]))
    flags = np.array([[True, False], [False, False], [True, True]])
    calls: Calls = {
        "proximity": lambda: proximity(v, MIXED, k=5, concept=GENDER, seed=1),
        "proximity, options": lambda: proximity(
            after(), JOBS, theta=0.1, k=3, pool=pool, how="pair", reference=v, concept=GENDER, smallest=0.3
        ),
        "proximity, given": lambda: proximity(v, JOBS, k=4, subspace=Subspace.given(np.eye(8)[0]), concept=GENDER),
        "proximity, colours": lambda: proximity(v, JOBS, k=4, concept=COLOUR, restriction=Restriction(20)),
        "proximity, required": lambda: proximity(v, MIXED[-3:], k=4, concept=GENDER, min_share=0.9),
        "proximity, k of 0": lambda: proximity(v, JOBS, k=0, concept=GENDER),
        "gipe": lambda: gipe(v, MIXED, k=5, concept=GENDER, seed=1),
        "gipe, options": lambda: gipe(
            after(), JOBS, theta=0.05, k=3, pool=pool, how="pair", reference=v, concept=GENDER, smallest=0.1, unvisited=0
        ),
        "gipe, sample": lambda: gipe(v, sample=7, k=3, concept=GENDER, seed=4),
        "gipe, given": lambda: gipe(v, JOBS, k=3, subspace=Subspace.given(np.eye(8)[0]), concept=GENDER).params,
        "gipe, nobody": lambda: gipe(v, FEMALE, k=2, pool=JOBS, unvisited=0, concept=GENDER),
        "gipe, nobody in a full graph": lambda: gipe(v, FEMALE, k=11, pool=JOBS, unvisited=0, concept=GENDER),
        "gipe, unvisited": lambda: gipe(v, FEMALE, k=2, pool=JOBS, concept=GENDER),
        "gipe, weight of 2": lambda: proximity_bias.gipe.__wrapped__(None, v, unvisited=2),  # type: ignore[attr-defined]
        "edges": lambda: [
            proximity_bias.incoming_edges(graph, 4), proximity_bias.incoming_edges(graph, 4, flags),
            *(proximity_bias.node_weights(graph, flags, 4, unvisited) for unvisited in (0, 1)),
        ],
        "ratio": lambda: proximity_bias._ratio(np.array([[1.0, 2.0], [1.0, 0.0], [0.2, 0.5]])),
    }  # fmt: skip
    check_whole("proximity", outcomes(calls))


def test_clustering() -> None:
    measure, v = measures.clustering, before()
    labels = np.array([0, 0, 0, 1, 1, 1])
    runs = np.array([[0, 0, 0, 1, 1, 1], [1, 1, 0, 0, 0, 0], [0, 1, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0]])
    counts = separability.tables(labels, runs)
    calls: Calls = {
        "words": lambda: measure(v, MIXED, per_side=4, runs=2, starts=2, concept=GENDER, seed=3),
        "options": lambda: measure(
            after(), JOBS, value="v-measure", score="projection", normalise=True, runs=1, starts=1, reference=v, concept=GENDER
        ),
        "pair": lambda: measure(v, per_side=6, pair=("woman", "man"), runs=3, starts=1, concept=GENDER).params,
        "two a side": lambda: measure(v, JOBS[:5], per_side=2, runs=1, starts=1, concept=GENDER).n,
        "one a side": lambda: measure(v, JOBS[:3], runs=1, concept=GENDER),
        "per side of 0": lambda: measure(v, JOBS, per_side=0, runs=1, concept=GENDER),
        "equal words": lambda: measure(
            v.with_matrix(np.where(np.arange(len(v))[:, None] < 12, v.matrix, 1.0)), [*JOBS, *GOOD], reference=v, concept=GENDER
        ),
        "long and equal": lambda: separability.two_means(
            1e4 * (1 + 1e-7 * np.eye(4)), normalise=False, runs=1, starts=1, seed=0
        ),
        "required": lambda: measure(v, MIXED[-3:], concept=GENDER, min_share=0.9),
        "runs": lambda: measure(v, JOBS, runs=0),
        "starts": lambda: measure(v, JOBS, starts=0),
        "tables": lambda: [counts, separability.accuracy(counts), separability.v_measure(counts)],
        "ranges": lambda: separability._ranges(labels, runs),
        "chance": lambda: [separability._chance_p(labels, runs[:n], name, 1) for n in (1, 3) for name in separability.FUNCTIONS],
        "interval": lambda: [separability._interval(labels, runs, name, 2) for name in separability.FUNCTIONS],
        "units": lambda: separability._units("abcdef", labels, runs, "accuracy"),
        "plane": lambda: [
            separability._plane(rows, np.array([0, 0, 1, 1]))
            for rows in (np.array([[3.0, 0], [2, 1], [-1, 0], [-2, 1]]), np.array([[-3.0], [-2], [1], [2]]), np.ones((4, 3)))
        ],
    }  # fmt: skip
    check_whole("clustering", outcomes(calls), relative=1e-4)


def test_recoverability() -> None:
    measure, v = measures.recoverability, before()
    few = {"per_side": 8, "train": 0.5, "repeats": 2, "concept": GENDER}
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(30, 3)) + np.repeat([0, 1], 15)[:, None], np.repeat([0, 1], 15)
    correct = np.array([[True, False, True, True], [False, True, True, False]])
    tested = np.array([[True, False, True, False], [True, True, False, False]])
    settings = separability.classifier_settings(tuple(separability.SETTINGS), {"mlp": {"max_iter": 3}})
    calls: Calls = {
        "words": lambda: measure(v, classifiers=("linear-svm", "rbf-svm"), seed=2, **few),
        "options": lambda: measure(
            after(), [*JOBS, *GOOD], classifier="rbf-svm", classifiers=(), options={"rbf-svm": {"gamma": "auto", "C": 2.0}},
            per_side=6, train=0.3, score="projection", normalise=True, reference=v, pair=("woman", "man"), concept=GENDER,
        ),
        "by default": lambda: measure(v, classifiers=(), concept=GENDER).details,
        "unconverged": lambda: measure(v, classifiers=(), options={"logistic": {"max_iter": 1}}, **few).details,
        "few words": lambda: measure(v, JOBS[:3], classifiers=(), concept=GENDER),
        "required": lambda: measure(v, MIXED[-3:], concept=GENDER, min_share=0.9),
        "unknown": lambda: measure(v, classifier="svm", concept=GENDER),
        "unknown option": lambda: measure(v, options={"mpl": {}}, concept=GENDER),
        **{f"train {share}": lambda share=share: measure(v, train=share, concept=GENDER) for share in (0, 1)},
        "repeats": lambda: measure(v, repeats=0, concept=GENDER),
        "one repeat": lambda: measure(v, JOBS, classifiers=(), repeats=1, per_side=4, train=0.5, concept=GENDER).details,
        "masks": lambda: [separability._test_mask(4, share, 1) for share in (0.01, 0.2, 0.5, 0.6, 0.99)],
        "two words": lambda: separability._test_mask(2, 0.5, 1),
        "units": lambda: separability._recoverability_units("abcd", correct, tested),
        "shares": lambda: separability._accuracy_by_word(correct, tested),
        "evaluation": lambda: separability._Evaluation(correct, 1).to_dict(tested),
        "predictions": lambda: [
            separability.predict(name, each, (rows[::2], labels[::2]), rows[1::2], seed=3) for name, each in settings.items()
        ],
        "gamma": lambda: [
            separability._gamma(gamma, matrix) for gamma in ("scale", "auto", 0.3) for matrix in (rows, np.ones((3, 4)))
        ],
    }  # fmt: skip
    check_whole("recoverability", outcomes(calls), relative=1e-4)


def test_generated_analogies() -> None:
    measure, v = measures.analogy_generation, before()
    calls: Calls = {
        "words": lambda: measure(v, MIXED, k=6, concept=GENDER, seed=1),
        "by default": lambda: measure(v, concept=GENDER),
        "far": lambda: measure(v, k=3, delta=2.0, concept=GENDER),
        "specific words": lambda: measure(
            v, ["woman", "girl", "queen", "king", "boy", "uncle", *JOBS[:3]], k=4, delta=2.0, concept=GENDER
        ),
        "near": lambda: measure(v, k=50, delta=0.8, concept=GENDER, score="strength"),
        "original": lambda: measure(after(), k=4, direction="original", reference=v, concept=GENDER, score="neutral-share"),
        "pair": lambda: measure(v, [*JOBS, "woman", "man"], k=3, delta=1.2, pair=("woman", "man"), concept=GENDER),
        "groups": lambda: measure(v, k=3, delta=1.2, concept=COLOUR, restriction=Restriction(30)),
        "no list": lambda: measure(v, k=3, delta=1.2, concept=NO_LIST),
        "too near": lambda: measure(v, delta=0.001, concept=GENDER),
        "required": lambda: measure(v, JOBS, concept=Concept("l", {"x": ["she", "gone", "lost"], "y": ["he"]})),
        "k of 0": lambda: measure(v, k=0, concept=GENDER),
        "delta of 0": lambda: measure(v, delta=0.0, concept=GENDER),
        "delta of 2.1": lambda: measure(v, delta=2.1, concept=GENDER),
        "generated": lambda: [tuple(one) for one in analogies.generate_analogies(v, k=5)],
        "generated from few": lambda: [tuple(one) for one in analogies.generate_analogies(v, ("girl", "boy"), 9, delta=1.3, first=24)],
        "near pairs": lambda: analogies._near_pairs(
            np.array([[1.0, 0.5, 0.4999], [0.99994, 0.99996, -1.0]], dtype=np.float32), 1.0
        ),
    }  # fmt: skip
    check_whole("generated analogies", outcomes(calls))


def test_analogies_in_blocks_are_those_at_once(monkeypatch: Any) -> None:
    v = before()
    whole = analogies.generate_analogies(v, k=20, delta=1.5)
    monkeypatch.setattr(analogies, "BLOCK", 7)
    blocks = analogies.generate_analogies(v, k=20, delta=1.5)
    assert [one[:2] for one in blocks] == [one[:2] for one in whole]
    assert len(whole) == 20


def test_sembias() -> None:
    measure, v = measures.sembias, before()
    table = Table(
        "table",
        ("definition", "stereotype", "none", "none2"),
        [
            ("boy:girl", "pilot:nurse", "joy:pain", "river:stone"), ("man:woman", "boss:maid", "love:war", "cloud:table"),
            ("king:queen", "pilot:nurse", "luck:loss", "house:window"), ("boy:girl", "boss:maid", "joy:peace", "x2:table"),
            ("man:woman", "gone:nurse", "joy:pain", "river:stone"), ("olive:lime", "guard:maid", "gift:ruby", "he:she"),
        ],
    )  # fmt: skip
    plane = Table("plane", ("definition", "stereotype"), [("b:a", "b:d"), ("g:a", "b:a")])
    calls: Calls = {
        "table": lambda: measure(v, table, concept=GENDER, seed=1),
        "original": lambda: measure(after(), table, concept=GENDER, direction="original", reference=v, undecided=0.3),
        "pair": lambda: measure(v, table, concept=GENDER, pair=("king", "queen")),
        "groups": lambda: measure(v, table, concept=COLOUR),
        "undecided": lambda: measure(v, table, concept=GENDER, undecided=3.0),
        "equal pairs": lambda: measure(PLANE, plane, concept=AB),
        "required": lambda: measure(v, table, concept=GENDER, min_share=0.9),
        "columns": lambda: measure(v, Table("t", ("definition", "other"), [("a:b", "c:d")]), concept=GENDER),
        "columns too": lambda: measure(v, Table("t", ("other", "stereotype"), [("a:b", "c:d")]), concept=GENDER),
        "cells": lambda: measure(v, Table("t", ("definition", "stereotype"), [("a:b:c", "c:d")]), concept=GENDER),
        "choices": lambda: analogies._choices(
            np.array([[0.5, 0.5001], [0.5, 0.50005], [0.2, 0.1]]), ("definition", "stereotype"), 1e-4
        ),
    }
    check_whole("sembias", outcomes(calls))


def test_biased_words() -> None:
    v = before()
    poles = concept_poles(GENDER)
    rows = v.locate(JOBS)[0]
    three = Concept("t", {"x": ["she"], "y": ["he", "man"], "z": ["he", "boy"]}, positive="x")

    def selected(words: Any = "vocabulary", **options: Any) -> Any:
        found = biased_words.select_words(v, words, **{"concept": GENDER, **options})
        return [
            found.name,
            found.words,
            found.rows,
            found.reference_rows,
            found.coverage,
            found.sizes,
            found.restriction,
        ]

    def restricted(**options: Any) -> Callable[[], Any]:
        return lambda: selected(restriction=Restriction(**options))

    calls: Calls = {
        "poles": lambda: [concept_poles(each) for each in (GENDER, UNPUBLISHED, three, ALONE)],
        "poles of a pair": lambda: concept_poles(three, ["a", "b"]).to_dict(),
        "poles of a text": lambda: concept_poles(three, "ab"),
        "poles of three": lambda: concept_poles(three, ["a", "b", "c"]),
        "lists": lambda: [[tuple(one) for one in concept_poles(each).lists(v)] for each in (GENDER, three, ALONE)],
        "axis": lambda: [concept_poles(each).axis(v, normalise=flag) for each in (GENDER, COLOUR) for flag in (False, True)],
        "no axis": lambda: concept_poles(ALONE).axis(v, normalise=True),
        "scores": lambda: [biased_words.bias_scores(v, rows, each, score=score) for each in (poles, concept_poles(COLOUR))
                           for score in ("cosine", "projection")],
        "other score": lambda: biased_words.bias_scores(v, rows, poles, score="dot"),  # type: ignore[arg-type]
        "most biased": lambda: [biased_words.most_biased(np.array([3.0, 1, 3, -1, 1]), n) for n in (1, 2, 9)],
        "directions": lambda: [
            biased_words.concept_direction(v, each, how=how).params for each in (GENDER, UNPUBLISHED, COLOUR) for how in ("pairs", "pair")
        ],
        "no direction": lambda: biased_words.concept_direction(v, ALONE),
        "other direction": lambda: biased_words.concept_direction(v, GENDER, how="both"),  # type: ignore[arg-type]
        "direction lists": lambda: [
            [tuple(one) for one in biased_words.direction_lists(v, each, how=how)]
            for each in (GENDER, UNPUBLISHED, COLOUR) for how in ("pairs", "pair")
        ],
        "other source": lambda: biased_words.direction_source(v, None, "mine"),  # type: ignore[arg-type]
        "sources": lambda: [
            biased_words.direction_source(v, reference, name).name for reference in (None, after()) for name in ("own", "original")
        ],
        "vocabulary": lambda: selected(),
        "reference": lambda: selected(reference=after()),
        "list and reference": lambda: selected([*JOBS, "Window", "gone", "house"], reference=after()),
        "first": restricted(first=20), "longest": restricted(longest=5), "everything": restricted(exclude=""),
        "list left out": restricted(exclude="bolukbasi2016-gender-specific"),
        "no list": lambda: selected(concept=NO_LIST),
        "nothing": lambda: Restriction(first=0),
        "no letter": lambda: Restriction(longest=0),
        "one": lambda: [Restriction(first=1).first, Restriction(longest=1).longest],
        "concept words": lambda: biased_words.concept_words(GENDER).words,
        "excluded": lambda: [
            Restriction(exclude=name).to_dict(each) for name in (None, "") for each in (GENDER, NO_LIST, eh.concept("gender"))
        ],
        "plain": lambda: [
            (word, biased_words.is_plain(word))
            for word in ("word", "Word", "two_words", "two_", "_", "x2", "don't", "naïve", "नमस्ते", "a-b", "", "ﬁ", "ελλάς")
        ],
        "sample": lambda: [
            biased_words.select_words(v, JOBS, concept=GENDER).sample(n, seed=2).words for n in (None, 1, 3, 12, 13)
        ],
        "sample of 0": lambda: biased_words.select_words(v, JOBS, concept=GENDER).sample(0, seed=2),
        "most biased words": lambda: [
            [both.selection.words, both.labels, both.scores, both.per_side, both.to_dict()]
            for both in [biased_words.select_most_biased(
                biased_words.select_words(v, JOBS, concept=GENDER), v, poles, score="cosine", per_side=4)]
        ],
        "vocabulary list": lambda: [tuple(one) for one in biased_words.select_words(v, concept=GENDER).lists()],
        "words list": lambda: [tuple(one) for one in biased_words.select_words(v, MIXED, concept=GENDER).lists()],
        "described": lambda: biased_words.describe_direction(biased_words.concept_direction(v, GENDER, how="pair")),
    }  # fmt: skip
    check_whole("biased words", outcomes(calls))


def test_of_many_words_two_hundred_a_side_are_items() -> None:
    names = [f"w{chr(97 + row // 26)}{chr(97 + row % 26)}" for row in range(440)]
    rows = np.random.default_rng(0).normal(size=(442, 3))
    v = eh.Vectors(["she", "he", *names], rows)
    concept = Concept("pair", {"x": ["she"], "y": ["he"]})
    found = measures.clustering(v, names, per_side=215, runs=1, starts=1, concept=concept)
    assert (found.n, len(found.items)) == (430, 400)
    assert [item["value"] > 0 for item in found.items] == [True] * 200 + [False] * 200
