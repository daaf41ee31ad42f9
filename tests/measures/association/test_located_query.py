"""Sets of words with their vectors: losses, repeats, words in several sets, sets without words."""

import numpy as np
import pytest

from evenhand import Query, Vectors, WordSet
from evenhand.errors import UsageError
from evenhand.measures.association.located_query import locate_query, locate_set, same_direction
from evenhand.measures.call import coverage_problem

V = Vectors(["bill", "ann", "void", "home"], [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 1.0]])


def test_two_spellings_of_one_row_count_once():
    group = locate_set(V, WordSet("names", ["Bill", "Ann", "bill", "Zoe"]))
    assert group.words == ("Bill", "Ann")
    assert group.repeated == ("bill",)
    assert group.rows.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert group.coverage.missing == ("Zoe",)


def test_details_report_repeated_shared_and_zero_words():
    located = locate_query(
        V, Query("q", [["Bill", "bill"], ["ann"]], [["void"], ["ann", "home"]]), targets=2, attributes=2
    )
    assert located.details() == {
        "sizes": [1, 1, 1, 2],
        "repeated": ["bill"],
        "in_several_sets": ["ann"],
        "zero_vectors": ["void"],
    }
    assert not coverage_problem(located.lists())


def test_ordinary_sets_have_sizes_only():
    located = locate_query(V, Query("q", [["bill"]], [["ann", "home"]]), targets=1, attributes=1)
    assert located.details() == {"sizes": [1, 2]}


def test_an_empty_set_is_named():
    located = locate_query(V, Query("q", {"people": ["zoe"]}, {"places": ["home"]}), targets=1, attributes=1)
    assert coverage_problem(located.lists()) == "no word of people is in the vocabulary"


def test_a_set_that_lost_most_of_its_words_is_named_with_what_is_left():
    query = Query("q", {"people": ["bill", "zoe", "tom"]}, {"places": ["home", "street"]})
    lists = locate_query(V, query, targets=1, attributes=1).lists()
    assert coverage_problem(lists) == "too few words are in the vocabulary: people 1 of 3 (min_share=0.5)"
    assert not coverage_problem(lists, min_share=0.3)
    assert "places 1 of 2" in coverage_problem(lists, min_share=1)
    with pytest.raises(UsageError, match="min_share"):
        coverage_problem(lists, min_share=50)


def test_the_wrong_number_of_sets_is_an_error_that_says_what_to_give():
    with pytest.raises(UsageError, match="needs 2 attribute sets, 'q' has 1") as caught:
        locate_query(V, Query("q", [["a"], ["b"]], [["c"]]), targets=2, attributes=2)
    assert "attributes=(words, other_words)" in caught.value.hint


def test_means_nearer_than_noise_are_the_same():
    assert same_direction(np.array([1.0, 0.0]), np.array([1.0, 9e-4]))
    assert not same_direction(np.array([1.0, 0.0]), np.array([1.0, 2e-3]))
    assert same_direction(np.zeros(2), np.zeros(2))
