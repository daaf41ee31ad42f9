"""The Debiasing Theorem of Ethayarajh, Duvenaud & Hirst 2019 on an exact factorisation, and the method."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.errors import EvenhandWarning, UsageError
from evenhand.mitigations import LinearProjection, Span
from evenhand.mitigations.maps import SoftProjection
from evenhand.models.vectors import Vectors
from evenhand.subspaces import span
from evenhand.words import Concept

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
