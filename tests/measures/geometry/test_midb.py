from __future__ import annotations

import numpy as np
import pytest

import evenhand as eh
from evenhand.measures import get
from evenhand.models.vectors import Vectors

midb = get("midb")
RNG = np.random.default_rng(3)
F, M = [f"Fem{c}" for c in "abcdefgh"], [f"Mal{c}" for c in "abcdef"]
WORDS = ["bread", "cake", "milk", "stone"]
V = Vectors(
    F + M + WORDS + ["she", "he"],
    np.vstack([RNG.normal(size=(8, 6)) + 1, RNG.normal(size=(6, 6)), RNG.normal(size=(6, 6))]),
    name="toy",
)
GENDER = eh.Concept(
    "gender", groups={"female": ["she"], "male": ["he"]}, pairs=[("she", "he")], names={"female": F, "male": M}
)


def by_hand(*, centre: bool, signed: bool, d: int = 4) -> float:
    f, m, x = (V.take(words)[0] for words in (F, M, WORDS))
    differences = (f[:, None] - m[None]).reshape(-1, V.dim)
    mean = differences.mean(axis=0)
    _, values, directions = np.linalg.svd(differences - (mean if centre else 0), full_matrices=False)
    weights = values**2 / (values**2).sum()
    directions = directions * np.sign(directions @ mean)[:, None]
    parts = (x @ directions.T)[:, :d]
    return float((parts @ weights[:d] if signed else np.sqrt(parts**2 @ weights[:d])).mean())


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("signed", [True, False])
def test_all_four_variants_equal_a_pca_of_every_difference(centre: bool, signed: bool) -> None:
    m = midb(V, WORDS, concept=GENDER, centre=centre, signed=signed)
    assert m.value == pytest.approx(by_hand(centre=centre, signed=signed), rel=1e-6)
    other = midb(V, WORDS, concept=GENDER, centre=not centre, signed=not signed)
    kept = other.details["centred" if centre else "uncentred"]["signed" if signed else "sign_free"]
    assert kept == pytest.approx(m.value)  # whatever is asked, the details have all four


def test_fewer_directions() -> None:
    m = midb(V, WORDS, concept=GENDER, d=2)
    assert m.value == pytest.approx(by_hand(centre=True, signed=True, d=2), rel=1e-6)
    assert len(m.details["centred"]["weights"]) == 2


def test_swapping_the_groups_flips_the_sign_and_nothing_else() -> None:
    swapped = eh.Concept("gender", GENDER.groups, GENDER.pairs, "male", names=GENDER.names)
    for centre in (True, False):
        a, b = (midb(V, WORDS, concept=c, centre=centre) for c in (GENDER, swapped))
        assert a.value == pytest.approx(-b.value)
        assert (a.positive, b.positive) == ("female", "male")
        free = [m.details["uncentred"]["sign_free"] for m in (a, b)]
        assert free[0] == pytest.approx(free[1])


def test_the_details_say_whether_the_first_direction_is_about_gender() -> None:
    f, m = V.take(F)[0], V.take(M)[0]
    between = f.mean(axis=0) - m.mean(axis=0)
    learned = eh.subspaces.names(V, F, M, centre=False)
    details = midb(V, WORDS, concept=GENDER).details["uncentred"]
    cosine = learned.basis[0] @ between / np.linalg.norm(between)
    assert details["cos_mean_difference"][0] == pytest.approx(cosine)
    assert details["cos_pair"] == pytest.approx(learned.cos(V.take(["she"])[0][0] - V.take(["he"])[0][0]))
    lost = V.restrict([*F, *M, *WORDS])
    assert midb(lost, WORDS, concept=GENDER).details["uncentred"]["cos_pair"] is None


def test_too_few_names_are_undefined_with_the_numbers_in_the_reason() -> None:
    few = V.restrict([*F[:3], *M, *WORDS])
    m = midb(few, WORDS, concept=GENDER)
    assert m.status == "undefined"
    assert "gender names, female 3 of 8" in m.reason
    assert midb(few, WORDS, concept=GENDER, min_share=0.3).status == "ok"
    assert midb(V, ["nowhere"], concept=GENDER).status == "undefined"


def test_a_concept_without_names_is_undefined() -> None:
    m = midb(V, WORDS, concept="nationality")
    assert m.status == "undefined"
    assert "concept 'nationality' has no first names of two groups" in m.reason


def test_own_names_or_those_before_mitigation() -> None:
    doubled = V.with_matrix(V.matrix * 2)
    assert midb(doubled, WORDS, concept=GENDER).value == pytest.approx(2 * midb(V, WORDS, concept=GENDER).value)
    flat = V.with_matrix(V.matrix * np.array([0, 1, 1, 1, 1, 1]))
    original = midb(flat, WORDS, concept=GENDER, reference=V, direction="original")
    assert original.value != pytest.approx(midb(flat, WORDS, concept=GENDER, reference=V).value)


def test_the_embedded_vectors_show_that_centring_loses_gender() -> None:
    details = midb(eh.Vectors.default()).details
    assert details["uncentred"]["cos_pair"] > 0.4 > 0.2 > details["centred"]["cos_pair"]


@pytest.mark.data
def test_googlenews_has_no_names(googlenews: Vectors) -> None:
    assert midb(googlenews).status == "undefined"
