"""Projections along directions of a concept and along the span of its pairs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import EvenhandWarning, UsageError, VocabularyError
from evenhand.mitigations import LinearProjection, Span
from evenhand.mitigations import vector_method as report_module
from evenhand.mitigations.maps import SoftProjection
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace, pair, pairs, span
from evenhand.words import Concept, Recipe

V = Vectors(
    ["she", "he", "woman", "man", "nurse"],
    [[2, 0, 1], [-2, 0, 1], [1, 1, 1], [-1, 0, 1], [3, 1, 2]],
    name="toy",
)
PAIRS = [("she", "he"), ("woman", "man")]
GENDER = Concept("gender", {"female": ["she"], "male": ["he"]}, PAIRS, direction=Recipe("pair", ("she", "he")))


def test_the_published_direction_leaves_every_word() -> None:
    vm = LinearProjection().fit(V, GENDER)
    assert np.allclose(vm(V).matrix, [[0, 0, 1], [0, 0, 1], [0, 1, 1], [0, 0, 1], [0, 1, 2]])
    assert vm.rank_removed == 1


def test_the_report_says_what_was_done_and_is_plain_data() -> None:
    report = json.loads(json.dumps(LinearProjection(k=1).fit(V, GENDER).report))
    assert report["method"] == "linear"
    assert report["params"] == {"subspace": None, "k": 1, "centre": None, "normalise": None}
    assert report["concept"] == "gender"
    assert report["rank_removed"] == 1
    assert report["words_changed"] == 5
    assert report["words_missing"] == []
    assert report["subspace"]["params"]["chosen"] == "published"
    centred = V.matrix - V.matrix.mean(axis=0)
    kept = (centred[:, 1:] ** 2).sum() / (centred**2).sum()
    assert report["variance_kept"] == pytest.approx(kept)


@pytest.mark.filterwarnings("ignore:the map keeps only")  # three dimensions
def test_the_subspace_can_be_named_given_or_described() -> None:
    by_name = LinearProjection("pairs", k=2).fit(V, GENDER)
    assert by_name == LinearProjection(Recipe("pairs", k=2)).fit(V, GENDER)
    assert by_name == LinearProjection(pairs(V, PAIRS, k=2)).fit(V)
    assert LinearProjection(pairs(V, PAIRS, k=2), k=1).fit(V) == LinearProjection("pairs").fit(V, GENDER)
    unnormalised = LinearProjection(normalise=False).fit(V, GENDER)
    assert np.allclose(unnormalised.basis, pair(V, "she", "he", normalise=False).basis)
    assert unnormalised.report["params"]["normalise"] is False


def test_a_given_subspace_is_described_in_the_report() -> None:
    report = LinearProjection(Subspace.given([[0.0, 0.0, 2.0]])).fit(V).report
    assert report["params"]["subspace"]["how"] == "given"


def test_misuse_is_named() -> None:
    with pytest.raises(UsageError, match="needs a concept or a subspace"):
        LinearProjection().fit(V)
    with pytest.raises(UsageError, match="a learned one was given"):
        LinearProjection(pairs(V, PAIRS), normalise=True).fit(V)
    with pytest.raises(VocabularyError, match="gal/guy"):
        LinearProjection().fit(V, Concept("g", {"f": ["gal"], "m": ["guy"]}, [("gal", "guy")]))


def test_a_method_is_frozen_and_comparable() -> None:
    assert LinearProjection(k=1) == LinearProjection(k=1)
    with pytest.raises(AttributeError):
        LinearProjection().k = 2  # type: ignore[misc]


def test_the_public_names() -> None:
    assert eh.mitigations.LinearProjection is LinearProjection
    assert eh.subspaces.pairs(V, GENDER.pairs, k=1, centre=False, normalise=False).k == 1


def test_a_concept_can_be_named_by_its_id() -> None:
    assert LinearProjection("pair").fit(V, "gender")(V).history[0]["concept"] == "gender"


def test_a_map_that_keeps_little_of_the_variance_warns() -> None:
    with pytest.warns(EvenhandWarning, match=r"keeps only 4\.2 % of the variance of toy \(2 of 3 dimensions removed"):
        vm = LinearProjection("pairs", k=2).fit(V, GENDER)
    assert vm.report["variance_kept"] < report_module.MIN_VARIANCE_KEPT


def test_a_large_table_is_measured_on_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    v = Vectors([f"w{i}" for i in range(4_000)], rng.normal(size=(4_000, 4)))
    vm = SoftProjection([[1.0, 0.0, 0.0, 0.0]])
    whole = report_module.map_report(vm, v)
    monkeypatch.setattr(report_module, "SAMPLE", 1_000)
    monkeypatch.setattr(report_module, "BLOCK_VALUES", 400)
    part = report_module.map_report(vm, v)
    assert "measured_on" not in whole
    assert part["measured_on"] == 1_000
    assert part["words_changed"] == whole["words_changed"] == 4_000
    assert part["variance_kept"] == pytest.approx(whole["variance_kept"], abs=0.03)


DIM, PAIRED, OTHERS = 12, 10, 40
WORDS = [f"p{i}" for i in range(PAIRED)] + [f"w{i}" for i in range(OTHERS)]
S = [(f"p{2 * i}", f"p{2 * i + 1}") for i in range(PAIRED // 2)]
CONCEPT = Concept("synthetic", {"first": [a for a, _ in S], "second": [b for _, b in S]}, S)


def world(seed: int = 0) -> tuple[Vectors, np.ndarray, np.ndarray]:
    """Word vectors W of very unequal lengths and contexts C = 1.7 W, so that M = W C' without any error."""
    rng = np.random.default_rng(seed)
    v = Vectors(WORDS, rng.normal(size=(len(WORDS), DIM)) * rng.uniform(0.5, 4, size=(len(WORDS), 1)))
    exact = v.matrix.astype(np.float64)
    return v, exact, 1.7 * exact


def bias(mapped: np.ndarray, contexts: np.ndarray) -> float:
    """Largest |M_wx - M_wy| over the pairs (x, y) and the words w outside them."""
    m = mapped @ contexts.T
    return float(np.abs(m[PAIRED:, 0:PAIRED:2] - m[PAIRED:, 1:PAIRED:2]).max())


def test_the_span_of_the_pairs_leaves_no_bias() -> None:
    v, exact, contexts = world()
    assert bias(exact, contexts) > 10
    assert bias(Span().fit(v, CONCEPT)(exact), contexts) < 1e-8
    kept = Span(keep_pairs=True).fit(v, CONCEPT)(exact, WORDS)
    assert bias(kept, contexts) < 1e-8


def test_the_first_principal_component_does_not() -> None:
    v, exact, contexts = world()
    first = LinearProjection("pairs", k=1).fit(v, CONCEPT)
    assert bias(first(exact), contexts) > 1


def test_the_span_of_normalised_vectors_does_not() -> None:
    v, exact, contexts = world()
    normalised = SoftProjection(span(v, S, normalise=True).basis)
    assert bias(normalised(exact), contexts) > 1


def test_stored_vectors_keep_the_guarantee_to_their_own_precision() -> None:
    v, _, contexts = world()
    assert bias(Span().fit(v, CONCEPT)(v).matrix.astype(float), contexts) < 1e-4 * np.abs(contexts).max()


def test_the_words_of_the_pairs_are_projected_unless_kept() -> None:
    v, _, _ = world()
    projected = Span().fit(v, CONCEPT)
    assert projected.is_linear
    assert np.allclose(projected(v)["p0"], projected(v)["p1"], atol=1e-5)
    kept = Span(keep_pairs=True).fit(v, CONCEPT)
    assert np.array_equal(kept(v).matrix[:PAIRED], v.matrix[:PAIRED])
    assert np.array_equal(kept(v).matrix[PAIRED:], projected(v).matrix[PAIRED:])
    assert kept.report["words_changed"] == OTHERS
    assert projected.report["words_changed"] == len(WORDS)


def test_kept_words_are_matched_in_the_spelling_of_the_vocabulary() -> None:
    v = Vectors(["mary", "john", "door"], [[1, 0, 0], [0, 1, 0], [1, 2, 3]])
    vm = Span(keep_pairs=True).fit(v, Concept("g", {"f": ["Mary"], "m": ["John"]}, [("Mary", "John")]))
    assert vm(v)["mary"].tolist() == [1, 0, 0]
    assert vm(v)["door"].tolist() == pytest.approx([1.5, 1.5, 3])


def test_the_report_names_rank_and_losses() -> None:
    v, _, _ = world()
    with pytest.warns(EvenhandWarning, match="lost: p0/nowhere"):
        report = Span().fit(v, Concept("g", {"f": ["p0"], "m": ["p1"]}, [*S, ("p0", "nowhere")])).report
    assert report["rank_removed"] == 5
    assert report["words_missing"] == ["nowhere"]
    assert 0 < report["variance_kept"] < 1


def test_a_concept_without_pairs_is_refused() -> None:
    with pytest.raises(UsageError, match="pairs of counterparts; concept 'g' has none"):
        Span().fit(world()[0], Concept("g", {"f": ["p0"], "m": ["p1"]}))


def test_two_groups_without_a_direction_are_no_warning_and_three_are_one() -> None:
    rng = np.random.default_rng(0)
    v = Vectors([f"{group}{n}" for group in "abc" for n in range(6)], rng.standard_normal((18, 40)))
    groups = {group: [f"{group}{n}" for n in range(6)] for group in "abc"}
    two = LinearProjection().fit(v, Concept("two", {name: groups[name] for name in "ab"}))
    assert two.rank_removed == 1
    with pytest.warns(EvenhandWarning, match="has 3 groups and no published direction; removing the 2"):
        assert LinearProjection().fit(v, Concept("three", groups)).rank_removed == 2
    with pytest.raises(UsageError, match="always centred"):
        LinearProjection(centre=False).fit(v, Concept("three", groups))
