from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures import get
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace

indirect_bias = get("indirect-bias")
X = Subspace.given([[1.0, 0.0, 0.0]])
# a and b share x and y; c and d have no part along x; e is x alone.
V = Vectors(
    ["a", "b", "c", "d", "e", "f"],
    [[3, 4, 0], [6, 0, 8], [0, 1, 1], [0, 2, 0], [7, 0, 0], [0, 0, 1]],
    name="toy",
)


def test_hand_computed() -> None:
    # w = (.6, .8, 0), v = (.6, 0, .8): w.v = .36 and all of it lies along x, so that nothing is left without it.
    m = indirect_bias(V, [("a", "b")], subspace=X)
    assert m.value == pytest.approx(1)
    # (.6, .8, 0) and (0, .71, .71): w.v = .8 * .71; off the axis (0, 1, 0) and (0, .71, .71), cosine .71.
    assert indirect_bias(V, [("a", "c")], subspace=X).value == pytest.approx(1 - 1 / 0.8, abs=1e-6)
    both = indirect_bias(V, [("a", "b"), ("a", "c")], subspace=X)
    assert both.value == pytest.approx((1 + 1 - 1 / 0.8) / 2, abs=1e-6)
    assert both.items[0]["similarity"] == pytest.approx(0.36)


def test_words_orthogonal_to_the_direction_have_no_indirect_bias() -> None:
    assert indirect_bias(V, [("c", "d"), ("d", "c")], subspace=X).value == pytest.approx(0, abs=1e-6)


@given(seed=st.integers(0, 10_000), k=st.integers(1, 3))
def test_it_equals_the_definition_with_projected_vectors(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    along = Subspace.given(rng.normal(size=(k, 6)))
    v = Vectors(["w", "v"], rng.normal(size=(2, 6)))
    w, u = (row / np.linalg.norm(row) for row in v.matrix.astype(np.float64))
    w_off, u_off = along.reject(w), along.reject(u)
    cosine = w_off @ u_off / np.linalg.norm(w_off) / np.linalg.norm(u_off)
    expected = (w @ u - cosine) / (w @ u)
    assert indirect_bias(v, [("w", "v")], subspace=along).value == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_a_similarity_of_zero_is_undefined_and_left_out_of_the_mean() -> None:
    m = indirect_bias(V, [("a", "f"), ("a", "b")], subspace=X)
    assert (m.n, m.details["undefined"]) == (1, 1)
    assert m.items[0]["value"] is None
    assert "nearly 0" in m.items[0]["reason"]
    alone = indirect_bias(V, [("a", "f")], subspace=X)
    assert (alone.status, alone.value) == ("undefined", None)


def test_a_word_that_is_the_direction_itself_is_undefined() -> None:
    assert indirect_bias(V, [("a", "e")], subspace=X).status == "undefined"


def test_lost_pairs_are_counted() -> None:
    m = indirect_bias(V, [("a", "b"), ("a", "nowhere")], subspace=X)
    assert (m.n, m.details["lost"], m.coverage.missing) == (1, 1, ("nowhere",))
    assert indirect_bias(V, [("no", "where")], subspace=X).status == "undefined"


def test_the_direction_of_the_concept_is_the_default() -> None:
    v = Vectors([*V.words, "she", "he"], np.vstack([V.matrix, [[1, 0, 0], [-1, 0, 0]]]))
    gender = eh.Concept("gender", pairs=[("she", "he")])
    assert indirect_bias(v, [("a", "c")], concept=gender).value == pytest.approx(1 - 1 / 0.8, abs=1e-6)
    assert indirect_bias(V, [("a", "c")], concept=gender).status == "undefined"  # she and he are not there


def test_pairs_may_be_a_shipped_list_and_must_be_pairs() -> None:
    assert indirect_bias(eh.Vectors.default(), "sembias-stereotype").query == "sembias-stereotype"
    with pytest.raises(UsageError, match="softball"):
        indirect_bias(V, [("softball",)], subspace=X)


@pytest.mark.data
@pytest.mark.parametrize(
    ("pair", "value"),
    [(("softball", "receptionist"), 0.67), (("softball", "bookkeeper"), 0.20), (("football", "footballer"), 0.02)],
)
def test_the_published_numbers_on_googlenews(googlenews: Vectors, pair: tuple[str, str], value: float) -> None:
    """Bolukbasi et al. 2016, figure 3, and the numbers other implementations agree on."""
    along = eh.subspaces.pairs(googlenews, eh.words.pairs("bolukbasi2016-definitional"), normalise=True)
    assert indirect_bias(googlenews, [pair], subspace=along).value == pytest.approx(value, abs=0.01)
