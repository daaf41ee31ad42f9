"""RND: by hand, by brute force, the sign in both distances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import Query, Vectors, measures
from evenhand.errors import UnknownNameError, UsageError

seeds = st.integers(0, 10_000)
rnd = measures.get("rnd")
V = Vectors(["x1", "x2", "y", "a1", "a2"], [[2.0, 0.0], [0.0, 0.0], [0.0, 4.0], [1.0, 0.0], [1.0, 4.0]])
QUERY = Query("hand", {"X": ["x1", "x2"], "Y": ["y"]}, {"A": ["a1", "a2"], "B": ["a2"]})


def test_by_hand():
    # mean X = (1, 0), Y = (0, 4): a1 has 0 - sqrt(17), a2 has 4 - 1
    m = rnd(V, QUERY)
    assert [item["value"] for item in m.items] == pytest.approx([-np.sqrt(17), 3.0])
    assert m.value == pytest.approx((3 - np.sqrt(17)) / 2)
    assert m.reading == "the vectors associate A with X"
    assert m.positive == "nearer to Y"
    assert m.details["by_set"] == pytest.approx({"A": m.value, "B": 3.0})


def test_the_p_value_by_hand():
    """Three assignments of x1, x2, y to two and one: |value| is .56, and 1.24 and 2.24 with another word alone."""

    def value(alone, others):
        means = V[alone].astype(float), np.mean([V[word] for word in others], axis=0)
        return np.mean([np.linalg.norm(V[w] - means[1]) - np.linalg.norm(V[w] - means[0]) for w in ("a1", "a2")])

    sizes = [abs(value(alone, {"x1", "x2", "y"} - {alone})) for alone in ("y", "x1", "x2")]
    assert sizes[0] == pytest.approx(abs(rnd(V, QUERY).value))
    assert rnd(V, QUERY).p_value == pytest.approx(np.mean([size >= sizes[0] for size in sizes]))


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_random_vectors_are_not_found_to_differ(distance):
    """All attribute words share two group means: their interval leaves 0 out far too often, the p-value does not."""
    words = [f"w{n}" for n in range(28)]
    query = Query("null", {"X": words[:10], "Y": words[10:20]}, {"A": words[20:]})
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        similar = rng.normal(size=20) + 0.3 * rng.normal(size=(8, 20))  # attribute words are near to each other
        vectors = Vectors(words, np.concatenate([rng.normal(size=(20, 20)), similar]))
        found.append(rnd(vectors, query, distance=distance))
    assert sum(m.p_value <= 0.05 for m in found) <= 19  # 10 expected; 99.8 % of binomial counts are below
    assert sum(m.interval[0] > 0 or m.interval[1] < 0 for m in found) > 60


def test_another_attribute_set_by_its_name():
    assert rnd(V, QUERY, attribute="B").value == pytest.approx(3.0)
    with pytest.raises(UnknownNameError, match="'C'"):
        rnd(V, QUERY, attribute="C")


def test_both_distances_have_the_same_sign():
    # cosines: a1 with X 1, with Y 0; cosine distances 0 - 1
    assert rnd(V, Query("q", [["x1"], ["y"]], [["a1"]]), distance="cosine").value == pytest.approx(-1.0)


@given(seeds, st.booleans(), st.sampled_from(["euclidean", "cosine"]))
def test_is_the_definition(lab, seed, normalise, distance):
    vectors, query = lab.planted(seed)
    vector = {w: vectors[w].astype(float) for w in vectors.words}
    if normalise:
        vector = {w: x / np.linalg.norm(x) for w, x in vector.items()}
    mean_x, mean_y = (np.mean([vector[w] for w in group], axis=0) for group in query.targets)

    def apart(a, b):
        return np.linalg.norm(a - b) if distance == "euclidean" else 1 - lab.cosine(a, b)

    expected = np.mean([apart(vector[w], mean_x) - apart(vector[w], mean_y) for w in query.attributes[0]])
    assert rnd(vectors, query, distance=distance, normalise=normalise).value == pytest.approx(expected, abs=1e-6)


@given(seeds, st.floats(0.1, 10))
def test_swapping_flips_the_sign_rotation_does_nothing_and_scale_is_passed_on(lab, seed, factor):
    vectors, query = lab.planted(seed)
    plain = rnd(vectors, query).value
    assert rnd(vectors, Query("s", query.targets[::-1], query.attributes)).value == pytest.approx(-plain)
    assert rnd(lab.rotated(vectors), query).value == pytest.approx(plain, abs=1e-4)
    assert rnd(lab.scaled(vectors, factor), query).value == pytest.approx(factor * plain, rel=1e-3, abs=1e-4)
    assert rnd(lab.scaled(vectors, factor), query, normalise=True).value == pytest.approx(
        rnd(vectors, query, normalise=True).value, abs=1e-5
    )


def test_undefined_results_and_invalid_arguments():
    m = rnd(V, Query("q", {"X": ["gone"], "Y": ["y"]}, {"A": ["a1"]}))
    assert (m.status, m.reason) == ("undefined", "no word of X is in the vocabulary")
    zero = rnd(V, Query("q", [["x2"], ["y"]], [["a1"]]), distance="cosine")
    assert "zero vector" in zero.reason
    with pytest.raises(UsageError, match="manhattan"):
        rnd(V, QUERY, distance="manhattan")
    with pytest.raises(UsageError, match="2 target sets"):
        rnd(V, Query("q", [["x1"]], [["a1"]]))


def test_the_interval_is_over_attribute_words():
    m = rnd(Vectors.default(), "weat-6")
    assert m.interval[0] < m.value < m.interval[1] < 0
    assert m.n == 8
    assert m.details["by_set"]["Family"] > 0
    assert rnd(V, QUERY).interval is None
