"""The direction of the concept along which direct, indirect and proximity bias are taken."""

from __future__ import annotations

from typing import Any, Literal, get_args

from evenhand import subspaces
from evenhand.errors import UsageError
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace
from evenhand.words import Concept

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
