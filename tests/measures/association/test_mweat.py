"""MWEAT by hand, its laws, and what it says when words are missing."""

from __future__ import annotations

import numpy as np
import pytest

import evenhand as eh
from evenhand import subspaces
from evenhand.audit.plan import concept_queries
from evenhand.measures.registry import info
from evenhand.models.vectors import Vectors

GENDER = eh.Concept("gender", groups={"female": ["elle"], "male": ["il"]}, language="fr")


def toy() -> Vectors:
    """Unit vectors in the plane of elle (x) and il (y): t(w) = x - y."""
    return Vectors(
        ["elle", "il", "infirmière", "infirmier", "directrice", "directeur"],
        [[1, 0], [0, 1], [1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]],
    )


FORMS = [("infirmière", "infirmier"), ("directrice", "directeur")]


def test_all_scores_by_hand():
    # t: infirmière 1, infirmier .2; directrice -.2, directeur -1.
    difference, lean, imbalance = eh.measures.mweat(toy(), FORMS, concept=GENDER)
    assert difference.value == pytest.approx(abs(abs(1 - 0.2) - abs(0.2 - 1)) / 2, abs=1e-7)
    assert imbalance.value == pytest.approx((0.8 + 0.8) / 2)
    assert lean.value == pytest.approx(((1 + 0.2) / 2 + (-0.2 - 1) / 2) / 2)
    assert lean.items[0]["value"] == pytest.approx(0.6)
    assert lean.items[1]["value"] == pytest.approx(-0.6)
    assert lean.details["separation"] == pytest.approx(((1 - 0.2) + (-0.2 + 1)) / 2)
    assert [m.score for m in (difference, lean, imbalance)] == ["difference", "lean", "imbalance"]
    assert lean.positive == "female"
    assert difference.n == 2


def test_the_difference_is_that_of_the_sums_over_occupations():
    # t: .8 and .2 of the feminine forms, .2 and -1 of the masculine ones. The sums are 1 and -.8.
    v = Vectors(
        ["elle", "il", "f1", "m1", "f2", "m2"],
        [[1, 0, 0], [0, 1, 0], [0.8, 0, 0.6], [0.2, 0, 0.96**0.5], [0.2, 0, 0.96**0.5], [0, 1, 0]],
    )
    difference, lean, imbalance = eh.measures.mweat(v, [("f1", "m1"), ("f2", "m2")], concept=GENDER)
    assert difference.details["sum"] == pytest.approx(0.2, abs=1e-6)
    assert difference.value == pytest.approx(0.1, abs=1e-6)
    assert lean.value == pytest.approx(0.05, abs=1e-6)
    assert imbalance.value == pytest.approx((0.6 + 0.8) / 2, abs=1e-6)
    assert difference.p_value is None


@pytest.mark.parametrize("shift", [0.0, 0.3, 3.0])
def test_the_difference_is_twice_the_lean_unless_both_forms_lie_on_one_side(shift):
    rng = np.random.default_rng(4)
    feminine, masculine = rng.normal(size=(2, 8, 6)) * 0.2
    feminine[:, 0] += 1 + shift
    masculine[:, 1] += 1
    masculine[:, 0] += shift
    words = ["elle", "il", *(f"{side}{n}" for side in "fm" for n in range(8))]
    v = Vectors(words, np.vstack([np.eye(6)[:2], feminine, masculine]))
    difference, lean, _ = eh.measures.mweat(v, [(f"f{n}", f"m{n}") for n in range(8)], concept=GENDER)
    means = [np.mean([item[side] for item in lean.items]) for side in ("feminine", "masculine")]
    opposite = means[0] * means[1] < 0
    assert opposite == (shift < 1)
    if opposite:
        assert difference.value == pytest.approx(2 * abs(lean.value))
    else:
        assert difference.value < 2 * abs(lean.value)
    low, high = difference.interval
    assert 0 <= low <= high


def test_symmetric_forms_have_no_bias():
    v = Vectors(["elle", "il", "a", "b"], [[1, 0], [0, 1], [0.8, 0.6], [0.6, 0.8]])
    for measured in eh.measures.mweat(v, [("a", "b")], concept=GENDER):
        assert measured.value == pytest.approx(0, abs=1e-7)


def test_swapping_the_groups_turns_the_sign_and_swapping_the_forms_changes_nothing():
    swapped = eh.Concept("gender", groups={"male": ["il"], "female": ["elle"]}, language="fr")
    v = toy()
    pairs = FORMS[:1]
    plain, other = eh.measures.mweat(v, pairs, concept=GENDER), eh.measures.mweat(v, pairs, concept=swapped)
    turned = eh.measures.mweat(v, [(m, f) for f, m in pairs], concept=GENDER)
    assert plain[1].value == pytest.approx(-other[1].value)
    assert plain[0].value == pytest.approx(other[0].value)
    assert plain[2].value == pytest.approx(other[2].value) == turned[2].value
    assert plain[1].value == pytest.approx(turned[1].value)
    assert plain[1].details["separation"] == pytest.approx(-turned[1].details["separation"])


def test_rotation_and_length_of_words_change_nothing():
    v = toy()
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    scaled = (v.matrix * rng.uniform(0.5, 2, (len(v), 1))) @ rotation
    for before, after in zip(
        eh.measures.mweat(v, FORMS, concept=GENDER),
        eh.measures.mweat(v.with_matrix(scaled), FORMS, concept=GENDER),
        strict=True,
    ):
        assert before.value == pytest.approx(after.value, abs=1e-6)


def test_removing_grammar_lowers_what_grammar_alone_makes():
    rng = np.random.default_rng(1)
    grammar, social = np.eye(12)[:2]
    words = {"elle": 2 * grammar + 2 * social, "il": -2 * grammar - 2 * social}
    for number, lean in enumerate(np.linspace(-1, 1, 10)):
        work = rng.normal(size=12) * 0.3
        words |= {f"f{number}": work + 2 * grammar + lean * social, f"m{number}": work - 2 * grammar + lean * social}
        words |= {f"t{number}": work + 2 * grammar, f"l{number}": work - 2 * grammar}
    v = Vectors(list(words), np.stack(list(words.values())))
    forms = [(f"f{number}", f"m{number}") for number in range(10)]
    direction = subspaces.grammatical(v, [f"t{n}" for n in range(10)], [f"l{n}" for n in range(10)], how="means")
    plain = eh.mitigations.LinearProjection(direction).fit(v)(v)
    before, after = (eh.measures.mweat(x, forms, concept=GENDER)[1] for x in (v, plain))
    assert after.details["separation"] < 0.1 * before.details["separation"]
    leans = [item["value"] for item in after.items]
    assert np.corrcoef(leans, np.linspace(-1, 1, 10))[0, 1] > 0.9


def test_lost_pairs_are_counted():
    difference, lean, imbalance = eh.measures.mweat(toy(), [*FORMS, ("savante", "savant")], concept=GENDER)
    assert difference.n == lean.n == imbalance.n == 2
    assert difference.details["pairs_lost"] == [["savante", "savant"]]
    assert set(lean.coverage.missing) == {"savante", "savant"}


@pytest.mark.parametrize(
    ("forms", "options", "reason"),
    [
        ([("savante", "savant")], {}, "no pair"),
        ([*FORMS, ("savante", "savant")], {"min_share": 0.9}, "too few pairs"),
    ],
)
def test_without_forms_there_is_no_value(forms, options, reason):
    for measured in eh.measures.mweat(toy(), forms, concept=GENDER, **options):
        assert measured.status == "undefined"
        assert reason in measured.reason


def test_equal_groups_give_no_value():
    v = Vectors(["elle", "il", "a", "b"], [[1, 0], [1, 0], [0.8, 0.6], [0.6, 0.8]])
    assert eh.measures.mweat(v, [("a", "b")], concept=GENDER)[0].status == "undefined"


def test_an_audit_asks_it_in_languages_with_forms_only():
    assert concept_queries(info("mweat"), eh.concept("gender-fr")) == ("occupation-forms-fr",)
    assert concept_queries(info("mweat"), eh.concept("gender")) == ()
    assert concept_queries(info("mweat"), eh.concept("gender-ja")) == ()
