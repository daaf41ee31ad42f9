from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.mitigations import HSR, LinearProjection, Span
from evenhand.mitigations.maps import SoftProjection
from evenhand.mitigations.selection import EveryWord
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace
from evenhand.words import Concept

GENDER = Concept("gender", {"female": ["she"], "male": ["he"]}, specific=["she", "he", "queen"])
V = Vectors(["she", "he", "queen", "nurse"], [[2, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 1]], name="toy")


def test_by_hand() -> None:
    vm = HSR(alpha=2).fit(V, GENDER)
    assert vm(V)["nurse"] == pytest.approx([1 - 4 / 6, 1 - 1 / 3, 1])
    assert vm(V)["she"].tolist() == [2, 0, 0]
    assert vm.report["directions_removed"] == pytest.approx(1)
    assert vm.report["strongest_weight"] == pytest.approx(2 / 3)
    assert (vm.report["siblings"], vm.report["siblings_used"]) == ("specific", 3)
    assert (vm.report["words_changed"], vm.report["rank_removed"]) == (1, 0)


@given(st.integers(0, 10_000), st.floats(0.1, 100), st.integers(1, 9))
def test_it_is_the_textbook_formula(seed: int, alpha: float, siblings: int) -> None:
    rng = np.random.default_rng(seed)
    words = [f"g{number}" for number in range(siblings)]
    v = Vectors([*words, "a", "b", "c"], rng.normal(size=(siblings + 3, 5)))
    vm = HSR(alpha, siblings=words).fit(v, GENDER)
    g = v.matrix[:siblings].T.astype(np.float64)  # as the paper writes it: words are columns
    n = v.matrix[siblings:].T.astype(np.float64)
    expected = n - g @ np.linalg.inv(g.T @ g + alpha * np.eye(siblings)) @ g.T @ n
    assert np.allclose(vm(v).matrix[siblings:], expected.T, atol=1e-5)
    assert np.array_equal(vm(v).matrix[:siblings], v.matrix[:siblings])


def test_no_penalty_removes_the_span() -> None:
    vm = HSR(alpha=0, siblings="groups", words=EveryWord()).fit(V, GENDER)
    assert isinstance(vm, SoftProjection)
    assert vm.rank_removed == 2
    assert vm == LinearProjection(Subspace.given([[1.0, 0, 0], [0, 1.0, 0]])).fit(V)
    assert Span().fit(V, Concept("g", pairs=[("she", "he")])).rank_removed == 1


def test_mapping_twice_shrinks_twice_and_changes_no_state() -> None:
    vm = HSR(alpha=2).fit(V, GENDER)
    once, again = vm(V), vm(V)
    assert np.array_equal(once.matrix, again.matrix)
    assert vm(once)["nurse"][0] == pytest.approx(1 / 9)


def test_a_bare_array_needs_every_word() -> None:
    vm = HSR(alpha=2, words=EveryWord()).fit(V, GENDER)
    assert vm(np.array([1.0, 1.0, 1.0])) == pytest.approx([1 / 3, 2 / 3, 1])


def test_the_lists_it_takes() -> None:
    v = eh.Vectors.default()
    assert HSR().fit(v, "gender").report["siblings"] == "published"
    assert HSR().fit(v, "religion").report["siblings"] == "specific"
    assert HSR().fit(V, Concept("gender", pairs=[("she", "he")])).report["siblings"] == "groups"
    assert HSR(siblings=["nurse"]).fit(V, GENDER).report["siblings"] == "given"


def test_many_directions_take_the_same_formula_as_few() -> None:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    x = rng.normal(size=(4, 6))
    weights = rng.uniform(size=6)
    for k in range(1, 7):
        expected = x - (x @ basis[:k].T * weights[:k]) @ basis[:k]
        assert np.allclose(SoftProjection(basis[:k], weights[:k])(x), expected)


def test_invalid_arguments_are_named() -> None:
    for wrong in (-1.0, float("nan")):
        with pytest.raises(UsageError, match="alpha"):
            HSR(wrong).fit(V, GENDER)
    with pytest.raises(UsageError, match="unknown siblings 'friends'"):
        HSR(siblings="friends").fit(V, GENDER)
    with pytest.raises(UsageError, match="no published words"):
        HSR(siblings="published").fit(V, GENDER)
    with pytest.raises(VocabularyError, match="siblings"):
        HSR(siblings=["gal", "guy"]).fit(V, GENDER)
    with pytest.raises(DegenerateError, match="all zero"):
        HSR(siblings=["queen"]).fit(V, GENDER)
