from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.mitigations import OSCaR
from evenhand.mitigations.selection import ExceptListed
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace, learn, words
from evenhand.words import Concept, WordSet

V = Vectors(
    ["she", "he", "nurse", "smith", "clerk", "tree"],
    [[1, 0, 0.5], [-1, 0, 0.5], [1, 1, 0], [-1, -1, 0], [0, 0, 0], [0, 0, 2]],
    name="toy",
)
GENDER = Concept("gender", pairs=[("she", "he")])
JOBS = ["nurse", "smith", "clerk"]  # centred first component: (1, 1, 0) / sqrt 2, at 45 degrees


def at(degrees: float) -> list[float]:
    return [float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees))), 0.0]


def test_by_hand() -> None:
    vm = OSCaR(second=JOBS).fit(V, GENDER)
    assert vm.report["angle_before"] == pytest.approx(45)
    assert vm.report["angle_after"] == pytest.approx(90)
    for before, after in [(0, 0), (45, 90), (22.5, 45), (112.5, 135), (180, 180)]:
        assert vm(np.array(at(before))) == pytest.approx(at(after)), before
    assert vm(V)["tree"].tolist() == [0, 0, 2]


def test_real_directions_become_orthogonal_and_lengths_stay() -> None:
    v = eh.Vectors.default()
    vm = OSCaR().fit(v, "gender")
    first, second = learn(v, eh.concept("gender")), words(v, eh.words.wordset("bolukbasi2016-professions"))
    one, two = vm(first.basis[0]), vm(second.basis[0])
    assert abs(first.cos(second)) > 0.1
    assert one @ two == pytest.approx(0, abs=1e-9)
    assert one == pytest.approx(first.basis[0])
    assert np.allclose(np.linalg.norm(vm(v).matrix, axis=1), v.norms, rtol=1e-6)
    assert vm.rank_removed == 0
    assert len(vm.report["words_missing"]) == vm.report["coverage"]["asked"] - vm.report["coverage"]["found"]


def test_uncentred_occupations_were_nearly_orthogonal_before() -> None:
    v = eh.Vectors.default()
    centred, uncentred = (OSCaR(centre=centre).fit(v, "gender").report for centre in (True, False))
    assert abs(90 - uncentred["angle_before"]) < abs(90 - centred["angle_before"])
    assert (centred["second"]["params"]["centre"], uncentred["second"]["params"]["centre"]) == (True, False)


@given(st.integers(0, 10_000), st.sampled_from(["paper", "released"]))
def test_lengths_are_kept_and_the_sign_of_the_second_direction_does_not_matter(seed: int, variant: str) -> None:
    rng = np.random.default_rng(seed)
    v = Vectors(V.words, rng.normal(size=(6, 5)))
    other = rng.normal(size=5)
    plus, minus = (
        OSCaR(second=Subspace.given([sign * other]), variant=variant).fit(v, GENDER)  # type: ignore[arg-type]
        for sign in (1, -1)
    )
    x = rng.normal(size=(20, 5))
    assert np.allclose(np.linalg.norm(plus(x), axis=1), np.linalg.norm(x, axis=1))
    assert np.allclose(plus(x), minus(x))
    assert np.allclose(plus(-x), -plus(x))


def test_the_released_variant_turns_60_degrees_into_108() -> None:
    sixty = Subspace.given([at(60)])
    vm = OSCaR(second=sixty, variant="released").fit(V, GENDER)
    assert vm.report["angle_before"] == pytest.approx(60)
    assert vm.report["angle_after"] == pytest.approx(108)
    assert OSCaR(second=sixty).fit(V, GENDER).report["angle_after"] == pytest.approx(90)
    eighty_five = OSCaR(second=Subspace.given([at(85)]), variant="released").fit(V, GENDER)
    assert eighty_five.report["angle_after"] == pytest.approx(131, abs=0.5)


def test_components_and_word_sets() -> None:
    second = words(V, [*JOBS[:2], "tree"], k=2)
    by_component = OSCaR(second=WordSet("jobs", [*JOBS[:2], "tree"]), component=2).fit(V, GENDER)
    by_direction = OSCaR(second=Subspace.given(second.basis[1:])).fit(V, GENDER)
    assert np.allclose(by_component(V.matrix), by_direction(V.matrix))
    assert by_component.report["angle_before"] == pytest.approx(90)
    spared = OSCaR(second=JOBS, words=ExceptListed(["nurse"])).fit(V, GENDER)
    assert spared(V)["nurse"].tolist() == [1, 1, 0]


def test_invalid_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="unknown variant"):
        OSCaR(variant="best").fit(V, GENDER)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="component must be between 1 and 1, got 0"):
        OSCaR(second=JOBS, component=0).fit(V, GENDER)
    with pytest.raises(DegenerateError, match="parallel"):
        OSCaR(second=Subspace.given([[1, 0, 0]])).fit(V, GENDER)
    with pytest.raises(DegenerateError, match="already orthogonal"):
        OSCaR(second=Subspace.given([[0, 1, 0]]), variant="released").fit(V, GENDER)
    with pytest.raises(VocabularyError, match="toy"):
        OSCaR(second=["plumber"]).fit(V, GENDER)
    with pytest.raises(UsageError, match="dimensions"):
        OSCaR(second=Subspace.given([[1.0, 2.0]])).fit(V, GENDER)
