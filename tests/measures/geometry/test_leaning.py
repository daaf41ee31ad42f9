from __future__ import annotations

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.geometry.bias_score import leaning, most_biased, pole_pair
from evenhand.models.vectors import Vectors

# she along x, he along y at twice the length; a nurse between them but nearer to she, and a doctor at 45 degrees.
V = Vectors(["she", "he", "nurse", "doctor"], [[1, 0], [0, 2], [4, 3], [5, 5]], name="toy")
ALL = np.arange(4)


def test_the_cosine_score_is_the_difference_of_two_cosines() -> None:
    assert np.allclose(leaning(V, ALL, ("she", "he")), [1, -1, 4 / 5 - 3 / 5, 0], atol=1e-6)


def test_the_projection_score_uses_the_raw_difference() -> None:
    expected = V.matrix.astype(np.float64) @ [1, -2] / np.sqrt(5)
    assert np.allclose(leaning(V, ALL, ("she", "he"), score="projection"), expected, atol=1e-6)


def test_swapping_the_pair_swaps_the_sign() -> None:
    for score in ("cosine", "projection"):
        assert np.allclose(leaning(V, ALL, ("she", "he"), score=score), -leaning(V, ALL, ("he", "she"), score=score))


def test_a_pair_of_one_direction_has_no_score_even_at_different_lengths() -> None:
    same = Vectors(["she", "he", "x"], [[1, 1], [2, 2], [0, 1]])
    for score in ("cosine", "projection"):
        with pytest.raises(DegenerateError, match="she/he"):
            leaning(same, np.arange(3), ("she", "he"), score=score)
    with pytest.raises(VocabularyError, match="her"):
        leaning(V, ALL, ("her", "he"))
    with pytest.raises(UsageError, match="'angle'"):
        leaning(V, ALL, ("she", "he"), score="angle")


def test_most_biased_words_of_each_side() -> None:
    high, low = most_biased(np.array([0.1, 0.9, -0.5, 0.9, -0.7]), 2)
    assert (high.tolist(), low.tolist()) == ([1, 3], [4, 2])  # equal scores in the order of the words
    assert [len(side) for side in most_biased(np.arange(5.0), 100)] == [2, 2]  # never a word on both sides
    with pytest.raises(UsageError, match="got 0"):
        most_biased(np.arange(5.0), 0)


def test_the_pair_comes_from_the_argument_the_recipe_or_the_pairs() -> None:
    assert pole_pair(eh.concept("gender")) == ("she", "he")
    assert pole_pair(eh.concept("gender"), ("her", "his")) == ("her", "his")
    assert pole_pair(eh.Concept("x", pairs=[("p", "q"), ("r", "s")])) == ("p", "q")
    with pytest.raises(UsageError, match="has no pair"):
        pole_pair(eh.Concept("x", groups={"a": ["p"], "b": ["q"]}))
    with pytest.raises(UsageError, match="positive, negative"):
        pole_pair(eh.concept("gender"), "she")
