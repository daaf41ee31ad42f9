import pickle
from dataclasses import FrozenInstanceError

import pytest

from evenhand.errors import UsageError
from evenhand.words import Concept, Pairs, Recipe, WordSet


def test_plain_lists_become_records():
    made = Concept(name="x", groups={"a": ["p"], "b": ["q"]}, pairs=[("p", "q")], names={"a": ["Pat"]}, specific=["r"])
    assert made.positive == "a"
    assert isinstance(made.groups["b"], WordSet)
    assert isinstance(made.pairs, Pairs)
    assert made.pairs.poles == ("a", "b")
    assert list(made.names["a"]) == ["Pat"]
    assert list(made.specific) == ["r"]
    assert len(made.equalize) == 0
    assert made.direction is None


def test_the_positive_group_comes_first_among_the_poles():
    made = Concept("x", {"a": ["p"], "b": ["q"]}, [("q", "p")], positive="b")
    assert made.pairs.poles == ("b", "a")


def test_pairs_alone_make_two_groups():
    made = Concept("x", pairs=Pairs("own", [("her", "his"), ("her", "him")], ("female", "male")))
    assert {name: list(words) for name, words in made.groups.items()} == {"female": ["her"], "male": ["his", "him"]}


def test_three_groups_leave_the_pairs_without_poles():
    made = Concept("x", {"a": ["p"], "b": ["q"], "c": ["r"]}, [("p", "q")])
    assert made.pairs.poles == ("first", "second")


def test_a_concept_cannot_change_and_pickles():
    made = Concept("x", {"a": ["p"], "b": ["q"]}, direction=Recipe("two-means"))
    with pytest.raises(FrozenInstanceError):
        made.positive = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        made.groups["a"] = WordSet("a", ["z"])  # type: ignore[index]
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "neither groups nor pairs"),
        ({"groups": {"a": []}}, "'a' is empty"),
        ({"groups": {"a": ["p"]}, "positive": "z"}, "positive='z' is none of its groups"),
        ({"groups": [["p"], ["q"]]}, "must map a name"),
        ({"groups": {"a": "pq"}}, "got the string 'pq'"),
    ],
)
def test_a_concept_without_sense_is_refused(arguments, said):
    with pytest.raises(UsageError, match=said):
        Concept("x", **arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"how": "guess"}, "unknown recipe 'guess'"),
        ({"how": "pair", "words": ("she",)}, "positive, negative"),
        ({"how": "words", "words": ("a", "b"), "k": 0}, "k must be at least 1"),
        ({"how": "words", "words": "ab"}, "got the string"),
    ],
)
def test_a_recipe_without_sense_is_refused(arguments, said):
    with pytest.raises(UsageError, match=said):
        Recipe(**arguments)


def test_a_recipe_takes_a_list():
    assert Recipe("pair", ["she", "he"]).words == ("she", "he")  # type: ignore[arg-type]
