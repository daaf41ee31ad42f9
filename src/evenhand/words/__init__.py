"""Word sets, pairs, concepts, queries and sentence templates, each with its source.

The lists are in `data/*.toml`, one cited file per paper or list.
"""

from evenhand.words.catalog import (
    Listed,
    as_concept,
    as_wordset,
    concept,
    concept_query,
    generic_ids,
    ids,
    listing,
    pairs,
    query,
    table,
    template,
    wordset,
)
from evenhand.words.concept import Concept, Recipe
from evenhand.words.concept_check import Flaw, check_concept
from evenhand.words.grammar import article
from evenhand.words.intersection import Intersection, intersect
from evenhand.words.library import KINDS, load_file
from evenhand.words.query import Query, SentenceQuery
from evenhand.words.template import Template
from evenhand.words.wordset import Pairs, Source, Table, WordSet

__all__ = [
    "KINDS",
    "Concept",
    "Flaw",
    "Intersection",
    "Listed",
    "Pairs",
    "Query",
    "Recipe",
    "SentenceQuery",
    "Source",
    "Table",
    "Template",
    "WordSet",
    "article",
    "as_concept",
    "as_wordset",
    "check_concept",
    "concept",
    "concept_query",
    "generic_ids",
    "ids",
    "intersect",
    "listing",
    "load_file",
    "pairs",
    "query",
    "table",
    "template",
    "wordset",
]
