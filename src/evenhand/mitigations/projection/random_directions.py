"""Random projection: the control for every projection of the same rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from evenhand.errors import UsageError
from evenhand.mitigations.maps import SoftProjection, VectorMap
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.models.vectors import Vectors
from evenhand.subspaces import gaussian, random_words

if TYPE_CHECKING:
    from evenhand.words import Concept


@MITIGATIONS.register("random")
@dataclass(frozen=True)
class RandomProjection(VectorMethod):
    """Remove random directions, which have nothing to do with the concept: a control, not a remedy.

    A method that removes k directions changes a model whatever they mean. What remains of its effect beside this
    control with the same k is due to the concept. Dev et al. (2020) average over eight random directions: repeat it
    with several seeds.

    What it does not do: remove the concept.

    Args:
        k: Number of directions; set it to the rank that the method under test removes.
        kind: `words`: principal components of random words, which follow the distribution of the vectors; `gaussian`:
            uniform on the sphere, which in a space with a few strong directions removes almost nothing.
        sample: Random words for `words`; at least 20, and more for larger k.
        seed: Seed of the directions.
    """

    id: ClassVar[str] = "random"
    title: ClassVar[str] = "Random projection (control)"
    formula: ClassVar[str] = "x - sum_i <x, r_i> r_i, r_i orthonormal random directions"
    cites: ClassVar[tuple[str, ...]] = ("dev2019",)
    limits: ClassVar[str] = "Removes nothing of the concept on purpose: it shows what removing any k directions does."

    k: int = 1
    kind: Literal["words", "gaussian"] = "words"
    sample: int | None = None
    seed: int = 0

    def _check(self, concept: Concept) -> None:
        if self.k < 1:
            raise UsageError(f"k must be at least 1, got {self.k}")
        if self.kind not in ("words", "gaussian"):
            raise UsageError(f"unknown kind {self.kind!r}", hint="use words or gaussian")

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        if self.kind == "gaussian":
            subspace = gaussian(v.dim, self.seed, k=self.k)
        else:
            subspace = random_words(v, self.seed, n=min(len(v), self.sample or max(20, 2 * self.k)), k=self.k)
        details = {"concept": concept.name, "subspace": subspace.to_dict(basis=False)}
        return self._reported(SoftProjection(subspace.basis), v, subspace.coverage, details)
