"""How far words lean to one pole of a pair such as she-he, and which lean most."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from evenhand import subspaces
from evenhand.arrays import Rows, Vector64, as_float64, unit_rows
from evenhand.errors import UsageError
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace
from evenhand.words import Concept

Score = Literal["cosine", "projection"]
Pair = tuple[str, str]


def pole_pair(concept: Concept, pair: Pair | None = None) -> Pair:
    """The pair as given, or that of the concept's published direction, or else the concept's first pair."""
    if pair is not None:
        if isinstance(pair, str) or len(pair) != 2:
            raise UsageError(f"pair must be (positive, negative), got {pair!r}")
        return (pair[0], pair[1])
    if concept.direction is not None and concept.direction.how == "pair":
        return (concept.direction.words[0], concept.direction.words[1])
    if not len(concept.pairs):
        raise UsageError(f"concept {concept.name!r} has no pair of words", hint="say pair=(positive, negative)")
    return concept.pairs.pairs[0]


def pair_axis(vectors: Vectors, pair: Pair, *, normalise: bool) -> Subspace:
    """The direction from the second word of the pair to the first, refused where the two are the same word.

    Two vectors of one direction and different lengths count as the same: a projection that makes she and he equal at
    unit length leaves such a pair, and its difference is only the direction they share.
    """
    at_unit_length = subspaces.pair(vectors, *pair, normalise=True)
    return at_unit_length if normalise else subspaces.pair(vectors, *pair, normalise=False)


def leaning(vectors: Vectors, rows: Rows, pair: Pair, *, score: Score = "cosine") -> Vector64:
    """The bias score of each row, above 0 towards the first word of the pair.

    `cosine`: cos(w, a) - cos(w, b), as Gonen & Goldberg 2019 and Wang 2020. `projection`: <w, a - b> / |a - b|, as
    Dawkins 2021. They differ mainly by the length of w: on raw GloVe about a third of the most biased words are
    others. A pair whose two words are the same vector is a `DegenerateError`, a pair not there a `VocabularyError`.
    """
    if score not in get_args(Score):
        raise UsageError(f"unknown bias score {score!r}", hint="use cosine or projection")
    # With unit words, basis x strength is a - b itself, so that one product gives the difference of the two cosines.
    axis = pair_axis(vectors, pair, normalise=score == "cosine")
    taken = vectors.matrix[rows]
    if score == "projection":
        return np.asarray(as_float64(taken) @ axis.basis[0])
    return np.asarray(unit_rows(taken) @ axis.basis[0] * axis.strength[0])


def most_biased(scores: Vector64, per_side: int) -> tuple[Rows, Rows]:
    """Places of the n highest and of the n lowest scores, most extreme first; n is at most half of all.

    Equal scores keep the order of the words, so that the choice does not depend on the sorting routine.
    """
    if per_side < 1:
        raise UsageError(f"at least one word a side must be chosen, got {per_side}")
    n = min(per_side, len(scores) // 2)
    return np.argsort(-scores, kind="stable")[:n], np.argsort(scores, kind="stable")[:n]


Direction = Literal["own", "original"]
How = Literal["pairs", "pair"]


def axis(vectors: Vectors, concept: Concept, *, how: How = "pairs") -> Subspace:
    """Bolukbasi's g: the first principal direction of the pairs, unit words; or that of the one published pair.

    A concept without pairs gets the direction that its own recipe gives.
    """
    if how not in get_args(How):
        raise UsageError(f"unknown way to learn the direction {how!r}", hint="use pairs or pair")
    if how == "pair":
        return subspaces.learn(vectors, concept, concept.direction or "pair", normalise=True)
    if not len(concept.pairs):
        return subspaces.learn(vectors, concept)
    return subspaces.learn(vectors, concept, "pairs", k=1, normalise=True)


def learned_on(vectors: Vectors, reference: Vectors | None, direction: Direction) -> Vectors:
    """The vectors a direction is learned on: these very ones, or those before mitigation."""
    if direction not in get_args(Direction):
        raise UsageError(f"unknown direction {direction!r}", hint="use own or original")
    before = reference or vectors
    if direction == "own":
        return vectors
    if before.dim != vectors.dim:
        raise UsageError(
            f"the original direction has {before.dim} dimensions, {vectors.name} has {vectors.dim}",
            hint="use direction='own'",
        )
    return before


def described(along: Subspace) -> dict[str, Any]:
    """What a measurement records of the direction it used."""
    kept = ("normalise", "centre", "pairs_used", "positive", "negative", "chosen")
    return {"learned": along.how, "dimensions": along.k} | {
        key: along.params[key] for key in kept if key in along.params
    }
