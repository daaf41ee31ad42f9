"""The bias analogy test: by hand, by brute force over the definition, and its laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import Query, Vectors, measures
from evenhand import query as find_query
from evenhand.errors import UsageError
from evenhand.measures.association import bat as bat_module

seeds = st.integers(0, 10_000)


def brute_force(vectors, query):
    """Count every comparison of the definition, with half for ties."""
    (t1s, t2s), (a1s, a2s) = query.targets, query.attributes
    v = {word: vectors[word].astype(float) for word in query.words}
    wins = []

    def compare(point, wanted, others):
        for other in others:
            near, far = np.linalg.norm(point - v[wanted]), np.linalg.norm(point - v[other])
            wins.append(0.5 if np.isclose(near, far, rtol=0, atol=1e-9) else float(near < far))

    for t1 in t1s:
        for t2 in t2s:
            for a1 in a1s:
                for a2 in a2s:
                    compare(v[t1] - v[t2] + v[a2], a1, [word for word in a2s if word != a2])
                    compare(v[a1] - v[t1] + v[t2], a2, [word for word in a1s if word != a1])
    return np.mean(wins)


def test_by_hand():
    # On a line: he - she = 2. q1 = 2 + a2 and q2 = a1 - 2.
    # a2 = -1: q1 = 1 is nearest to a1 = 1 and 1.5, and -1.5 is far: 2 of 2. a2 = -1.5: q1 = .5, the other a2 is -1
    # at 1.5, a1 = 1 at .5 and 1.5 at 1: 2 of 2. By symmetry q2 wins 4 of 4: the stereotype holds throughout.
    vectors = Vectors(["he", "she", "job", "pay", "home", "child"], [[1.0], [-1.0], [1.0], [1.5], [-1.0], [-1.5]])
    query = Query("q", {"men": ["he"], "women": ["she"]}, {"career": ["job", "pay"], "family": ["home", "child"]})
    m = measures.bat(vectors, query)
    assert (m.value, m.n, m.interval) == (1.0, 2, None)
    assert m.details["by_query"] == {"men - women + family": 1.0, "career - men + women": 1.0}
    assert m.details["swapped"] == 0.0
    assert m.reading == ("100.0 % of the analogies men : career :: women : family hold, 0.0 % with the groups swapped")
    # he = she leaves q1 = a2, so that no analogy can hold: groups that collapsed cannot be compared.
    equal = Vectors(vectors.words, [[0.0], [0.0], *vectors.matrix[2:].tolist()])
    assert "same mean vector" in measures.bat(equal, query).reason


@given(seeds, st.booleans())
@settings(max_examples=30)
def test_is_the_definition_with_sets_of_unequal_size(lab, seed, normalise):
    vectors, query = lab.planted(seed, dim=3, sizes=(2, 3, 3, 4))
    measured = vectors.with_matrix(vectors.unit) if normalise else vectors
    m = measures.bat(vectors, query, normalise=normalise)
    assert m.value == pytest.approx(brute_force(measured, query), abs=1e-9)
    by_word = {item["word"]: item["value"] for item in m.items}
    assert np.mean([by_word[word] for word in query.targets[0]]) == pytest.approx(m.value)
    assert np.mean([by_word[word] for word in query.targets[1]]) == pytest.approx(m.value)


@given(seeds)
@settings(max_examples=20)
def test_swapping_both_targets_and_attributes_rotation_and_scale_do_not_matter(lab, seed):
    vectors, query = lab.planted(seed)
    plain = measures.bat(vectors, query).value
    both = measures.bat(vectors, Query("q", query.targets[::-1], query.attributes[::-1])).value
    assert both == pytest.approx(plain)
    for changed in (lab.rotated(vectors), lab.scaled(vectors, 7.0)):
        assert measures.bat(changed, query).value == pytest.approx(plain, abs=0.01)  # a tie within rounding


def test_blocks_do_not_change_the_value(lab, monkeypatch):
    vectors, query = lab.planted(3)
    whole = measures.bat(vectors, query)
    monkeypatch.setattr(bat_module, "CELLS_AT_ONCE", 1)
    assert measures.bat(vectors, query) == whole


def test_names_and_careers_hold_the_stereotype():
    m = measures.bat(Vectors.default(), "weat-6")
    assert m.value > 0.3
    assert m.interval[0] < m.value < m.interval[1]
    query = find_query("weat-6")
    swapped = measures.bat(Vectors.default(), Query("q", query.targets[::-1], query.attributes))
    assert swapped.value == m.details["swapped"] < m.value
    assert swapped.details["swapped"] == m.value


@pytest.mark.parametrize(
    ("targets", "attributes", "reason"),
    [
        ([["x0"], ["gone"]], [["a0", "a1"], ["b0", "b1"]], "no word of target 2"),
        ([["x0"], ["y0"]], [["a0"], ["b0", "b1"]], "attribute 1 has one word"),
    ],
)
def test_undefined_says_why(lab, targets, attributes, reason):
    m = measures.bat(lab.planted(0)[0], Query("q", targets, attributes))
    assert (m.status, m.value) == ("undefined", None)
    assert reason in m.reason


def test_a_query_of_another_shape_is_refused(lab):
    with pytest.raises(UsageError, match="needs 2 target sets"):
        measures.bat(lab.planted(0)[0], Query("q", [["x0"]], [["a0"], ["b0"]]))
