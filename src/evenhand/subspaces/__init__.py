"""Directions and subspaces of a concept estimated from words, their stability, and random controls."""

from evenhand.subspaces.differences import names, pair, pairs, span
from evenhand.subspaces.groups import classifier, group_means, two_means, words
from evenhand.subspaces.learning import learn
from evenhand.subspaces.scree import Stability, gaussian, random_words, stability
from evenhand.subspaces.subspace import Subspace

__all__ = [
    "Stability",
    "Subspace",
    "classifier",
    "gaussian",
    "group_means",
    "learn",
    "names",
    "pair",
    "pairs",
    "random_words",
    "span",
    "stability",
    "two_means",
    "words",
]
