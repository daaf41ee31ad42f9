"""RNSB: the divergence by hand, planted vectors, seeds, and the classifier it names."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from evenhand import Query, Vectors, measures
from evenhand.errors import UsageError
from evenhand.measures.association.rnsb import divergences

rnsb = measures.get("rnsb")


def sentiment_lab(shift, seed=0):
    """Good and bad words on the two sides of the first coordinate; the second group of people moved by `shift`."""
    rng = np.random.default_rng(seed)
    along = np.array([1, 0, 0, 0])
    good, bad = rng.normal(size=(10, 4)) + 4 * along, rng.normal(size=(10, 4)) - 4 * along
    people, others = rng.normal(size=(2, 8, 4)) * 0.1
    others = others + shift * along
    names = [[f"{kind}{i}" for i in range(size)] for kind, size in (("g", 10), ("b", 10), ("p", 8), ("o", 8))]
    vectors = Vectors([w for group in names for w in group], np.vstack([good, bad, people, others]).astype(np.float32))
    return vectors, Query("s", {"people": names[2], "others": names[3]}, {"good": names[0], "bad": names[1]})


def test_the_divergence_by_hand():
    # P = (1/4, 3/4): KL to (1/2, 1/2) = 1/4 log 1/2 + 3/4 log 3/2
    expected = 0.25 * np.log(0.5) + 0.75 * np.log(1.5)
    assert divergences(np.array([[0.2, 0.6]]), np.array([[0, 1]])).item() == pytest.approx(expected)


@given(st.lists(st.floats(0.001, 1), min_size=2, max_size=10))
def test_the_divergence_is_scipys_entropy_in_nats(p):
    p = np.array(p)
    expected = entropy(p / p.sum(), np.full(len(p), 1 / len(p)))
    assert divergences(p[None], np.arange(len(p))[None]).item() == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=10), st.floats(0.1, 1))
def test_even_ratings_have_no_divergence_at_any_level(p, level):
    p = np.array(p)[None]
    rows = np.arange(p.shape[1])[None]
    assert divergences(np.full_like(p, level), rows).item() == pytest.approx(0, abs=1e-12)
    assert divergences(level * p, rows).item() == pytest.approx(divergences(p, rows).item(), abs=1e-12)
    assert divergences(p, rows).item() >= -1e-12


def test_a_group_on_the_bad_side_raises_it_and_shows_in_the_group_means():
    even, uneven = (rnsb(*sentiment_lab(shift)) for shift in (0.0, -3.0))
    assert uneven.value > 10 * even.value > 0
    assert uneven.details["group_means"]["others"] > 0.9 > uneven.details["group_means"]["people"]
    assert uneven.details["held_out_accuracy"] == 1.0
    assert uneven.interval[0] < uneven.value < uneven.interval[1]


def test_it_is_the_mean_over_the_splits_it_names():
    vectors, query = sentiment_lab(-1.0)
    m = rnsb(vectors, query, splits=3)
    assert len(m.details["random_states"]) == 3
    low, high = m.details["over_splits"]
    assert low < m.value < high
    assert m.params["splits"] == 3
    assert m.params["negative"] == "bad"
    assert (m.params["solver"], m.params["C"], m.params["held_out"]) == ("liblinear", 1.0, 0.2)


def test_seeds_give_other_splits_and_the_same_seed_the_same():
    vectors, query = sentiment_lab(-1.0)
    first, again, other = (rnsb(vectors, query, splits=5, seed=s) for s in (0, 0, 1))
    assert first == again
    assert not set(first.details["random_states"]) & set(other.details["random_states"])


def test_rotation_hardly_matters(lab):
    vectors, query = sentiment_lab(-1.0)
    assert rnsb(lab.rotated(vectors), query).value == pytest.approx(rnsb(vectors, query).value, rel=0.02)


def test_the_second_attributes_are_the_negative_ones():
    vectors, query = sentiment_lab(-3.0)
    turned = rnsb(vectors, Query("t", query.targets, query.attributes[::-1]))
    assert turned.params["negative"] == "good"
    assert turned.details["group_means"]["others"] < 0.1


def test_sentiment_words_from_another_query():
    m = rnsb(Vectors.default(), "weat-6", sentiment="weat-1", splits=10)
    assert (m.params["sentiment"], m.params["negative"]) == ("weat-1", "Unpleasant")
    assert m.query == "weat-6"
    assert m.n == 16


@pytest.mark.parametrize(
    ("targets", "attributes", "reason"),
    [
        ([["p0"], ["gone"]], [["g0"] * 6, ["b0"] * 6], "no word of target 2"),
        ([["p0", "p1"]], [["g0", "g1", "g2", "g3"], ["b0", "b1", "b2", "b3", "b4"]], "attribute 1 has fewer than 5"),
        (
            [["p0"]],
            [[f"g{i}" for i in range(5)], [f"b{i}" for i in range(5)]],
            "single target word cannot be rated unevenly",
        ),
    ],
)
def test_undefined_says_why(targets, attributes, reason):
    m = rnsb(sentiment_lab(0.0)[0], Query("q", targets, attributes))
    assert m.status == "undefined"
    assert reason in m.reason


def test_invalid_arguments_raise():
    vectors, query = sentiment_lab(0.0)
    with pytest.raises(UsageError, match="splits must be at least 1"):
        rnsb(vectors, query, splits=0)
    with pytest.raises(UsageError, match="2 attribute sets"):
        rnsb(vectors, Query("q", query.targets, query.attributes[:1]))


def test_three_words_are_enough_to_compare_two_embeddings():
    vectors, query = sentiment_lab(-1.0)
    words = list(query.targets[0])[:2] + list(query.targets[1])[:1]
    few = Query("few", {"people": words[:2], "others": words[2:]}, {a.name: list(a) for a in query.attributes})
    (units,) = rnsb(vectors, few, splits=3).units
    assert units.count == 3
    assert units.value == pytest.approx(rnsb(vectors, few, splits=3).value)
