from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures.quality.rated_sets import RatedPairs
from evenhand.measures.quality.similarity import similarity
from evenhand.models.vectors import Vectors

# Cosines with "e": east 1, ne .707, north 0, west -1
V = Vectors(["e", "east", "ne", "north", "west"], [[1, 0], [2, 0], [3, 3], [0, 5], [-1, 0]], name="compass")


def pairs(*ratings: float, words: tuple[str, ...] = ("east", "ne", "north", "west")) -> RatedPairs:
    return RatedPairs("mine", tuple(("e", word) for word in words), np.array(ratings))


def test_the_order_of_the_cosines_is_compared_with_the_order_of_the_ratings() -> None:
    assert similarity(V, pairs(9, 7, 5, 1)).value == pytest.approx(1)
    assert similarity(V, pairs(1, 5, 7, 9)).value == pytest.approx(-1)
    assert similarity(V, pairs(9, 5, 7, 1)).value == pytest.approx(1 - 6 * 2 / (4 * 15))  # 1 - 6 sum d^2 / (n^3 - n)
    assert similarity(V, pairs(7, 7, 5, 1)).value == pytest.approx(3 / np.sqrt(10))  # ranks 4 3 2 1 and 3.5 3.5 2 1


def test_the_record_says_what_was_compared() -> None:
    m = similarity(V, pairs(9, 7, 5, 1), seed=3)
    assert (m.measure, m.query, m.model, m.n, m.seed) == ("similarity", "mine", "compass", 4, 3)
    assert m.params == {"unknown": "drop", "min_share": 0.5, "case": "auto"}
    assert m.items[1] == {"first": "e", "second": "ne", "value": pytest.approx(0.5**0.5), "rating": 7.0}
    assert m.coverage.share == 1
    assert eh.measures.similarity is similarity


def test_pairs_with_unknown_words_are_dropped_and_counted() -> None:
    rated = pairs(9, 1, 5, 3, 7, words=("east", "west", "nowhere", "north", "NE"))
    m = similarity(V, rated)
    assert m.value == pytest.approx(1)
    assert m.n == 4
    assert m.coverage.missing == ("nowhere",)
    assert m.coverage.respelt == {"NE": "ne"}
    assert m.details == {"pairs": 5, "pairs_complete": 4, "pairs_used": 4}


def test_an_unknown_word_may_have_the_mean_vector() -> None:
    rated = pairs(9, 1, 8, 3, words=("east", "west", "nowhere", "north"))
    m = similarity(V, rated, unknown="mean-vector")
    mean = V.matrix.mean(axis=0)
    assert m.n == 4
    assert m.items[2]["value"] == pytest.approx(mean[0] / np.linalg.norm(mean))
    assert m.params["unknown"] == "mean-vector"


def test_undefined_with_a_reason() -> None:
    lost = similarity(V, pairs(1, 2, 3, words=("x", "y", "east")))
    assert lost.status == "undefined"
    assert lost.reason == "too few complete pairs are in the vocabulary: mine 1 of 3 (min_share=0.5)"
    few = similarity(V, pairs(1, 2, 3, words=("x", "y", "east")), min_share=0.1)
    assert few.reason == "1 of 3 pairs of mine have both words in the vocabulary"
    nobody = RatedPairs("mine", (("p", "q"), ("r", "s"), ("t", "u")), np.array([1.0, 2, 3]))
    assert similarity(V, nobody, unknown="mean-vector").status == "undefined"
    assert "all ratings are equal" in similarity(V, pairs(2, 2, 2, 2)).reason
    one = Vectors(["e", "east", "ne", "north", "west"], np.outer([1, 2, 3, 4, 5], [0.3, 0.7, 0.2]))
    assert "all cosines are equal" in similarity(one, pairs(1, 2, 3, 4)).reason


def test_an_unknown_policy_raises() -> None:
    with pytest.raises(UsageError, match="'zero'"):
        similarity(V, pairs(1, 2, 3, 4), unknown="zero")  # type: ignore[arg-type]


@given(st.integers(0, 999))
def test_neither_rotation_nor_length_changes_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"w{i}" for i in range(12)]
    matrix = rng.normal(size=(12, 5))
    rated = RatedPairs("mine", tuple(zip(names[::2], names[1::2], strict=True)), rng.normal(size=6))
    turned = matrix @ np.linalg.qr(rng.normal(size=(5, 5)))[0] * rng.uniform(0.5, 3, size=(12, 1))
    first, second = similarity(Vectors(names, matrix), rated), similarity(Vectors(names, turned), rated)
    assert first.value == pytest.approx(second.value)


@pytest.mark.data
@pytest.mark.parametrize("name", ["rg-65", "ws-353", "mturk-287", "mturk-771", "men", "simlex-999", "rw"])
def test_gensim_agrees_on_the_embedded_vectors(name: str) -> None:
    if not os.environ.get("EVENHAND_DATA"):
        pytest.skip("EVENHAND_DATA is not set")
    models = pytest.importorskip("gensim.models")
    v = Vectors.default()
    other = models.KeyedVectors(v.dim)
    other.add_vectors(list(v.words), v.matrix)
    path = eh.data.locate(name)
    assert isinstance(path, Path)
    ours = similarity(v, name, min_share=0)
    _, theirs, unknown = other.evaluate_word_pairs(str(path), restrict_vocab=len(v))
    assert ours.value == pytest.approx(theirs.statistic, abs=2e-4)  # theirs has cosines in single precision
    assert ours.n == round((1 - unknown / 100) * ours.details["pairs"])
