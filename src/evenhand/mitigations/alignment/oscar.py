"""OSCaR: turn the plane of two concepts until their directions are orthogonal, without removing anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np

from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps import PlaneRotation, VectorMap
from evenhand.mitigations.method import Mitigation
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.requirements import require_single_direction
from evenhand.mitigations.selection import Selector, sparing
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace, learn
from evenhand.subspaces import words as word_subspace

if TYPE_CHECKING:
    from evenhand.words import Concept, Recipe, WordSet

Variant = Literal["paper", "released"]
OCCUPATIONS = "bolukbasi2016-professions"


@MITIGATIONS.register("oscar")
@dataclass(frozen=True)
class OSCaR(Mitigation):
    """A graded rotation of the plane of two directions: v1 stays, v2 becomes orthogonal to it, lengths are kept.

    Dev, Li, Phillips & Srikumar 2021. v1 is the concept's direction (its first, where there are several), v2 that of a
    second concept which should have nothing to do with it: by default occupations, the first principal component of
    320 of them, centred. Uncentred, that component is nearly the mean of the words, almost orthogonal to gender before
    anything is done, and the map almost the identity: `angle_before` in the report says how far they were apart.

    `variant="released"`: with the two angles exchanged as in all public codes, which published numbers come from (60
    degrees become 108). Their second slip, a basis changed twice, is not reproduced.

    What it does not do: remove anything. Only the plane of v1 and v2 changes, and only the two directions themselves
    become orthogonal: words that lean on others stay as they are.
    """

    id: ClassVar[str] = "oscar"
    title: ClassVar[str] = "Orthogonal subspace correction and rectification"
    citation: ClassVar[str] = "Dev, Li, Phillips & Srikumar 2021, EMNLP"
    limits: ClassVar[str] = (
        "Unties the concept from one other direction only, in one plane; what lies outside it stays. The result "
        "depends on how the second direction is learned."
    )

    subspace: Subspace | Recipe | str | None = None
    """The concept's direction; None: the published one."""
    second: Subspace | WordSet | Iterable[str] | str | None = None
    """What to make orthogonal to it: a subspace, words, or the id of a word set; None: occupations."""
    component: int = 1
    """Which principal component of the second concept (the released code takes the second)."""
    centre: bool = True
    """Whether the words of the second concept are centred before their components are found."""
    words: Selector | None = None
    """Which words stay as they are (see `selection`); None: every word is mapped."""
    variant: Variant = "paper"

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        """Learn the two directions and return the rotation of their plane."""
        first = self.subspace if isinstance(self.subspace, Subspace) else learn(v, concept, self.subspace)
        second = self._second(v)
        if self.component > second.k or self.component < 1:
            raise UsageError(f"component {self.component} asked for, the second concept has {second.k}")
        correct = PlaneRotation.between(first.basis[0], second.basis[self.component - 1])
        vm = _angles_exchanged(correct) if self.variant == "released" else correct
        turned = vm(np.stack([first.basis[0], second.basis[self.component - 1]]))
        details = {
            "concept": concept.name,
            "subspace": first.to_dict(basis=False),
            "second": second.to_dict(basis=False),
            "angle_before": float(np.degrees(correct.angle)),
            "angle_after": float(np.degrees(np.arccos(np.clip(turned[0] @ turned[1], -1, 1)))),
        }
        return self._reported(sparing(vm, self.words, v, concept), v, first.coverage + second.coverage, details)

    def _check(self, concept: Concept) -> None:
        if self.variant not in get_args(Variant):
            raise UsageError(f"unknown variant {self.variant!r}", hint="use paper or released")
        if not isinstance(self.subspace, Subspace):
            require_single_direction(concept, "OSCaR", self.subspace)

    def _second(self, v: Vectors) -> Subspace:
        if isinstance(self.second, Subspace):
            return self.second
        from evenhand.words import wordset

        given = OCCUPATIONS if self.second is None else self.second
        words = wordset(given) if isinstance(given, str) else given
        return word_subspace(v, words, k=max(self.component, 1), centre=self.centre)


def _angles_exchanged(correct: PlaneRotation) -> PlaneRotation:
    """The same plane with pi/2 - t' where t' belongs; v2 is turned to the acute side, as the exchange needs it."""
    acute = correct.angle <= np.pi / 2
    angle, e = (correct.angle, correct.e) if acute else (np.pi - correct.angle, -correct.e)
    try:
        return PlaneRotation(correct.v1, e, np.pi / 2 - angle)
    except DegenerateError as error:
        raise DegenerateError(
            "the two directions are orthogonal already, which the released formula divides by",
            hint="variant='paper' leaves them as they are",
        ) from error
