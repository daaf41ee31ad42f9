"""Phrases for the groups of a concept."""

import pytest

import evenhand as eh
from evenhand import words
from evenhand.words.persons import person_sentences, persons


@pytest.mark.parametrize("name", [name for name in words.ids("concept") if words.concept(name).language == "en"])
def test_every_shipped_concept_has_phrases_of_its_own(name: str) -> None:
    concept = words.concept(name)
    found = persons(concept)
    assert found.source in (f"persons-{name}", f"the adjectives of {name}")
    assert set(found.groups) == set(concept.groups)
    assert found.groups[0] == concept.positive
    assert all(len(set(row)) == len(found.groups) for row in found.rows)


def test_other_concepts_use_names_or_the_words_of_the_groups() -> None:
    own = eh.Concept("x", {"a": ["a1", "a2", "a3"], "b": ["b1", "b2"]}, positive="b")
    assert persons(own).rows == (("b1", "a1"), ("b2", "a2"))
    assert persons(own).left_out == ("a3",)
    named = eh.Concept("x", {"a": ["a1"], "b": ["b1"]}, names={"a": ["Ann"], "b": ["Bob"]})
    assert persons(named).rows == (("Ann", "Bob"),)
    assert persons(named).column("b") == ("Bob",)
    with pytest.raises(eh.EvenhandError, match="one group only"):
        persons(eh.Concept("x", {"a": ["a1"]}))


def test_adjectives_make_phrases() -> None:
    concept = eh.Concept("x", {"a": ["a1"], "b": ["b1"]}, adjectives={"a": ["tall", "long"], "b": ["small"]})
    found = persons(concept)
    assert found.rows[0] == ("the tall man", "the small man")
    assert len(found.rows) == 5
    assert found.left_out == ("long",)


def test_sentences_begin_with_a_capital() -> None:
    template = words.Template("t", "{person} {did}.", {"did": ["slept", "ate"]})
    assert list(person_sentences(template, "my aunt")) == ["My aunt slept.", "My aunt ate."]
    with pytest.raises(eh.EvenhandError, match=r"one free slot \{person\}"):
        person_sentences(words.Template("t", "{who} slept."), "she")
