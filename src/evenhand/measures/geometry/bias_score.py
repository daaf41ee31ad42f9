"""The poles and the direction of a concept, and the bias score of words: how far each is to one pole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from evenhand import subspaces
from evenhand.arrays import Rows, Vector64, as_float64, unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.call import ListCoverage
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace
from evenhand.words import Concept

Score = Literal["cosine", "projection"]
Direction = Literal["own", "original"]
How = Literal["pairs", "pair"]
Pair = tuple[str, str]
REST = "rest"


@dataclass(frozen=True)
class Poles:
    """The two ends that a bias score compares: two words, or the positive group against all other groups."""

    concept: str
    names: Pair
    positive: tuple[str, ...]
    negative: tuple[str, ...]

    @property
    def is_pair(self) -> bool:
        """True when each end is one word."""
        return len(self.positive) == len(self.negative) == 1

    def axis(self, vectors: Vectors, *, normalise: bool) -> Subspace:
        """Return the direction from the negative to the positive end; raise `DegenerateError` where they coincide.

        Two ends that coincide at unit length count as the same even if their lengths differ: a projection that makes
        she and he equal at unit length leaves such a pair, and its difference is only the direction they share.
        """
        if not self.negative:
            raise DegenerateError(f"concept {self.concept!r} has only the group {self.names[0]!r}: nothing to compare")
        at_unit_length = self._learn(vectors, normalise=True)
        return at_unit_length if normalise else self._learn(vectors, normalise=False)

    def _learn(self, vectors: Vectors, *, normalise: bool) -> Subspace:
        if self.is_pair:
            return subspaces.pair(vectors, self.positive[0], self.negative[0], normalise=normalise)
        learned = subspaces.two_means(vectors, self.positive, self.negative, normalise=normalise)
        return replace(learned, poles=self.names)

    def lists(self, vectors: Vectors) -> tuple[ListCoverage, ...]:
        """Return the coverage of both groups; a pair has none, since it needs both of its words."""
        if self.is_pair or not self.negative:
            return ()
        sides = zip(self.names, (self.positive, self.negative), strict=True)
        return tuple(ListCoverage.of_words(f"{self.concept} {name}", vectors.locate(words)[1]) for name, words in sides)

    def to_dict(self) -> dict[str, list[str]]:
        """Return plain data for the parameters of a measurement."""
        return {"pair" if self.is_pair else "poles": list(self.names)}


def concept_poles(concept: Concept, pair: Sequence[str] | None = None) -> Poles:
    """Return the pair as given, or the concept's published pair, or else its positive group against the rest.

    The mean of the positive group is compared with the mean of the words of all other groups together, so that a
    concept may have any number of groups and needs no pairs.
    """
    if pair is not None:
        if isinstance(pair, str) or len(pair) != 2:
            raise UsageError(f"pair must be (positive, negative), got {pair!r}")
        return Poles(concept.name, (pair[0], pair[1]), (pair[0],), (pair[1],))
    if concept.direction is not None and concept.direction.how == "pair":
        first, second = concept.direction.words
        return Poles(concept.name, (first, second), (first,), (second,))
    others = [name for name in concept.groups if name != concept.positive]
    rest = tuple(dict.fromkeys(word for name in others for word in concept.groups[name]))
    names = (concept.positive, others[0] if len(others) == 1 else REST)
    return Poles(concept.name, names, tuple(concept.groups[concept.positive]), rest)


def bias_scores(vectors: Vectors, rows: Rows, poles: Poles, *, score: Score = "cosine") -> Vector64:
    """Return the bias score of each row; above 0 is towards the positive pole.

    Args:
        vectors: the vectors that hold the rows and the poles.
        rows: row numbers.
        poles: the two ends; with groups instead of words, a and b below are the means of their words.
        score: `cosine`: cos(w, a) - cos(w, b), as Gonen & Goldberg 2019 and Wang 2020. `projection`:
            <w, a - b> / |a - b|, as Dawkins 2021. They differ mainly by the length of w: on raw GloVe about a third
            of the most biased words differ.

    Raises:
        DegenerateError: the two poles have the same vector.
        VocabularyError: a word of the pair is missing.
    """
    if score not in get_args(Score):
        raise UsageError(f"unknown bias score {score!r}", hint="use cosine or projection")
    # With unit words, basis * strength is a - b itself, so that one product gives the difference of the two cosines.
    axis = poles.axis(vectors, normalise=score == "cosine")
    matrix = vectors.matrix[rows]
    if score == "projection":
        return np.asarray(as_float64(matrix) @ axis.basis[0])
    return np.asarray(unit_rows(matrix) @ axis.basis[0] * axis.strength[0])


def most_biased(scores: Vector64, per_side: int) -> tuple[Rows, Rows]:
    """Return the indices of the n highest and of the n lowest scores, most extreme first; n is at most half of all.

    Equal scores keep the order of the words, so that the choice does not depend on the sorting routine.
    """
    if per_side < 1:
        raise UsageError(f"per_side must be at least 1, got {per_side}")
    n = min(per_side, len(scores) // 2)
    return np.argsort(-scores, kind="stable")[:n], np.argsort(scores, kind="stable")[:n]


def concept_direction(vectors: Vectors, concept: Concept, *, how: How = "pairs") -> Subspace:
    """Return the direction of a concept: by default Bolukbasi's g, the first principal direction of its pairs.

    Words have unit length. `how="pair"` takes the one published pair instead. A concept without pairs gets the
    direction of its own recipe, or that between the means of its positive group and of the rest.
    """
    if how not in get_args(How):
        raise UsageError(f"unknown way to learn the direction {how!r}", hint="use pairs or pair")
    if how == "pair":
        poles = concept_poles(concept)
        axis = poles.axis(vectors, normalise=True)
        chosen = "published" if poles.is_pair else "no published pair: the positive group against the rest"
        return replace(axis, params={**axis.params, "concept": concept.name, "chosen": chosen})
    if len(concept.pairs):
        return subspaces.learn(vectors, concept, "pairs", k=1, normalise=True)
    if concept.direction is None and len(concept.groups) < 2:
        raise DegenerateError(f"concept {concept.name!r} has neither pairs nor a second group")
    return subspaces.learn(vectors, concept)


def direction_lists(vectors: Vectors, concept: Concept, *, how: How = "pairs") -> tuple[ListCoverage, ...]:
    """Return the coverage of the words that `concept_direction` learns from."""
    if how == "pair" or not len(concept.pairs):
        return concept_poles(concept).lists(vectors)
    return (ListCoverage.of_pairs(vectors, concept.pairs),)


def direction_source(vectors: Vectors, reference: Vectors | None, direction: Direction) -> Vectors:
    """Return the vectors that a direction is learned on: the measured ones, or those before mitigation."""
    if direction not in get_args(Direction):
        raise UsageError(f"unknown direction {direction!r}", hint="use own or original")
    if direction == "own" or reference is None:
        return vectors
    if reference.dim != vectors.dim:
        raise UsageError(
            f"the original direction has {reference.dim} dimensions, {vectors.name} has {vectors.dim}",
            hint="use direction='own'",
        )
    return reference


def describe_direction(subspace: Subspace) -> dict[str, object]:
    """Return what a measurement records of the direction it used."""
    keys = ("normalise", "centre", "pairs_used", "positive", "negative", "chosen")
    recorded = {key: subspace.params[key] for key in keys if key in subspace.params}
    return {"learned": subspace.how, "dimensions": subspace.k, **recorded}
