from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.mitigations import HardDebias, LinearProjection
from evenhand.mitigations.maps import WordTable
from evenhand.mitigations.projection.hard import counterparts, equidistant, set_subspace, spelt_sets
from evenhand.mitigations.selection import EveryWord, ExceptListed
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace
from evenhand.words import Concept

# g is the first axis: she - he and woman - man lie along it at unit length.
V = Vectors(
    ["she", "he", "woman", "man", "queen", "king", "nurse", "tree", "zero"],
    [[3, 4, 0], [-3, 4, 0], [0.6, 0, 0.8], [-0.6, 0, 0.8], [4, 0, 3], [0, 5, 0], [6, 8, 0], [0, 1, 0], [0, 0, 0]],
    name="toy",
)
PAIRS = [("she", "he"), ("woman", "man")]
GENDER = Concept(
    "gender",
    {"female": ["she"], "male": ["he"]},
    PAIRS,
    equalize=[("queen", "king")],
    specific=["she", "he", "woman", "man", "queen", "king"],
)


def at(vm: Any, word: str) -> list[float]:
    return [float(number) for number in vm(V)[word]]


def test_by_hand() -> None:
    vm = HardDebias().fit(V, GENDER)
    assert at(vm, "nurse") == pytest.approx([0, 1, 0])  # (0.6, 0.8, 0) without its first coordinate, at length 1
    assert at(vm, "tree") == pytest.approx([0, 1, 0])
    assert at(vm, "she") == pytest.approx([0.6, 0.8, 0])  # specific: only scaled
    # queen (0.8, 0, 0.6) and king (0, 1, 0): the mean outside g is y = (0, 0.5, 0.3), z = sqrt(1 - 0.34)
    assert at(vm, "queen") == pytest.approx([np.sqrt(0.66), 0.5, 0.3])
    assert at(vm, "king") == pytest.approx([-np.sqrt(0.66), 0.5, 0.3])
    assert at(vm, "zero") == [0, 0, 0]
    report = vm.report
    assert (report["words_neutralised"], report["words_spared"], report["sets_equalised"]) == (3, 6, 1)
    assert (report["rank_removed"], report["words_changed"]) == (1, 3)  # nurse, queen, king: the rest only in length
    assert report["words_missing"] == []


def test_neutral_words_lose_the_direction_and_equalised_ones_are_equally_far_from_them() -> None:
    v = eh.Vectors.default()
    concept = eh.concept("gender")
    vm = HardDebias().fit(v, concept)
    after = vm(v)
    basis = vm.parts[1].map.basis  # type: ignore[attr-defined]
    spared = set(vm.parts[1].words)  # type: ignore[attr-defined]
    table = next(part for part in vm.parts if isinstance(part, WordTable)).table  # type: ignore[attr-defined]
    neutral = np.array([word not in spared and word not in table for word in v.words])
    rows = after.matrix[neutral].astype(np.float64)
    assert np.abs(rows @ basis.T).max() < 1e-6
    for a, b in spelt_sets(v, concept.equalize):
        assert np.abs(rows @ (after[a] - after[b])).max() < 1e-6, (a, b)
    assert np.allclose(np.linalg.norm(after.matrix, axis=1), 1, atol=1e-6)
    assert vm.report["variance_kept"] == pytest.approx(1, abs=0.05)


def test_a_word_of_a_neutralised_pair_keeps_its_side() -> None:
    plain = Concept(
        "gender", {"female": ["she"], "male": ["he"]}, PAIRS, equalize=[("king", "queen")], specific=["she"]
    )
    vm = HardDebias().fit(V, plain)
    assert at(vm, "queen")[0] > 0.1
    assert at(vm, "king")[0] == pytest.approx(-at(vm, "queen")[0])
    assert at(vm, "queen")[1:] == pytest.approx(at(vm, "king")[1:])


def test_a_pair_without_sides_is_skipped_and_reported() -> None:
    same = Concept("gender", equalize=[("tree", "king")], pairs=PAIRS, specific=["she"])
    assert HardDebias().fit(V, same).report["sets_without_sides"] == [["tree", "king"]]


def test_a_concept_without_lists_spares_and_equalises_its_own_pairs() -> None:
    vm = HardDebias().fit(V, Concept("gender", pairs=PAIRS))
    assert vm.report["words_spared"] == 4
    assert at(vm, "she") == pytest.approx([0.6, 0.8, 0])
    assert at(vm, "queen")[0] == pytest.approx(0)
    assert not any(isinstance(part, WordTable) for part in HardDebias(equalise=False).fit(V, GENDER).parts)


def test_words_can_be_selected() -> None:
    everyone = HardDebias(words=EveryWord(), equalise=False).fit(V, GENDER)
    assert np.abs(everyone(V).matrix[:, 0]).max() < 1e-7
    only = HardDebias(words=ExceptListed(["nurse"]), equalise=False).fit(V, GENDER)
    assert at(only, "nurse") == pytest.approx([0.6, 0.8, 0])
    assert at(only, "she") == pytest.approx([0, 1, 0])


def test_case_variants_are_equalised_in_sorted_order() -> None:
    v = Vectors(["dad", "mom", "Dad", "Mom", "DAD"], np.eye(5))
    assert spelt_sets(v, [("mom", "dad"), ("MOM", "DAD")]) == (("Mom", "Dad"), ("mom", "dad"))


def test_a_word_in_two_pairs_is_reported_and_the_order_does_not_matter() -> None:
    pairs = [("queen", "king"), ("queen", "tree")]
    first, second = (
        HardDebias().fit(V, Concept("gender", pairs=PAIRS, equalize=some, specific=["she", "queen", "king"]))
        for some in (pairs, pairs[::-1])
    )
    assert first == second
    assert first.report["words_twice"] == ["queen"]


def test_the_variant_of_wefe_equalises_the_pairs_from_before() -> None:
    concept = Concept("gender", {"f": ["she"], "m": ["he"]}, [("queen", "king"), ("she", "he")], specific=["tree"])
    g = HardDebias().fit(V, concept).parts[1].map.basis  # type: ignore[attr-defined]
    before = np.array([[0.8, 0, 0.6], [0, 1, 0]])
    expected = equidistant(before, before, g)
    got = HardDebias(variant="wefe").fit(V, concept)
    assert at(got, "queen") == pytest.approx(expected[0])  # type: ignore[index]
    assert at(got, "king") == pytest.approx(expected[1])  # type: ignore[index]


@given(st.integers(0, 10_000), st.integers(2, 4), st.integers(1, 3))
def test_a_set_becomes_equidistant_and_stays_at_unit_length(seed: int, size: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(size, 6))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    basis = np.linalg.qr(rng.normal(size=(6, k)))[0].T
    made = equidistant(rows, rows, basis)
    assert made is not None
    assert np.allclose(np.linalg.norm(made, axis=1), 1)
    outside = made - made @ basis.T @ basis
    assert np.allclose(outside, outside[0])
    inside, before = made @ basis.T, rows @ basis.T
    assert np.all(np.sum(inside * (before - before.mean(axis=0)), axis=1) > 0)  # each on the side it was


# Three groups in the plane of the first two axes.
RELIGION = Concept(
    "religion",
    {"a": ["jew"], "b": ["christian"], "c": ["muslim"]},
    [("jew", "christian"), ("jew", "muslim"), ("christian", "muslim")],
    specific=["jew", "christian", "muslim"],
)
W = Vectors(
    ["jew", "christian", "muslim", "greedy", "tree"],
    [[0.6, 0, 0.8, 0], [-0.6, 0, 0.8, 0], [0, 0.6, 0.8, 0], [0.48, 0.36, 0, 0.8], [0, 0, 0, 1]],
    name="toy",
)


def test_more_than_two_groups_take_the_multiclass_form() -> None:
    vm = HardDebias().fit(W, RELIGION)
    after = vm(W)
    assert vm.rank_removed == 2
    assert after["greedy"] == pytest.approx([0, 0, 0, 1])
    # all three have (0, 0, 0.8, 0) in common, and 0.6 of their length is left for the offsets from their mean
    inside = np.array([[0.6, -0.2], [-0.6, -0.2], [0, 0.4]])
    inside *= 0.6 / np.linalg.norm(inside, axis=1)[:, None]
    expected = np.hstack([inside, np.tile([0.8, 0.0], (3, 1))])
    assert np.allclose(after.matrix[:3], expected, atol=1e-6)
    assert HardDebias(k=1).fit(W, RELIGION).rank_removed == 1
    assert vm.report["sets_equalised"] == 1


def test_counterparts_join_pairs_that_share_a_word() -> None:
    assert counterparts([("a", "b"), ("c", "d"), ("b", "e"), ("d", "a")]) == (("a", "b", "e", "c", "d"),)
    assert counterparts([("x", "y"), ("u", "w"), ("x", "z")]) == (("x", "y", "z"), ("u", "w"))


def test_groups_without_pairs_differ_in_their_means() -> None:
    concept = Concept("religion", {"a": ["jew", "greedy"], "b": ["christian"], "c": ["muslim"]})
    learned = set_subspace(W, concept)
    assert learned.k == 2
    assert learned.params["sets"] == "group means"
    assert "sets_equalised" in HardDebias().fit(W, concept).report


def test_two_groups_without_pairs_take_their_means() -> None:
    vm = HardDebias().fit(V, Concept("gender", {"f": ["she", "woman"], "m": ["he", "man"]}))
    assert vm.report["subspace"]["how"] == "two-means"
    assert at(vm, "nurse")[0] == pytest.approx(0)


def test_a_given_or_named_subspace() -> None:
    given = HardDebias(Subspace.given([[0, 1, 0]]), equalise=False).fit(V, GENDER)
    assert at(given, "nurse") == pytest.approx([1, 0, 0])
    named = HardDebias("pair", equalise=False).fit(V, GENDER)
    direction = LinearProjection("pair").fit(V, GENDER)
    assert np.allclose(named.parts[1].map.basis, direction.basis)  # type: ignore[attr-defined]


def test_invalid_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="unknown variant 'best'"):
        HardDebias(variant="best").fit(V, GENDER)  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match="gal/guy"):
        HardDebias().fit(V, Concept("g", {"f": ["gal"], "m": ["guy"]}, [("gal", "guy")]))
    with pytest.raises(VocabularyError, match="no two counterparts of 'religion'"):
        HardDebias().fit(W.restrict(["jew", "tree"]), RELIGION)
    with pytest.raises(UsageError, match="'one' has one group only"):
        HardDebias().fit(V, Concept("one", {"only": ["she"]}))
    equal = Vectors(["she", "he", "tree"], [[1, 0], [1, 0], [0, 1]])
    with pytest.raises(DegenerateError, match="same vectors"):
        HardDebias().fit(equal, Concept("g", pairs=[("she", "he")]))
    with pytest.raises(UsageError, match="span only 1"):  # both differences lie on one line
        HardDebias(k=2).fit(V, GENDER)
    same = Vectors(["jew", "christian", "muslim"], np.ones((3, 4)))
    with pytest.raises(DegenerateError, match="religion"):
        HardDebias().fit(same, RELIGION)
