"""Half-sibling regression: subtract from every vector what the concept's own words predict of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps import SoftProjection, VectorMap
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import ExceptListed, Selector, sparing
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.models.vectors import Vectors
from evenhand.subspaces.differences import word_rows
from evenhand.subspaces.subspace import RANK_RTOL

if TYPE_CHECKING:
    from evenhand.words import Concept

# The regressors of the authors' notebook, which is about gender.
PUBLISHED = {"gender": ("gn-glove-female", "gn-glove-male")}
CHOICES = ("published", "specific", "groups")


@MITIGATIONS.register("hsr")
@dataclass(frozen=True)
class HSR(VectorMethod):
    """Subtract from every vector what a ridge regression on the concept's words predicts of it.

    Yang & Feng (2020), with alpha = 60; G holds the concept's words as columns. The formula is a symmetric linear map
    of each vector: with G' = U S V' it shrinks direction i of V by s_i^2 / (s_i^2 + alpha). So no system of the size
    of the vocabulary is solved, and new vectors can be mapped. The siblings themselves stay unchanged, as in the
    paper; `words=EveryWord()` maps them too, which also allows bare arrays.

    The authors use GloVe vectors without normalising and, for gender, the two lists of GN-GloVe. Scale and number of
    words matter: longer vectors and more siblings remove more, and with more siblings than dimensions every direction
    shrinks. `directions_removed` in the report is the sum of the weights; check it before comparing. It works for any
    concept, since it needs words but no poles.

    What it does not do: separate the concept from whatever else its words have in common (being frequent, being
    about people). Everything they predict is removed.

    Args:
        alpha: Ridge penalty; 0 removes the span of the words.
        siblings: Which words predict: `published`, `specific` or `groups` of the concept, or a list of words; None: the
            first of these three that the concept has.
        words: Which words stay unchanged; None: the siblings.
    """

    id: ClassVar[str] = "hsr"
    title: ClassVar[str] = "Half-sibling regression (HSR)"
    formula: ClassVar[str] = "N - G (G'G + alpha I)^-1 G'N, G the concept's words and N the others, as columns"
    cites: ClassVar[tuple[str, ...]] = ("yang2020",)
    limits: ClassVar[str] = (
        "Removes everything the concept's words predict, not only the concept; depends on the scale of the vectors "
        "and on the number of words. No direction is removed entirely."
    )

    alpha: float = 60.0
    siblings: str | Iterable[str] | None = None
    words: Selector | None = None

    def _check(self, concept: Concept) -> None:
        if not (np.isfinite(self.alpha) and self.alpha >= 0):
            raise UsageError(f"alpha must be a number of at least 0, got {self.alpha}")
        self._siblings(concept)

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        which, words = self._siblings(concept)
        rows, coverage = word_rows(v, words, what=f"the siblings ({which}) of {concept.name!r}")
        _, strength, basis = np.linalg.svd(rows, full_matrices=False)
        nonzero = strength > RANK_RTOL * strength[0]
        if not nonzero.any():
            raise DegenerateError(f"{v.name}: the siblings of {concept.name!r} are all zero and predict nothing")
        squares = strength[nonzero] ** 2
        weights = squares / (squares + self.alpha)
        exempt = self.words or ExceptListed(coverage.found)
        vm = sparing(SoftProjection(basis[nonzero], weights), exempt, v, concept)
        details = {
            "concept": concept.name,
            "siblings": which,
            "siblings_used": len(rows),
            "directions_removed": float(weights.sum()),
            "strongest_weight": float(weights.max()),
        }
        return self._reported(vm, v, coverage, details)

    def _siblings(self, concept: Concept) -> tuple[str, tuple[str, ...]]:
        """Return which list is used, and its words."""
        if self.siblings is not None and not isinstance(self.siblings, str):
            return "given", tuple(self.siblings)
        lists = {
            "published": _published(concept),
            "specific": tuple(concept.specific),
            "groups": tuple(dict.fromkeys(word for group in concept.groups.values() for word in group)),
        }
        which = self.siblings or next(name for name in CHOICES if lists[name])
        if which not in lists:
            raise UsageError(f"unknown siblings {which!r}", hint=f"use one of {', '.join(CHOICES)}, or a list of words")
        if not lists[which]:
            raise UsageError(f"concept {concept.name!r} has no {which} words", hint="siblings='groups'")
        return which, lists[which]


def _published(concept: Concept) -> tuple[str, ...]:
    from evenhand.words import concept as load
    from evenhand.words import wordset

    # A user's own concept of the same name brings its own words.
    if concept.name not in PUBLISHED or concept != load(concept.name):
        return ()
    return tuple(dict.fromkeys(word for name in PUBLISHED[concept.name] for word in wordset(name)))
