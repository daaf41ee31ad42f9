"""Generated analogies: by hand, by a double loop over all pairs, and what their two scores mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures.geometry import analogy_generation as module
from evenhand.measures.geometry.analogy_generation import GeneratedAnalogy, analogy_generation, generate_analogies
from evenhand.models.vectors import Vectors

# queen and king differ exactly along she - he; nurse and doctor mostly; cup and lid not at all.
ROWS = {
    "she": [1, 0, 0, 0],
    "he": [-1, 0, 0, 0],
    "queen": [0.4, 1, 0, 0],
    "king": [-0.4, 1, 0, 0],
    "nurse": [0.4, 0, 1.0, 0.1],
    "doctor": [-0.4, 0, 1.0, -0.1],
    "cup": [0, 0, 0.3, 1],
    "lid": [0, 0, -0.3, 1],
}
V = Vectors(ROWS, [*ROWS.values()], name="toy")
GENDER = eh.Concept("gender", {"f": ["she"], "m": ["he"]}, specific=["she", "he", "queen", "king"])


def brute_force(vectors: Vectors, delta: float) -> dict[str, tuple[str, float]]:
    """Return the best second word of each first word, and the score."""
    words = [word for word in vectors.words if word not in ("she", "he")]
    unit = {word: vectors[word] / np.linalg.norm(vectors[word]) for word in vectors.words}
    axis = unit["she"] - unit["he"]
    best = {}
    for x in words:
        scores = {}
        for y in words:
            difference = unit[x].astype(float) - unit[y]
            length = np.linalg.norm(difference)
            if y != x and length <= delta:
                scores[y] = float(difference @ axis / length / np.linalg.norm(axis))
        winner = max(scores, key=lambda y: scores[y]) if scores else None
        if winner is not None and scores[winner] > 0:
            best[x] = (winner, scores[winner])
    return best


def test_by_hand() -> None:
    analogies = generate_analogies(V, k=2)
    assert [(x, y) for x, y, _ in analogies] == [("queen", "king"), ("nurse", "doctor")]
    # unit nurse and doctor differ by (.8, 0, 0, .2) / |nurse|, which has cosine .8 / sqrt(.68) with (1, 0, 0, 0)
    assert analogies[0].score == pytest.approx(1.0, abs=1e-6)
    assert analogies[1].score == pytest.approx(0.8 / np.sqrt(0.68), abs=1e-6)
    assert isinstance(analogies[0], GeneratedAnalogy)
    assert all("she" not in pair[:2] and "he" not in pair[:2] for pair in generate_analogies(V, k=20))


@given(st.integers(0, 500), st.sampled_from([0.8, 1.0, 1.5]))
@settings(max_examples=25, deadline=None)
def test_it_equals_a_double_loop(seed: int, delta: float) -> None:
    rng = np.random.default_rng(seed)
    words = ["she", "he", *(f"q{a}{b}" for a in "abcde" for b in "abcdefgh")]
    v = Vectors(words, rng.normal(size=(len(words), 4)) * rng.uniform(0.2, 5, size=(len(words), 1)))
    expected = brute_force(v, delta)
    analogies = generate_analogies(v, k=1_000, delta=delta)
    assert {x: y for x, y, _ in analogies} == {x: y for x, (y, _) in expected.items()}
    assert [score for *_, score in analogies] == pytest.approx(
        sorted((s for _, s in expected.values()), reverse=True), abs=1e-5
    )


def test_blocks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch, planted) -> None:
    v = planted()
    whole = generate_analogies(v, k=30, delta=2.0)
    monkeypatch.setattr(module, "BLOCK", 7)
    assert [pair[:2] for pair in generate_analogies(v, k=30, delta=2.0)] == [pair[:2] for pair in whole]


def test_strength_and_neutral_share_of_the_same_pairs() -> None:
    strength, neutral = analogy_generation(V, concept=GENDER, k=2)
    assert (strength.score, neutral.score) == ("strength", "neutral-share")
    assert strength.value == pytest.approx((1 + 0.8 / np.sqrt(0.68)) / 2, abs=1e-6)
    assert neutral.value == 0.5  # nurse : doctor has a word that is not specific to gender
    assert strength.items[0]["pair"] == "f : queen :: m : king"
    assert [item["value"] for item in neutral.items] == [0.0, 1.0]
    assert strength.interval is neutral.interval is None
    assert analogy_generation(V, concept=GENDER, k=2, score="neutral-share") == neutral


def test_a_removed_direction_leaves_no_strength_along_it() -> None:
    flat = V.with_matrix(V.matrix * np.array([0, 1, 1, 1]))
    strength, _ = analogy_generation(flat, concept=GENDER, k=2, reference=V, direction="original", pair=("she", "he"))
    assert strength.status == "undefined" or abs(strength.value) < 1e-6
    own, _ = analogy_generation(flat, concept=GENDER, k=2, reference=V)
    assert own.status == "undefined"


def test_a_concept_without_specific_words_has_no_neutral_share() -> None:
    plain = eh.Concept("sex", {"f": ["she"], "m": ["he"]})
    strength, neutral = analogy_generation(V, concept=plain, k=2)
    assert strength.status == "ok"
    assert neutral.reason == "concept 'sex' has no list of specific words"


def test_undefined_results_and_invalid_arguments() -> None:
    for m in analogy_generation(V, concept=GENDER, delta=1e-3):
        assert "no two words" in m.reason
    with pytest.raises(UsageError, match="k=0"):
        analogy_generation(V, concept=GENDER, k=0)
    with pytest.raises(UsageError, match="'sum'"):
        analogy_generation(V, concept=GENDER, score="sum")


def test_the_embedded_vectors_have_the_known_analogies() -> None:
    v = eh.Vectors.default()
    pairs = {(x, y) for x, y, _ in generate_analogies(v, k=150, first=12_000)}
    assert pairs & {("queen", "king"), ("sister", "brother"), ("her", "his"), ("herself", "himself")}
    assert eh.measures.generate_analogies is generate_analogies
