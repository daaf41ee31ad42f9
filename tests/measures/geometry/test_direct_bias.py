"""Direct and indirect bias."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures import direct_bias, get
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace

V = Vectors(
    ["she", "he", "along", "across", "between", "deep"],
    [[1, 0, 0], [-1, 0, 0], [5, 0, 0], [0, 2, 0], [3, 4, 0], [2, 1, 2]],
    name="toy",
)
WORDS = ["along", "across", "between"]
X = Subspace.given([[1.0, 0.0, 0.0]])
GENDER = eh.Concept("gender", pairs=[("she", "he")])


def test_hand_computed() -> None:
    m = direct_bias(V, WORDS, subspace=X, c=1)
    assert m.value == pytest.approx((1 + 0 + 3 / 5) / 3)
    assert [item["value"] for item in m.items] == pytest.approx([1, 0, 0.6])
    assert m.params["direction"] == "given"
    assert m.interval is not None
    assert m.interval[0] <= m.value <= m.interval[1]


@pytest.mark.parametrize(("c", "value"), [(2.0, (1 + 0.36) / 3), (0.5, (1 + 0.6**0.5) / 3), (0.0, 2 / 3)])
def test_the_exponent(c: float, value: float) -> None:
    assert direct_bias(V, WORDS, subspace=X, c=c).value == pytest.approx(value)


def test_in_two_dimensions_the_length_of_the_projection_counts() -> None:
    plane = Subspace.given([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    m = direct_bias(V, ["between", "deep"], subspace=plane)
    assert m.value == pytest.approx((1 + np.sqrt(5) / 3) / 2)
    assert m.details["dimensions"] == 2


def test_the_direction_is_learned_from_the_concept() -> None:
    assert direct_bias(V, WORDS, concept=GENDER).value == pytest.approx(1.6 / 3)
    assert direct_bias(V, WORDS, concept=GENDER, how="pair").value == pytest.approx(1.6 / 3)
    groups = eh.Concept("x", groups={"a": ["she"], "b": ["he"]})
    assert direct_bias(V, WORDS, concept=groups).value == pytest.approx(1.6 / 3)


def test_own_and_original_directions_differ_after_a_rotation() -> None:
    turned = V.with_matrix(V.matrix @ np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 1]]))
    own = direct_bias(turned, WORDS, concept=GENDER, reference=V)
    original = direct_bias(turned, WORDS, concept=GENDER, reference=V, direction="original")
    assert own.value == pytest.approx(1.6 / 3)
    assert original.value == pytest.approx((0 + 1 + 0.8) / 3)


def test_a_projection_makes_the_original_direction_exactly_zero() -> None:
    flat = V.with_matrix(V.matrix * np.array([0, 1, 1]))
    assert direct_bias(flat, WORDS, concept=GENDER, reference=V, direction="original").value == 0
    gone = direct_bias(flat, WORDS, concept=GENDER, reference=V)
    assert gone.status == "undefined"
    assert "she/he" in gone.reason


def test_the_vocabulary_as_a_query_names_its_restriction() -> None:
    m = direct_bias(V, "vocabulary", concept=GENDER)
    assert m.n == 4  # without she and he
    assert m.details["sizes"]["plain"] == 6
    assert m.params["exclude"] == "gender words"


def test_undefined_results_and_invalid_arguments() -> None:
    nothing = direct_bias(V, ["nowhere"], concept=GENDER)
    assert (nothing.status, nothing.value, nothing.coverage.missing) == ("undefined", None, ("nowhere",))
    assert direct_bias(V, WORDS, concept=eh.Concept("x", pairs=[("p", "q")])).status == "undefined"
    with pytest.raises(UsageError, match="negative, got -1"):
        direct_bias(V, WORDS, c=-1, concept=GENDER)
    with pytest.raises(UsageError, match="direction must be own or original"):
        direct_bias(V, WORDS, direction="other", concept=GENDER)
    with pytest.raises(UsageError, match="how must be pairs or pair"):
        direct_bias(V, WORDS, how="other", concept=GENDER)
    with pytest.raises(UsageError, match="2 dimensions, toy has 3"):
        direct_bias(V, WORDS, reference=Vectors(["she", "he"], [[1, 0], [0, 1]]), direction="original")


@pytest.mark.data
def test_the_published_number_on_googlenews(googlenews: Vectors) -> None:
    """Bolukbasi et al. 2016, section 5.2: 0.08 over the professions."""
    for how in ("pairs", "pair"):
        assert direct_bias(googlenews, "bolukbasi2016-professions", how=how).value == pytest.approx(0.08, abs=0.01)


def test_the_record_has_what_the_charts_draw() -> None:
    groups = eh.Concept("gender", groups={"female": ["she", "deep"], "male": ["he"]}, pairs=[("she", "he")])
    m = direct_bias(V, WORDS, concept=groups)
    assert m.details["groups"] == {"female": [1.0, pytest.approx(2 / 3, abs=1e-4)], "male": [-1.0]}
    assert m.details["scree"]["shares"] == [1.0]
    # across the axis, "across" and "between" lie along the second coordinate
    assert [abs(item["across"]) for item in m.items] == pytest.approx([0, 1, 0.8])
    flat = V.with_matrix(V.matrix * np.array([0, 1, 1]))
    after = direct_bias(flat, WORDS, concept=groups, reference=V, direction="original")
    assert [item["across"] for item in after.items] == pytest.approx([0, m.items[1]["across"], m.items[1]["across"]])
    assert "scree" not in direct_bias(V, WORDS, subspace=X).details


indirect_bias = get("indirect-bias")
# a and b share x and y; c and d have no part along x; e is x alone.
INDIRECT_BIAS_V = Vectors(
    ["a", "b", "c", "d", "e", "f"],
    [[3, 4, 0], [6, 0, 8], [0, 1, 1], [0, 2, 0], [7, 0, 0], [0, 0, 1]],
    name="toy",
)


def test_indirect_bias_hand_computed() -> None:
    # w = (.6, .8, 0), v = (.6, 0, .8): w.v = .36 and all of it lies along x, so that nothing is left without it.
    m = indirect_bias(INDIRECT_BIAS_V, [("a", "b")], subspace=X)
    assert m.value == pytest.approx(1)
    # (.6, .8, 0) and (0, .71, .71): w.v = .8 * .71; off the axis (0, 1, 0) and (0, .71, .71), cosine .71.
    assert indirect_bias(INDIRECT_BIAS_V, [("a", "c")], subspace=X).value == pytest.approx(1 - 1 / 0.8, abs=1e-6)
    both = indirect_bias(INDIRECT_BIAS_V, [("a", "b"), ("a", "c")], subspace=X)
    assert both.value == pytest.approx((1 + 1 - 1 / 0.8) / 2, abs=1e-6)
    assert both.items[0]["similarity"] == pytest.approx(0.36)


def test_words_orthogonal_to_the_direction_have_no_indirect_bias() -> None:
    assert indirect_bias(INDIRECT_BIAS_V, [("c", "d"), ("d", "c")], subspace=X).value == pytest.approx(0, abs=1e-6)


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
    m = indirect_bias(INDIRECT_BIAS_V, [("a", "f"), ("a", "b")], subspace=X)
    assert (m.n, m.details["undefined"]) == (1, 1)
    assert m.items[0]["value"] is None
    assert "nearly 0" in m.items[0]["reason"]
    alone = indirect_bias(INDIRECT_BIAS_V, [("a", "f")], subspace=X)
    assert (alone.status, alone.value) == ("undefined", None)


def test_a_word_that_is_the_direction_itself_is_undefined() -> None:
    assert indirect_bias(INDIRECT_BIAS_V, [("a", "e")], subspace=X).status == "undefined"


def test_lost_pairs_are_counted() -> None:
    m = indirect_bias(INDIRECT_BIAS_V, [("a", "b"), ("a", "nowhere")], subspace=X)
    assert (m.n, m.details["lost"], m.coverage.missing) == (1, 1, ("nowhere",))
    assert indirect_bias(INDIRECT_BIAS_V, [("no", "where")], subspace=X).status == "undefined"


def test_the_direction_of_the_concept_is_the_default() -> None:
    v = Vectors([*INDIRECT_BIAS_V.words, "she", "he"], np.vstack([INDIRECT_BIAS_V.matrix, [[1, 0, 0], [-1, 0, 0]]]))
    gender = eh.Concept("gender", pairs=[("she", "he")])
    assert indirect_bias(v, [("a", "c")], concept=gender).value == pytest.approx(1 - 1 / 0.8, abs=1e-6)
    assert (
        indirect_bias(INDIRECT_BIAS_V, [("a", "c")], concept=gender).status == "undefined"
    )  # she and he are not there


def test_pairs_may_be_a_shipped_list_and_must_be_pairs() -> None:
    assert indirect_bias(eh.Vectors.default(), "sembias-stereotype").query == "sembias-stereotype"
    with pytest.raises(UsageError, match="softball"):
        indirect_bias(INDIRECT_BIAS_V, [("softball",)], subspace=X)


@pytest.mark.data
@pytest.mark.parametrize(
    ("pair", "value"),
    [(("softball", "receptionist"), 0.67), (("softball", "bookkeeper"), 0.20), (("football", "footballer"), 0.02)],
)
def test_the_published_numbers_on_googlenews(googlenews: Vectors, pair: tuple[str, str], value: float) -> None:
    """Bolukbasi et al. 2016, figure 3, and the numbers other implementations agree on."""
    along = eh.subspaces.pairs(googlenews, eh.words.pairs("bolukbasi2016-definitional"), normalise=True)
    assert indirect_bias(googlenews, [pair], subspace=along).value == pytest.approx(value, abs=0.01)


def test_the_random_level_is_what_unrelated_words_have() -> None:
    rng = np.random.default_rng(0)
    v = eh.Vectors([f"w{n}" for n in range(4_000)], rng.standard_normal((4_000, 50)))
    axis = Subspace.given(rng.standard_normal((1, 50)))
    m = direct_bias(v, list(v.words), subspace=axis)
    assert m.value == pytest.approx(m.details["random_level"], rel=0.05)
