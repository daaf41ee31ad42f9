from __future__ import annotations

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures import direct_bias
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
    with pytest.raises(UsageError, match="use own or original"):
        direct_bias(V, WORDS, direction="other", concept=GENDER)
    with pytest.raises(UsageError, match="use pairs or pair"):
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
