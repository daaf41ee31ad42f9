from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import polar
from scipy.stats import ortho_group

import evenhand as eh
from evenhand.errors import DegenerateError, EvenhandWarning, UsageError, VocabularyError
from evenhand.mitigations import BAM
from evenhand.mitigations.selection import ExceptListed
from evenhand.models.vectors import Vectors
from evenhand.words import Concept

GENDER = Concept("gender", {"female": ["she", "woman"], "male": ["he", "man"]}, [("she", "he"), ("woman", "man")])
V = Vectors(["she", "he", "woman", "man", "tree"], [[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1], [3, 1, 2]], name="toy")


def rotation(vm: object) -> np.ndarray:
    return 2 * vm.matrix - np.eye(3)  # type: ignore[attr-defined]


def test_by_hand() -> None:
    # she (2, 0) and he (0, 2): A'B = [[0, 4], [0, 0]], mean squared length 4; the polar factor of [[4, 4], [0, 4]]
    # is the rotation by the angle whose tangent is 4 / 8.
    v = Vectors(["she", "he"], [[2, 0], [0, 2]])
    vm = BAM().fit(v, Concept("gender", pairs=[("she", "he")]))
    cosine, sine = 2 / np.sqrt(5), 1 / np.sqrt(5)
    assert np.allclose(2 * vm.matrix - np.eye(2), [[cosine, sine], [-sine, cosine]])
    assert vm(np.array([1.0, 0.0])) == pytest.approx([(1 + cosine) / 2, sine / 2])


def test_it_is_orthogonal_the_polar_factor_and_the_minimum() -> None:
    a, b = V.matrix[[0, 2]].astype(float), V.matrix[[1, 3]].astype(float)
    w = rotation(BAM(penalty=0.5).fit(V, GENDER))
    weight = 0.5 * (np.sum(a**2) + np.sum(b**2)) / 4
    assert np.allclose(w @ w.T, np.eye(3))
    assert np.allclose(w, polar(a.T @ b + weight * np.eye(3))[0])

    def loss(candidate: np.ndarray) -> float:
        return float(np.sum((a @ candidate - b) ** 2) + weight * np.sum((candidate - np.eye(3)) ** 2))

    others = ortho_group.rvs(3, size=200, random_state=0)
    assert all(loss(other) > loss(w) for other in others)
    assert loss(np.eye(3)) > loss(w)


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_it_commutes_with_rotations_ignores_scale_and_leaves_other_directions_unchanged(seed: int) -> None:
    rng = np.random.default_rng(seed)
    v = Vectors(V.words, rng.normal(size=(5, 6)))
    turn = ortho_group.rvs(6, random_state=seed)
    plain = BAM().fit(v, GENDER).matrix
    assert np.allclose(BAM().fit(v.with_matrix(v.matrix @ turn), GENDER).matrix, turn.T @ plain @ turn, atol=1e-4)
    assert np.allclose(BAM().fit(v.with_matrix(v.matrix * 8), GENDER).matrix, plain, atol=1e-6)
    outside = np.linalg.svd(v.matrix[:4].astype(float))[2][4:]
    assert np.allclose(outside @ plain, outside, atol=1e-6)


def test_the_poles_move_together() -> None:
    vm = BAM().fit(eh.Vectors.default(), "gender")
    assert vm.report["poles_apart_mapped"] < vm.report["poles_apart_before"]
    assert (vm.report["pairing"], vm.report["rank_of_words"]) == ("aligned", 10)
    there, back = BAM(penalty=1).fit(V, GENDER), BAM(penalty=1, mapped="negative").fit(V, GENDER)
    assert np.allclose(rotation(there), rotation(back).T)


def test_as_published_it_is_not_determined() -> None:
    with pytest.warns(EvenhandWarning, match="determine W in 1 of 3 dimensions"):
        paper = BAM(variant="paper").fit(V, GENDER)
    with pytest.warns(EvenhandWarning, match="arbitrary"):
        released = BAM(variant="released").fit(V, GENDER)
    a, b = V.matrix[[0, 2]].astype(float), V.matrix[[1, 3]].astype(float)
    stacked = np.repeat(a, 2, axis=0).T @ np.tile(b, (2, 1))  # all pairs, as the paper stacks them
    left, _, right = np.linalg.svd(stacked)
    assert np.allclose(rotation(paper), left @ right)
    assert np.allclose(rotation(released), right)
    assert paper.report["pairing"] == "all"
    assert paper.report["rank_of_words"] == 1
    # what is determined: the sum of one list goes to the direction of the sum of the other
    first, second = a.sum(axis=0), b.sum(axis=0)
    assert first / np.linalg.norm(first) @ rotation(paper) == pytest.approx(second / np.linalg.norm(second))


def test_all_pairs_can_be_regularised_and_words_spared() -> None:
    w = rotation(BAM(pairing="all").fit(V, GENDER))
    assert np.allclose(w @ w.T, np.eye(3))
    spared = BAM(words=ExceptListed(["tree"])).fit(V, GENDER)
    assert spared(V)["tree"].tolist() == [3, 1, 2]


def test_invalid_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="exactly two groups; concept 'religion' has 3 groups"):
        BAM().fit(eh.Vectors.default(), "religion")
    with pytest.raises(UsageError, match="needs pairs of counterparts; concept 'g' has none"):
        BAM().fit(V, Concept("g", {"f": ["she"], "m": ["he"]}))
    for wrong in (0.0, float("inf")):
        with pytest.raises(UsageError, match="penalty must be above 0"):
            BAM(wrong).fit(V, GENDER)
    for options in ({"variant": "best"}, {"pairing": "some"}, {"mapped": "both"}):
        with pytest.raises(UsageError, match="unknown"):
            BAM(**options).fit(V, GENDER)  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match="'g'"):
        BAM().fit(V, Concept("g", pairs=[("gal", "guy")]))
    with pytest.raises(VocabularyError, match="no complete pair of 'g': missing guy"):
        BAM().fit(V, Concept("g", pairs=[("she", "guy")]))
    opposite = Vectors(["she", "he"], [[2, 0], [-2, 0]])
    with pytest.raises(DegenerateError, match="singular"):
        BAM().fit(opposite, Concept("g", pairs=[("she", "he")]))
