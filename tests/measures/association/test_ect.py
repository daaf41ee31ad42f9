"""ECT: by hand, scipy's Spearman over the definition, and what it cannot see."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from evenhand import Query, Vectors, measures

seeds = st.integers(0, 10_000)
ect = measures.get("ect")
V = Vectors(["x", "y", "a1", "a2", "a3"], [[1.0, 0.0], [0.0, 1.0], [9.0, 1.0], [1.0, 1.0], [1.0, 2.0]])


def test_opposite_orders_are_minus_one():
    m = ect(V, Query("q", [["x"], ["y"]], [["a1", "a2", "a3"]]))
    assert m.value == pytest.approx(-1)
    assert m.items[0]["first"] == pytest.approx(9 / np.sqrt(82))


def test_equal_cosines_share_their_rank():
    vectors = Vectors(["x", "y", "a1", "a2", "a3"], [[1.0, 0.0], [1.0, 1.0], [1.0, 1.0], [1.0, -1.0], [2.0, 0.0]])
    # cosines with x: .71 .71 1 (ranks 1.5 1.5 3), with y: 1 0 .71 (ranks 3 1 2): no correlation
    assert ect(vectors, Query("q", [["x"], ["y"]], [["a1", "a2", "a3"]])).value == pytest.approx(0)


@given(seeds)
def test_is_spearman_over_all_attribute_words_joined(lab, seed):
    vectors, query = lab.planted(seed)
    means = [np.mean([vectors[w].astype(float) for w in group], axis=0) for group in query.targets]
    words = [w for group in query.attributes for w in group]
    rows = [[lab.cosine(vectors[w], mean) for w in words] for mean in means]
    m = ect(vectors, query)
    assert m.value == pytest.approx(spearmanr(*rows).statistic, abs=1e-9)
    assert m.n == len(words)


@given(seeds, st.floats(0.1, 10))
def test_swap_rotation_and_scale_do_not_matter(lab, seed, factor):
    vectors, query = lab.planted(seed, sizes=(2, 2, 4, 4))
    plain = ect(vectors, query).value
    assert ect(vectors, Query("s", query.targets[::-1], query.attributes)).value == pytest.approx(plain)
    assert ect(lab.scaled(vectors, factor), query).value == pytest.approx(plain, abs=1e-9)
    assert ect(lab.rotated(vectors), query).value == pytest.approx(plain, abs=0.1)  # rounding may swap two near ties


def test_a_word_of_two_attribute_sets_is_ranked_once():
    m = ect(V, Query("q", [["x"], ["y"]], [["a1", "a2"], ["a2", "a3"]]))
    assert m.n == 3


def test_the_same_group_twice_has_no_coherence():
    """It would be 1 by construction: groups that collapsed onto each other cannot be compared."""
    m = ect(V, Query("q", [["x"], ["x"]], [["a1", "a2", "a3"]]))
    assert "same mean vector" in m.reason


@pytest.mark.parametrize(
    ("targets", "attributes", "reason"),
    [
        ([["x"], ["gone"]], ["a1", "a2", "a3"], "no word of target 2"),
        ([["x"], ["y"]], ["a1", "a2"], "2 attribute words are too few"),
        ([["zero"], ["y"]], ["a1", "a2", "a3"], "no order to compare"),
    ],
)
def test_undefined_says_why(targets, attributes, reason):
    vectors = Vectors([*V.words, "zero"], np.vstack([V.matrix, [[0.0, 0.0]]]))
    m = ect(vectors, Query("q", targets, [attributes]))
    assert (m.status, m.value) == ("undefined", None)
    assert reason in m.reason


def test_the_interval_is_seeded_and_holds_the_value():
    m, again = (ect(Vectors.default(), "weat-10", seed=4) for _ in range(2))
    assert m == again
    assert m.interval[0] < m.value < m.interval[1]
