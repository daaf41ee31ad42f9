"""Half-sibling regression: subtract what a concept's own words predict of every other vector."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps import SoftProjection, VectorMap
from evenhand.mitigations.method import Mitigation
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import ExceptListed, Selector, sparing
from evenhand.models.vectors import Vectors
from evenhand.subspaces.lookup import word_rows
from evenhand.subspaces.principal import RANK_RTOL

if TYPE_CHECKING:
    from evenhand.words import Concept

# What the authors' notebook regresses on, for the concept that it is about.
PUBLISHED = {"gender": ("gn-glove-female", "gn-glove-male")}
CHOICES = ("published", "specific", "groups")


@MITIGATIONS.register("hsr")
@dataclass(frozen=True)
class HSR(Mitigation):
    """N - G (G'G + a I)^-1 G'N, G the concept's words as columns: what a ridge regression on them predicts of N.

    Yang & Feng 2020, a = 60. The formula is a symmetric linear map of each vector by itself: with G' = U S V' it
    shrinks direction i of V by s_i^2 / (s_i^2 + a). So nothing of the size of the vocabulary is solved or kept, and
    new vectors can be mapped. The siblings themselves stay, as in the paper; `words=EveryWord()` maps them too, and
    then also bare arrays.

    The authors take GloVe vectors as they are and, for gender, the two lists of GN-GloVe. Scale and number of words
    matter: the longer the vectors and the more siblings, the more goes, and with more siblings than dimensions every
    direction shrinks. `directions_removed` in the report is the sum of the weights: look at it before comparing.
    Works for any concept, since only its words are needed, not their poles.

    What it does not do: tell the concept from whatever else its words have in common (being frequent, being about
    people): all that they predict goes.
    """

    id: ClassVar[str] = "hsr"
    title: ClassVar[str] = "Half-sibling regression"
    citation: ClassVar[str] = "Yang & Feng 2020, AAAI"
    limits: ClassVar[str] = (
        "Removes whatever the concept's words predict, not only the concept; depends on the scale of the vectors and "
        "on how many words there are. Nothing is removed entirely."
    )

    alpha: float = 60.0
    """Ridge penalty; 0 removes the span of the words."""
    siblings: str | Iterable[str] | None = None
    """Which words predict: "published", "specific" or "groups" of the concept, or a list of words. None: the first of
    these three that the concept has."""
    words: Selector | None = None
    """Which words stay as they are (see `selection`); None: the siblings."""

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        """Factorise the matrix of the siblings and return the shrinking map."""
        which, words = self._siblings(concept)
        rows, coverage = word_rows(v, words, what=f"the siblings ({which}) of {concept.name!r}")
        _, strength, basis = np.linalg.svd(rows, full_matrices=False)
        real = strength > RANK_RTOL * strength[0]
        if not real.any():
            raise DegenerateError(f"{v.name}: the siblings of {concept.name!r} are all zero, and predict nothing")
        squares = strength[real] ** 2
        weights = squares / (squares + self.alpha)
        spare = self.words or ExceptListed(coverage.found)
        vm = sparing(SoftProjection(basis[real], weights), spare, v, concept)
        details = {
            "concept": concept.name,
            "siblings": which,
            "siblings_used": len(rows),
            "directions_removed": float(weights.sum()),
            "strongest_weight": float(weights.max()),
        }
        return self._reported(vm, v, coverage, details)

    def _check(self, concept: Concept) -> None:
        if not (np.isfinite(self.alpha) and self.alpha >= 0):
            raise UsageError(f"alpha is a penalty of at least 0, got {self.alpha}")
        self._siblings(concept)

    def _siblings(self, concept: Concept) -> tuple[str, tuple[str, ...]]:
        """Which list it is, and its words."""
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

    # Somebody else's concept of the same name brings its own words.
    if concept.name not in PUBLISHED or concept != load(concept.name):
        return ()
    return tuple(dict.fromkeys(word for id in PUBLISHED[concept.name] for word in wordset(id)))
