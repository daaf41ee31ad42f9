"""MAC: by hand, equal weight for each attribute set, and the paired test against the vectors before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from evenhand import Query, Vectors, measures

seeds = st.integers(0, 10_000)
mac = measures.get("mac")
V = Vectors(["t", "a", "b1", "b2", "b3"], [[2.0, 0.0], [1.0, 0.0], [0.0, 3.0], [-1.0, 0.0], [0.0, -2.0]])


def distances(vectors, query, cosine):
    return np.array(
        [
            [np.mean([1 - cosine(vectors[t], vectors[a]) for a in group]) for group in query.attributes]
            for targets in query.targets
            for t in targets
        ]
    )


def test_each_attribute_set_weighs_the_same():
    # distances: A 0; B 1, 2, 1 with mean 4/3; MAC (0 + 4/3) / 2, not (0 + 1 + 2 + 1) / 4
    m = mac(V, Query("hand", {"T": ["t"]}, {"A": ["a"], "B": ["b1", "b2", "b3"]}))
    assert m.value == pytest.approx(2 / 3)
    assert m.details["by_set"] == {"T": {"A": pytest.approx(0), "B": pytest.approx(4 / 3)}}


@given(seeds)
def test_is_the_definition(lab, seed):
    vectors, query = lab.planted(seed)
    expected = distances(vectors, query, lab.cosine)
    m = mac(vectors, query)
    assert m.value == pytest.approx(expected.mean(), abs=1e-9)
    assert [item["value"] for item in m.items] == pytest.approx(expected.mean(axis=1).tolist(), abs=1e-9)
    assert m.details["by_set"]["Y"]["B"] == pytest.approx(expected[4:, 1].mean(), abs=1e-9)
    assert 0 <= m.value <= 2


@given(seeds, st.floats(0.1, 10))
def test_neither_order_nor_rotation_nor_scale_matters(lab, seed, factor):
    vectors, query = lab.planted(seed)
    plain = mac(vectors, query).value
    assert mac(vectors, Query("s", query.targets[::-1], query.attributes[::-1])).value == pytest.approx(plain)
    assert mac(lab.rotated(vectors), query).value == pytest.approx(plain, abs=1e-5)
    assert mac(lab.scaled(vectors, factor), query).value == pytest.approx(plain, abs=1e-5)


def test_the_change_is_manzinis_paired_t_test(lab):
    vectors, query = lab.planted(3)
    before, _ = lab.planted(4)
    theirs = ttest_rel(distances(vectors, query, lab.cosine).ravel(), distances(before, query, lab.cosine).ravel())
    change = mac(vectors, query, reference=before).details["change"]
    assert change["t"] == pytest.approx(theirs.statistic, rel=1e-6)
    assert change["p_value"] == pytest.approx(theirs.pvalue, rel=1e-6)


def test_no_reference_no_change(lab):
    vectors, query = lab.planted(3)
    assert "change" not in mac(vectors, query).details
    assert "change" not in mac(vectors, query, reference=vectors).details
    assert mac(vectors, query, reference=lab.scaled(vectors, 2)).details["change"] == {
        "mean": pytest.approx(0, abs=1e-6)
    }
    fewer = vectors.restrict(vectors.words[1:])
    assert "other words" in mac(vectors, query, reference=fewer).details["change"]["reason"]


def test_undefined_says_why():
    m = mac(V, Query("q", {"T": ["gone"]}, {"A": ["a"]}))
    assert (m.status, m.reason) == ("undefined", "no word of T is in the vocabulary")
