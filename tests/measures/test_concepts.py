"""Every measure of vectors on every concept: a number, or a reason that says what the concept lacks, never an error."""

from __future__ import annotations

import math

import numpy as np
import pytest

import evenhand as eh
from evenhand import measures
from evenhand.measures import Measurement
from evenhand.measures.geometry.biased_words import Restriction, restrict_vocabulary
from evenhand.measures.registry import as_measurements
from evenhand.models.vectors import Vectors
from evenhand.words import Concept, Query, concept_query, generic_ids

COLOURS = Concept("colour", groups={"warm": ["red", "orange"], "cold": ["blue", "green"], "plain": ["black", "white"]})
CITIES = Concept(
    "ville",
    groups={"nord": ["paris", "london"], "sud": ["rome", "madrid"], "est": ["moscow", "warsaw"]},
    names={"nord": ["pierre", "marie"], "sud": ["marco", "maria"], "est": ["ivan", "olga"]},
    language="fr",
)
CONCEPTS = [eh.concept(name) for name in ("gender", "nationality", "religion", "race", "age")] + [COLOURS, CITIES]
# Measures of intersections have no answer for any of these concepts; test_interaction.py asks them.
VECTOR_MEASURES = [
    name for name in measures.ids() if measures.info(name).view == "vectors" and not measures.info(name).crossed
]
SMALL = {
    "clustering": {"per_side": 50, "runs": 1, "starts": 1},
    "recoverability": {"per_side": 50, "classifiers": (), "repeats": 1},
    "neighbours": {"k": 10, "sample": 50},
    "proximity-bias": {"k": 10},
    "gipe": {"k": 10, "sample": 50},
    "retention": {"sample": 50},
    "analogy-generation": {"k": 20},
    "rnsb": {"splits": 2},
    "weat": {"samples": 100},
    "generalised-weat": {"samples": 100},
}
# What each concept leaves undefined; everything else has a number.
UNDEFINED = {
    "midb": ("nationality", "religion", "colour"),  # no first names
    "ripa": ("colour", "ville"),  # no pairs
    "generalised-weat": ("nationality", "religion", "colour", "ville"),  # three sets of targets, two of attributes
}


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    whole = Vectors.default()
    needed = [word for concept in CONCEPTS for words in _word_lists(concept) for word in words]
    listed = [word for word in needed if whole.find(word)]
    first = dict.fromkeys([*whole.words[:3_000], *(str(whole.find(word)) for word in listed)])
    professions = whole.locate(eh.words.wordset("bolukbasi2016-professions"))[0]
    return whole.restrict(dict.fromkeys([*first, *(whole.words[row] for row in professions)]))


def _word_lists(concept: Concept) -> list[tuple[str, ...]]:
    queries = [concept_query(id, concept) for id in generic_ids(concept)] + [generic(concept)]
    return [
        *(tuple(group) for group in concept.groups.values()),
        *(tuple(group) for group in concept.names.values()),
        concept.pairs.first,
        concept.pairs.second,
        *(query.words for query in queries),
    ]


def generic(concept: Concept) -> Query:
    """Return the groups against pleasant and unpleasant words, for a concept of any language."""
    source = eh.query("weat-1")
    return Query(f"{concept.name}/own", concept.groups, source.attributes, concept=concept.name)


def measure(name: str, vectors: Vectors, concept: Concept) -> tuple[Measurement, ...]:
    function, info = measures.get(name), measures.info(name)
    options = SMALL.get(name, {})
    if info.takes == "query":
        query = generic(concept)
        if info.arity[0] is not None and info.arity[0] != len(query.targets):
            pair = dict(zip(("first", "rest"), (query.targets[0], query.targets[1]), strict=True))
            query = Query(query.name, pair, query.attributes, concept=concept.name)
        return as_measurements(function(vectors, query, **options))
    query_argument = {
        "indirect-bias": [("nurse", "teacher"), ("doctor", "engineer")],
        "mweat": [("actress", "actor"), ("queen", "king"), ("mother", "father")],
        "sembias": "sembias",
        "occupation-share": "occupations-share-of-women",
    }.get(name, (*info.queries, "vocabulary")[0])
    return as_measurements(function(vectors, query_argument, concept=concept, **options))


@pytest.mark.parametrize("concept", CONCEPTS, ids=lambda concept: concept.name)
@pytest.mark.parametrize("name", [name for name in VECTOR_MEASURES if name not in ("similarity", "analogy")])
def test_a_number_or_a_reason_that_names_the_concept(name: str, concept: Concept, vectors: Vectors) -> None:
    main = measure(name, vectors, concept)[0]
    if concept.name in UNDEFINED.get(name, ()):
        assert main.status == "undefined"
        assert concept.name in main.reason
        assert "gender" not in main.reason
    elif name == "sembias":
        assert main.status == "ok" or "complete row" in main.reason
    else:
        assert main.status == "ok", main.reason
        assert main.value is not None
        assert math.isfinite(main.value)


@pytest.mark.parametrize("concept", [COLOURS, CITIES], ids=lambda concept: concept.name)
@pytest.mark.parametrize("name", ["clustering", "recoverability", "neighbours", "analogy-generation"])
def test_three_groups_compare_the_positive_one_with_the_rest(name: str, concept: Concept, vectors: Vectors) -> None:
    m = measure(name, vectors, concept)[0]
    assert m.params["concept"] == concept.name
    assert m.params["poles"] == [concept.positive, "rest"]


@pytest.mark.parametrize("name", [name for name in VECTOR_MEASURES if measures.info(name).takes == "words"])
def test_a_concept_of_one_group_is_undefined_or_does_not_need_two(name: str, vectors: Vectors) -> None:
    single = Concept("single", groups={"a": ["red", "blue"]})
    m = measure(name, vectors, single)[0]
    if name == "retention":
        assert m.status == "ok"
    else:
        assert m.status == "undefined"
        assert "single" in m.reason


@pytest.mark.parametrize("concept", CONCEPTS, ids=lambda concept: concept.name)
def test_the_restricted_vocabulary_leaves_out_the_words_of_the_concept_itself(
    concept: Concept, vectors: Vectors
) -> None:
    vocabulary = set(restrict_vocabulary(vectors, concept, Restriction()).words)
    own = concept.specific if len(concept.specific) else [word for group in concept.groups.values() for word in group]
    assert not vocabulary & set(own)
    if concept.name != "gender":
        assert {"she", "woman"} <= vocabulary


def test_the_first_group_that_is_missing_is_named() -> None:
    v = Vectors(["red", "orange", "blue", "house", "tree"], np.eye(5))
    m = as_measurements(measures.get("clustering")(v, ["house", "tree", "blue"], concept=COLOURS))[0]
    assert m.reason == "too few words are in the vocabulary: colour rest 1 of 4 (min_share=0.5)"
