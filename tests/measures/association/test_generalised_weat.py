"""Generalised WEAT: half of WEAT's difference for two sets, the definition for more, and its permutation test."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import Query, Vectors, measures
from evenhand.errors import UsageError

seeds = st.integers(0, 10_000)
gweat = measures.get("generalised-weat")


def three_sets(seed):
    rng = np.random.default_rng(seed)
    names = [[f"{letter}{i}" for i in range(3 + n % 3)] for n, letter in enumerate("xyzabc")]
    words = [w for group in names for w in group]
    vectors = Vectors(words, rng.normal(size=(len(words), 5)).astype(np.float32))
    return vectors, Query("three", dict(zip("XYZ", names[:3], strict=True)), dict(zip("ABC", names[3:], strict=True)))


@given(seeds)
def test_two_sets_are_half_of_weats_difference_of_means(lab, seed):
    vectors, query = lab.planted(seed)
    difference = measures.weat(vectors, query).details["mean_difference"]
    assert gweat(vectors, query, samples=1).value == pytest.approx(difference / 2, abs=1e-9)


@given(seeds)
def test_is_the_definition(seed):
    vectors, query = three_sets(seed)

    def mean(group):
        return np.mean([vectors[w].astype(float) / np.linalg.norm(vectors[w].astype(float)) for w in group], axis=0)

    x, a = ([mean(group) for group in sets] for sets in (query.targets, query.attributes))
    expected = sum((xi - np.mean(x, axis=0)) @ (ai - np.mean(a, axis=0)) for xi, ai in zip(x, a, strict=True))
    m = gweat(vectors, query, samples=1)
    assert m.value == pytest.approx(expected, abs=1e-6)
    assert sum(m.details["by_set"].values()) == pytest.approx(m.value)


@given(seeds)
def test_the_order_of_the_sets_does_not_matter_if_both_are_turned(seed):
    vectors, query = three_sets(seed)
    turned = Query("t", query.targets[::-1], query.attributes[::-1])
    assert gweat(vectors, turned, samples=1).value == pytest.approx(gweat(vectors, query, samples=1).value)


def test_its_p_value_for_two_sets_is_that_of_weat(lab):
    vectors, query = lab.planted(7)
    for alternative in ("two-sided", "greater", "less"):
        exact = measures.weat(vectors, query, alternative=alternative).p_value
        m = gweat(vectors, query, samples=20_000, alternative=alternative)
        assert m.p_value == pytest.approx(exact, abs=0.02)
        assert m.params["alternative"] == alternative
        assert ("one-sided" in m.reading) == (alternative != "two-sided")


def test_associated_names_are_found():
    m = gweat(Vectors.default(), "weat-6", samples=500)
    assert m.p_value == 1 / 501
    assert m.interval[0] > 0
    assert m == gweat(Vectors.default(), "weat-6", samples=500)


def test_undefined_results_and_invalid_arguments():
    vectors, query = three_sets(0)
    m = gweat(vectors, Query("q", {"X": ["gone"], "Y": ["x0"]}, {"A": ["a0"], "B": ["b0"]}))
    assert (m.status, m.reason) == ("undefined", "no word of X is in the vocabulary")
    uneven = gweat(vectors, Query("q", query.targets, query.attributes[:2], concept="colour"))
    assert uneven.status == "undefined"
    assert "q about colour has 3 and 2" in uneven.reason
    with pytest.raises(UsageError, match="samples must be at least 1, got 0"):
        gweat(vectors, query, samples=0)
    with pytest.raises(UsageError, match="'both'"):
        gweat(vectors, query, alternative="both")
