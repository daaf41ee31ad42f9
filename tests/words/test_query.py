import pickle
from dataclasses import FrozenInstanceError

import pytest

from evenhand.errors import UsageError
from evenhand.words import Query, WordSet


def test_lists_mappings_and_word_sets_all_make_queries():
    plain = Query(targets=(["a"], ["b"]), attributes=(["x", "a"], ["y"]))
    named = Query("q", {"flowers": ["a"], "insects": ["b"]}, (WordSet("good", ["x"]), ["y"]))
    assert [group.name for group in plain.targets] == ["target 1", "target 2"]
    assert [group.name for group in named.targets] == ["flowers", "insects"]
    assert [group.name for group in named.attributes] == ["good", "attribute 2"]
    assert plain.words == ("a", "b", "x", "y")
    assert plain.arity == (2, 2)


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (["man", "woman"], "got the string 'man'"),
        ("man", "several lists"),
        (WordSet("w", ["man"]), "several lists"),
        ((), "no target set"),
        (([], ["a"]), "'target 1' is empty"),
    ],
)
def test_a_query_without_sense_is_refused(targets, said):
    with pytest.raises(UsageError, match=said):
        Query("q", targets, (["x"], ["y"]))


def test_a_query_cannot_change_and_pickles():
    made = Query("q", (["a"], ["b"]), (["x"], ["y"]))
    with pytest.raises(FrozenInstanceError):
        made.targets = ()  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(made)) == made
