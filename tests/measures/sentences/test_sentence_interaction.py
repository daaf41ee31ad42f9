"""The interaction in sentences is that of words whose vectors are means over sentences."""

import pytest

import evenhand as eh
from evenhand.words import Query, concept_query


def test_names_and_phrases_in_sentences(glove: eh.Vectors) -> None:
    encoder = eh.open(glove).view("sentences")
    names = concept_query("gender x race/pleasant-unpleasant", eh.concept("gender x race"))
    m = eh.measures.sentence_interaction(encoder, names, samples=99)
    assert m.status == "ok"
    assert m.n == 32
    assert len(m.items) == 4
    assert sum(item["value"] for item in m.items) == pytest.approx(0)
    phrases = concept_query("gender x race/pleasant-unpleasant", eh.concept("gender x race by phrases"))
    composed = eh.measures.sentence_interaction(encoder, phrases, samples=99)
    assert composed.n == 48
    # a mean of word vectors is a sum of parts, so that little is left
    assert abs(composed.value) < 0.1


def test_what_is_no_table_is_said(glove: eh.Vectors) -> None:
    encoder = eh.open(glove).view("sentences")
    assert "not about an intersection" in eh.measures.sentence_interaction(encoder, "weat-6").reason
    one = Query(
        "q",
        {"a x b": ["red"], "a x c": ["blue"], "d x b": ["green"], "d x c": ["white"]},
        {"x": ["good"], "y": ["bad"]},
    )
    assert "needs 4 words in each cell" in eh.measures.sentence_interaction(encoder, one).reason
    with pytest.raises(eh.EvenhandError, match="needs 2 target and 2 attribute sets"):
        eh.measures.seat(encoder, one)
