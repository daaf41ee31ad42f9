"""Directions and subspaces of a concept estimated from words, their stability, and random controls."""

from evenhand.subspaces.differences import names, pair, pairs, span
from evenhand.subspaces.grammatical import grammatical, nouns, social
from evenhand.subspaces.groups import classifier, group_means, two_means, words
from evenhand.subspaces.learning import learn
from evenhand.subspaces.scree import Stability, gaussian, random_words, stability
from evenhand.subspaces.subspace import Subspace

__all__ = [
    "Stability",
    "Subspace",
    "classifier",
    "gaussian",
    "grammatical",
    "group_means",
    "learn",
    "names",
    "nouns",
    "pair",
    "pairs",
    "random_words",
    "social",
    "span",
    "stability",
    "two_means",
    "words",
]
