from __future__ import annotations

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import UnknownNameError, UsageError
from evenhand.measures.geometry.word_selection import Restriction, is_plain, restrict_vocabulary, select_words
from evenhand.models.vectors import Vectors

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
