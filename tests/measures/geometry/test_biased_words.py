"""Selected words, poles and bias scores."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import DegenerateError, UnknownNameError, UsageError, VocabularyError
from evenhand.measures.geometry.biased_words import (
    BiasedWords,
    Poles,
    Restriction,
    bias_scores,
    concept_direction,
    concept_poles,
    is_plain,
    most_biased,
    restrict_vocabulary,
    select_words,
)
from evenhand.models.vectors import Vectors

# she along x, he along y at twice the length; a nurse between them but nearer to she, and a doctor at 45 degrees.
V = Vectors(["she", "he", "nurse", "doctor"], [[1, 0], [0, 2], [4, 3], [5, 5]], name="toy")
ALL = np.arange(4)


def pair(first: str, second: str) -> Poles:
    return concept_poles(eh.concept("gender"), (first, second))


def test_the_cosine_score_is_the_difference_of_two_cosines() -> None:
    assert np.allclose(bias_scores(V, ALL, pair("she", "he")), [1, -1, 4 / 5 - 3 / 5, 0], atol=1e-6)


def test_the_projection_score_uses_the_raw_difference() -> None:
    expected = V.matrix.astype(np.float64) @ [1, -2] / np.sqrt(5)
    assert np.allclose(bias_scores(V, ALL, pair("she", "he"), score="projection"), expected, atol=1e-6)


def test_swapping_the_pair_swaps_the_sign() -> None:
    for score in ("cosine", "projection"):
        forward, backward = (bias_scores(V, ALL, pair(*two), score=score) for two in (("she", "he"), ("he", "she")))
        assert np.allclose(forward, -backward)


def test_a_pair_of_one_direction_has_no_score_even_at_different_lengths() -> None:
    same = Vectors(["she", "he", "x"], [[1, 1], [2, 2], [0, 1]])
    for score in ("cosine", "projection"):
        with pytest.raises(DegenerateError, match="she/he"):
            bias_scores(same, np.arange(3), pair("she", "he"), score=score)
    with pytest.raises(VocabularyError, match="her"):
        bias_scores(V, ALL, pair("her", "he"))
    with pytest.raises(UsageError, match="'angle'"):
        bias_scores(V, ALL, pair("she", "he"), score="angle")


def test_groups_are_compared_by_the_mean_of_their_cosines() -> None:
    """The positive group against all other groups, as WEAT's s(w) has it."""
    v = Vectors(["p", "q", "r", "s", "w"], [[2, 0, 0], [0, 3, 0], [0, 0, 1], [0, 0, 5], [1, 2, 2]])
    colour = eh.Concept("colour", groups={"a": ["p"], "b": ["q"], "c": ["r", "s"]})
    poles = concept_poles(colour)
    assert (poles.names, poles.is_pair, poles.to_dict()) == (("a", "rest"), False, {"poles": ["a", "rest"]})
    # cos(w, p) - mean of cos(w, q), cos(w, r), cos(w, s) = 1/3 - 2/3
    assert bias_scores(v, np.array([4]), poles) == pytest.approx([-1 / 3], abs=1e-6)


def test_most_biased_words_of_each_side() -> None:
    high, low = most_biased(np.array([0.1, 0.9, -0.5, 0.9, -0.7]), 2)
    assert (high.tolist(), low.tolist()) == ([1, 3], [4, 2])  # equal scores in the order of the words
    assert [len(side) for side in most_biased(np.arange(5.0), 100)] == [2, 2]  # never a word on both sides
    with pytest.raises(UsageError, match="got 0"):
        most_biased(np.arange(5.0), 0)


def test_the_poles_are_the_argument_the_published_pair_or_the_groups() -> None:
    assert concept_poles(eh.concept("gender")).names == ("she", "he")
    assert concept_poles(eh.concept("gender"), ("her", "his")).names == ("her", "his")
    two = concept_poles(eh.Concept("x", pairs=[("p", "q"), ("r", "s")]))
    assert (two.names, two.positive, two.negative) == (("first", "second"), ("p", "r"), ("q", "s"))
    religion = concept_poles(eh.concept("religion"))
    assert religion.names == ("judaism", "rest")
    assert len(religion.negative) == 10
    with pytest.raises(UsageError, match="positive, negative"):
        concept_poles(eh.concept("gender"), "she")


def test_one_group_has_no_poles_and_no_direction() -> None:
    single = eh.Concept("single", groups={"a": ["she"]})
    with pytest.raises(DegenerateError, match="concept 'single' has only the group 'a'"):
        bias_scores(V, ALL, concept_poles(single))
    with pytest.raises(DegenerateError, match="'single'"):
        concept_direction(V, single)


GENDER = eh.concept("gender")


def vectors(*words: str) -> Vectors:
    return Vectors(words, np.arange(1.0, 2 * len(words) + 1).reshape(-1, 2), name="toy")


@pytest.mark.parametrize("word", ["table", "registered_nurse", "café", "हिन्दी"])
def test_plain_words(word: str) -> None:
    assert is_plain(word)


@pytest.mark.parametrize(
    "word", ["Table", "b2b", "don't", "and/or", "_", "new_", "a_b2", "x–y", "$", "1", "", "two words"]
)
def test_words_that_are_not_plain(word: str) -> None:
    assert not is_plain(word)


def test_the_vocabulary_keeps_its_order_and_counts_each_step() -> None:
    v = vectors("the", "she", "Paris", "x1", "nurse", "antidisestablishmentarian", "doctor", "late")
    vocabulary = restrict_vocabulary(v, GENDER, Restriction(first=7))
    assert vocabulary.words == ("the", "nurse", "doctor")  # she is gender-specific, late comes too late
    assert vocabulary.sizes == {"considered": 7, "plain": 4, "kept": 3}


def test_length_nineteen_is_the_longest_word() -> None:
    v = vectors("a" * 19, "b" * 20)
    assert restrict_vocabulary(v, GENDER, Restriction()).words == ("a" * 19,)


def test_gender_leaves_out_both_published_lists_and_other_concepts_their_own() -> None:
    assert len(Restriction().excluded(GENDER)) == 1622
    other = eh.Concept("trade", groups={"a": ["smith"], "b": ["baker"]}, specific=["anvil"])
    v = vectors("she", "anvil", "bread")
    assert restrict_vocabulary(v, other, Restriction()).words == ("she", "bread")
    assert Restriction().to_dict(GENDER)["exclude"] == "dawkins2021-gender-specific"


def test_another_list_can_be_left_out() -> None:
    v = vectors("she", "nurse", "bread")
    assert restrict_vocabulary(v, GENDER, Restriction(exclude="bolukbasi2016-professions")).words == ("she", "bread")
    with pytest.raises(UnknownNameError, match="nowhere"):
        restrict_vocabulary(v, GENDER, Restriction(exclude="nowhere"))
    with pytest.raises(UsageError, match="first=0"):
        Restriction(first=0)


def test_a_selection_has_rows_in_both_tables_and_loses_what_the_reference_lacks() -> None:
    now, before = vectors("bread", "she", "nurse", "cake"), vectors("cake", "bread", "milk")
    selection = select_words(now, concept=GENDER, restriction=Restriction(), reference=before)
    assert selection.words == ("bread", "cake")
    assert selection.rows.tolist() == [0, 3]
    assert selection.reference_rows.tolist() == [1, 0]
    assert selection.coverage.missing == ("nurse",)
    assert selection.sizes["used"] == 2


def test_a_selection_of_listed_words_keeps_their_spelling() -> None:
    selection = select_words(vectors("bread", "cake"), ["Cake", "milk"], concept=GENDER, restriction=Restriction())
    assert (selection.words, selection.rows.tolist(), selection.coverage.missing) == (("Cake",), [1], ("milk",))
    assert selection.restriction == {}


def test_the_least_biased_of_each_side_are_its_last() -> None:
    class Chosen(list[int]):
        sizes: ClassVar[dict[str, int]] = {"asked": 6}

    words = BiasedWords(Chosen(range(6)), np.repeat([0, 1], 3), np.array([3.0, 2.0, 1.0, -3.0, -2.0, -1.5]))  # type: ignore[arg-type]
    assert words.to_dict() == {"per_side": 3, "least_biased": [1.0, -1.5], "sizes": {"asked": 6}}


def test_one_word_a_side_is_enough() -> None:
    positive, negative = most_biased(np.array([1.0, 3.0, 2.0, 0.0]), 1)
    assert (positive.tolist(), negative.tolist()) == ([1], [3])
    with pytest.raises(UsageError, match="at least 1, got 0"):
        most_biased(np.arange(4.0), 0)
