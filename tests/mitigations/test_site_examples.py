"""Sentences with labels and swapped sentences, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.site_examples import (
    NEUTRAL_WORDS,
    SENTENCES,
    concept_words,
    labelled_sentences,
    read_sentences,
    sampled,
    swapped_sentences,
    tokens,
)
from evenhand.words import Concept, Recipe

CONCEPT = Concept(
    "c", {"a": ["king", "he"], "b": ["queen", "she"]}, [("king", "queen"), ("he", "she")], names={"a": ["Bob"], "b": ["Eve"]},
    direction=Recipe("pair", ("man", "woman")), equalize=[("lad", "lass")], neutral=["tree", "king"],
)  # fmt: skip
TEXT = """
 The KING left.
He saw the queen, and she left.

The queen (she) left.
The king left.
It rained.
King King!
The king left.
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return str(tmp_path / "text.txt")


def test_the_words_of_a_concept_each_once() -> None:
    assert concept_words(CONCEPT) == (
        "king", "he", "queen", "she", "lad", "lass", "man", "woman", "Bob", "Eve", "tree",
    )  # fmt: skip
    assert concept_words(Concept("c", {"a": ["x"], "b": ["y"]})) == ("x", "y")


def test_lines_and_words() -> None:
    assert tokens("He said: \"She's (in) [it].\" -- 'ok'?") == ["he", "said", "she's", "in", "it", "--", "ok"]
    assert tokens(" . ") == []


def test_sentences_of_a_file_go_to_the_one_group_that_they_mention(file: str) -> None:
    assert len(read_sentences(file)) == 7
    found = labelled_sentences(CONCEPT, file, most=9, seed=0)
    assert found.classes == {
        "a": ["The KING left.", "The king left.", "King King!"], "b": ["The queen (she) left."], "neutral": ["It rained."]
    }  # fmt: skip
    assert found.report() == {"source": "text.txt", "sentences": {"a": 3, "b": 1, "neutral": 1}}
    rng = np.random.default_rng(4)
    few = labelled_sentences(CONCEPT, file, most=2, seed=4)
    assert few.classes["a"] == [found.classes["a"][row] for row in sorted(rng.permutation(3)[:2])]
    assert few.report()["sentences"] == {"a": 2, "b": 1, "neutral": 1}
    other = Concept("c", {"a": ["tree"], "b": ["stone"]})
    with pytest.raises(DegenerateError, match=r"text.txt: sentences of neutral only"):
        labelled_sentences(other, file, most=9, seed=0)
    Path(file).write_text("\n", encoding="utf-8")
    with pytest.raises(DegenerateError, match="sentences of no group only"):
        labelled_sentences(CONCEPT, file, most=9, seed=0)


def test_sentences_of_templates() -> None:
    found = labelled_sentences(CONCEPT, None, most=1000, seed=0)
    assert list(found.classes) == ["a", "b", "neutral"]
    assert found.classes["b"] == [text.replace("{word}", word) for word in ("queen", "she") for text in SENTENCES]
    assert len(found.classes["neutral"]) == 2 * len(SENTENCES)
    plain = labelled_sentences(Concept("c", {"a": ["x"], "b": ["y"]}), None, most=1000, seed=0)
    assert len(plain.classes["neutral"]) == len(NEUTRAL_WORDS) * len(SENTENCES)
    assert plain.source == f"{len(SENTENCES)} templates"


def test_sentences_with_the_words_of_pairs_swapped(file: str) -> None:
    found, source = swapped_sentences(CONCEPT, file, most=99, seed=0)
    assert source == "text.txt"
    assert found == [
        ("The KING left.", "The Queen left."),
        ("He saw the queen, and she left.", "She saw the queen, and she left."),
        ("He saw the queen, and she left.", "He saw the queen, and he left."),
        ("The queen (she) left.", "The king (she) left."),
        ("The king left.", "The queen left."),
        ("King King!", "Queen King!"),
        ("The king left.", "The queen left."),
    ]
    templates, source = swapped_sentences(CONCEPT, None, most=99, seed=0)
    assert len(templates) == 2 * len(SENTENCES)
    assert templates[0] == (SENTENCES[0].replace("{word}", "king"), SENTENCES[0].replace("{word}", "queen"))
    assert source == f"{len(SENTENCES)} templates"
    assert len(swapped_sentences(CONCEPT, None, most=3, seed=0)[0]) == 3
    with pytest.raises(UsageError, match="no sentence has a word of the pairs"):
        swapped_sentences(Concept("c", {"a": ["x"], "b": ["y"]}, [("x", "y")]), file, most=9, seed=0)


def test_a_sample_keeps_the_order_and_draws_nothing_where_all_are_taken() -> None:
    rng = np.random.default_rng(0)
    state = rng.bit_generator.state
    assert sampled("abc", 3, rng) == "abc"
    assert rng.bit_generator.state == state
    rows = np.sort(np.random.default_rng(1).permutation(30)[:7]).tolist()
    assert sampled(list(range(30)), 7, np.random.default_rng(1)) == rows


def test_words_of_a_concept_are_those_of_its_lists() -> None:
    assert set(eh.concept("gender").groups["female"].words) <= set(concept_words(eh.concept("gender")))
