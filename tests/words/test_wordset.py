import pickle
from dataclasses import FrozenInstanceError

import pytest

from evenhand.errors import UsageError
from evenhand.words import Pairs, Source, WordSet

CITED = Source("A study", authors="Doe", year=2001, where="Journal", bibtex="@misc{doe}")


def test_a_word_set_is_a_collection_of_its_words():
    colours = WordSet("colours", ["red", "blue"], CITED)
    assert list(colours) == ["red", "blue"]
    assert len(colours) == 2
    assert "red" in colours
    assert "green" not in colours
    assert colours.citation == "@misc{doe}"


def test_words_of_ones_own_have_an_empty_citation():
    assert WordSet("mine", ["a"]).citation == ""


def test_repeats_are_kept_and_named():
    assert WordSet("printed", ["terrible", "ugly", "terrible"]).duplicates == ("terrible",)


def test_pairs_know_their_sides_and_can_be_turned():
    pairs = Pairs("gender", [("woman", "man"), ("girl", "boy")], ("female", "male"), CITED)
    assert pairs.first == ("woman", "girl")
    assert pairs.second == ("man", "boy")
    assert list(pairs.flipped()) == [("man", "woman"), ("boy", "girl")]
    assert pairs.flipped().poles == ("male", "female")
    assert pairs.flipped().flipped() == pairs


@pytest.mark.parametrize("field", ["name", "words", "source", "scores"])
def test_a_word_set_cannot_change(field):
    with pytest.raises(FrozenInstanceError):
        setattr(WordSet("colours", ["red"]), field, ("blue",))


def test_scores_cannot_change():
    scored = WordSet("jobs", ["nurse"], scores={"share": [0.9]})
    with pytest.raises(TypeError):
        scored.scores["share"] = (0.1,)  # type: ignore[index]
    assert scored.scores["share"] == (0.9,)


def test_records_hash_and_pickle():
    scored = WordSet("jobs", ["nurse", "smith"], CITED, scores={"share": [0.9, 0.1]})
    pairs = Pairs("gender", [("she", "he")], ("female", "male"))
    assert len({scored, pickle.loads(pickle.dumps(scored)), pairs, pickle.loads(pickle.dumps(pairs))}) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nurse", r"got the string 'nurse'"),
        (["nurse", 3], "3 is not a word"),
        (["nurse", " "], "empty word"),
        (7, "got 7"),
    ],
)
def test_an_invalid_list_of_words_is_refused(words, said):
    with pytest.raises(UsageError, match=said):
        WordSet("jobs", words)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([("she", "he", "it")], r"two words, got \('she', 'he', 'it'\)"),
        (["ab"], "two words, got 'ab'"),
        ([("she", "she")], "both members of a pair are 'she'"),
        ("ab", "got 'ab'"),
    ],
)
def test_an_invalid_list_of_pairs_is_refused(pairs, said):
    with pytest.raises(UsageError, match=said):
        Pairs("gender", pairs)


@pytest.mark.parametrize("scores", [[0.5], [0.5, float("nan")], [0.5, "x"], [0.5, 10**400]])
def test_scores_must_be_one_finite_number_for_each_word(scores):
    with pytest.raises(UsageError, match="score"):
        WordSet("jobs", ["nurse", "smith"], scores={"share": scores})


def test_half_a_character_is_refused():
    with pytest.raises(UsageError, match="lone surrogate"):
        WordSet("broken", ["\ud800"])


def test_a_source_says_what_it_is():
    assert CITED.reference == "Doe (2001). A study. Journal."
    assert CITED.to_dict() == {
        "title": "A study",
        "authors": "Doe",
        "year": 2001,
        "where": "Journal",
        "bibtex": "@misc{doe}",
    }
    with pytest.raises(UsageError, match="title"):
        Source(" ")
    with pytest.raises(UsageError, match="four digits"):
        Source("A study", year=-3)
