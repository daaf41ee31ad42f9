"""Linear projection: remove a concept's direction or subspace from every vector."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from evenhand.errors import EvenhandWarning, UsageError
from evenhand.mitigations.maps import SoftProjection, VectorMap
from evenhand.mitigations.method import Mitigation
from evenhand.mitigations.projection.hard import set_subspace
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.requirements import require_direction
from evenhand.mitigations.selection import Selector, sparing
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace, learn

if TYPE_CHECKING:
    from evenhand.words import Concept, Recipe


@MITIGATIONS.register("linear")
@dataclass(frozen=True)
class LinearProjection(Mitigation):
    """x - sum_i <x, b_i> b_i for every word, the concept's own words too; nothing is normalised.

    Dev & Phillips 2019; Dev et al. 2019 (he - she for gender, the first principal component of eight demonyms for
    nationality, the first two of eight adherents for religion): those are the concepts' published directions, the
    default. The directions are orthonormal, so that they are removed jointly, not one after the other.

    What it does not do: words keep their neighbourhoods, so that clusters and classifiers still find the concept
    (Gonen & Goldberg 2019); words that rightly carry it (mother, king) lose it as well.
    """

    id: ClassVar[str] = "linear"
    title: ClassVar[str] = "Linear projection"
    citation: ClassVar[str] = "Dev & Phillips 2019, AISTATS; Dev, Li, Phillips & Srikumar 2020, AAAI"
    limits: ClassVar[str] = (
        "Removes one direction or a few; what is spread over others stays, and can be recovered by clustering or a "
        "classifier. Words that rightly carry the concept lose it too."
    )

    subspace: Subspace | Recipe | str | None = None
    """What to remove: a learned subspace, a recipe, or the name of an estimator; None: the published direction."""
    k: int | None = None
    """Number of directions; None: as the recipe says."""
    centre: bool | None = None
    normalise: bool | None = None
    words: Selector | None = None
    """Which words stay as they are (see `selection`); None: every word is projected."""

    def fit(self, view: Vectors, concept: Concept | str | None = None, *, seed: int | None = None) -> VectorMap:
        """Learn the subspace (unless one was given) and return the projection that removes it."""
        if concept is not None:
            return super().fit(view, concept, seed=seed)
        if not isinstance(self.subspace, Subspace):
            raise UsageError("what should be removed?", hint="fit(vectors, concept), or LinearProjection(subspace)")
        return self._fit(view, None)

    def _fit(self, v: Vectors, concept: Concept | None) -> VectorMap:
        learned = self._learn(v, concept)
        vm = sparing(SoftProjection(learned.basis), self.words, v, concept)
        details = {"concept": learned.params.get("concept", ""), "subspace": learned.to_dict(basis=False)}
        return self._reported(vm, v, learned.coverage, details)

    def _check(self, concept: Concept) -> None:
        if not isinstance(self.subspace, Subspace):
            require_direction(concept, "linear projection", self.subspace)

    def _learn(self, v: Vectors, concept: Concept | None) -> Subspace:
        if isinstance(self.subspace, Subspace) or concept is None:
            return self._given()
        if self.subspace is None and concept.direction is None and len(concept.groups) > 2:
            return self._several(v, concept)
        return learn(v, concept, self.subspace, k=self.k, centre=self.centre, normalise=self.normalise)

    def _given(self) -> Subspace:
        if self.centre is not None or self.normalise is not None:
            raise UsageError("centre and normalise say how to learn a subspace; this one is learned already")
        given = cast(Subspace, self.subspace)
        return given if self.k is None else given.first(self.k)

    def _several(self, v: Vectors, concept: Concept) -> Subspace:
        """Learn the directions in which more than two groups differ: one less than there are groups."""
        if self.centre is False:
            raise UsageError("the differences of more than two groups are always centred", hint="leave centre out")
        learned = set_subspace(v, concept, k=self.k, normalise=bool(self.normalise))
        warnings.warn(
            f"linear: concept {concept.name!r} has {len(concept.groups)} groups and no published direction; removing "
            f"the {learned.k} principal components of the differences between {learned.params['sets']}",
            EvenhandWarning,
            stacklevel=5,
        )
        return learned
