"""Directions and subspaces of a concept estimated from words, their stability, and random controls."""

from evenhand.subspaces.differences import names, pair, pairs, span
from evenhand.subspaces.groups import classifier, grammatical, group_means, nouns, social, two_means, words
from evenhand.subspaces.learning import learn
from evenhand.subspaces.scree import Scree, Stability, gaussian, random_words, scree, stability
from evenhand.subspaces.subspace import Subspace

__all__ = [
    "Scree",
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
    "scree",
    "social",
    "span",
    "stability",
    "two_means",
    "words",
]
