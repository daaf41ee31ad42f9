"""OSCaR: rotate the plane of two concepts until their directions are orthogonal, without removing anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps import PlaneRotation, VectorMap
from evenhand.mitigations.method import Variant, require_single_direction
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import Selector, sparing
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace, learn
from evenhand.subspaces import words as word_subspace

if TYPE_CHECKING:
    from evenhand.words import Concept, Recipe, WordSet

OCCUPATIONS = "bolukbasi2016-professions"


@MITIGATIONS.register("oscar")
@dataclass(frozen=True)
class OSCaR(VectorMethod):
    """Rotate the plane of two directions gradually: v1 stays, v2 becomes orthogonal to it, lengths are kept.

    Dev et al. (2021). v1 is the concept's direction (the first of several), v2 that of a second concept that should
    be independent of it: by default occupations, the first principal component of 320 of them, centred. Uncentred,
    that component is nearly the mean of the words, which is almost orthogonal to gender already, and the map is
    almost the identity; `angle_before` in the report is the original angle.

    `variant="released"` exchanges the two angles as all public codes do, which the published numbers come from (60
    degrees become 108). Their second error, a basis changed twice, is not reproduced.

    What it does not do: remove anything. Only the plane of v1 and v2 changes, and only these two directions become
    orthogonal; bias along other directions stays.

    Args:
        subspace: The concept's direction; None: the published one.
        second: What to make orthogonal to it: a subspace, words or the id of a word set; None: occupations.
        component: Which principal component of the second concept (the released code uses the second).
        centre: Whether the words of the second concept are centred before their components are computed.
        words: Which words stay unchanged; None: every word is mapped.
        variant: `paper`, or `released` for the angles of the public codes.
    """

    id: ClassVar[str] = "oscar"
    title: ClassVar[str] = "Orthogonal subspace correction and rectification (OSCaR)"
    formula: ClassVar[str] = (
        "a rotation of the plane of v1 and v2 by an angle that depends on the vector: v1 -> v1, v2 -> v1-perp"
    )
    cites: ClassVar[tuple[str, ...]] = ("dev2021oscar",)
    limits: ClassVar[str] = (
        "Separates the concept from one other direction only, in one plane; bias outside that plane stays. The result "
        "depends on how the second direction is learned."
    )

    subspace: Subspace | Recipe | str | None = None
    second: Subspace | WordSet | Iterable[str] | str | None = None
    component: int = 1
    centre: bool = True
    words: Selector | None = None
    variant: Variant = "paper"

    def _check(self, concept: Concept) -> None:
        if not isinstance(self.subspace, Subspace):
            require_single_direction(concept, "OSCaR", self.subspace)

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        first = self.subspace if isinstance(self.subspace, Subspace) else learn(v, concept, self.subspace)
        second = self._second(v)
        if self.component > second.k or self.component < 1:
            raise UsageError(f"component must be between 1 and {second.k}, got {self.component}")
        correct = PlaneRotation.between(first.basis[0], second.basis[self.component - 1])
        vm = _angles_exchanged(correct) if self.variant == "released" else correct
        rotated = vm(np.stack([first.basis[0], second.basis[self.component - 1]]))
        details = {
            "concept": concept.name,
            "subspace": first.to_dict(basis=False),
            "second": second.to_dict(basis=False),
            "angle_before": float(np.degrees(correct.angle)),
            "angle_after": float(np.degrees(np.arccos(np.clip(rotated[0] @ rotated[1], -1, 1)))),
        }
        return self._reported(sparing(vm, self.words, v, concept), v, first.coverage + second.coverage, details)

    def _second(self, v: Vectors) -> Subspace:
        if isinstance(self.second, Subspace):
            return self.second
        from evenhand.words import wordset

        words = OCCUPATIONS if self.second is None else self.second
        words = wordset(words) if isinstance(words, str) else words
        return word_subspace(v, words, k=max(self.component, 1), centre=self.centre)


def _angles_exchanged(correct: PlaneRotation) -> PlaneRotation:
    """Return the rotation with pi/2 - t' in place of t'; v2 is flipped to the acute side, as the exchange requires."""
    acute = correct.angle <= np.pi / 2
    angle, e = (correct.angle, correct.e) if acute else (np.pi - correct.angle, -correct.e)
    try:
        return PlaneRotation(correct.v1, e, np.pi / 2 - angle)
    except DegenerateError as error:
        raise DegenerateError(
            "the two directions are already orthogonal, and the released formula divides by zero",
            hint="variant='paper' leaves them unchanged",
        ) from error
