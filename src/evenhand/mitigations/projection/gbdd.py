"""GBDD: remove the direction that all pairs of words of two groups have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from evenhand.arrays import Matrix64, Vector64, unit_rows
from evenhand.errors import DegenerateError
from evenhand.mitigations.labelled_words import rows_of_two_groups
from evenhand.mitigations.maps import Chain, RowNormalise, SoftProjection, VectorMap
from evenhand.mitigations.method import require_two_groups
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import Selector, sparing
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.models.vectors import Vectors

if TYPE_CHECKING:
    from evenhand.words import Concept


@MITIGATIONS.register("gbdd")
@dataclass(frozen=True)
class GBDD(VectorMethod):
    """General bias direction debiasing: remove the first singular direction of all differences between two groups.

    Lauscher et al. (2020): the differences of every word of the first group with every word of the second, at unit
    length, are stacked; their first right singular vector is the bias direction, and every vector, at unit length,
    loses its component along it. The paper adds near neighbours to its word lists first; here the lists are the
    groups of the concept, and a concept of your own may hold more words.

    It is `linear` with another direction: over all pairs of two groups instead of the concept's own pairs. The
    singular vectors are those of a d x d matrix, so nothing is stacked.

    What it does not do: find directions that vary between pairs. Clustering and classifiers still find the concept.

    Args:
        normalise: Whether vectors are scaled to unit length, before the direction is learned and before it is removed.
        words: Which words stay unchanged; None: every word is projected.
    """

    id: ClassVar[str] = "gbdd"
    title: ClassVar[str] = "General bias direction debiasing (GBDD)"
    formula: ClassVar[str] = "x - <x, b> b, |x| = 1, b the first right singular vector of {a - c : a in A, c in C}"
    cites: ClassVar[tuple[str, ...]] = ("lauscher2020",)
    limits: ClassVar[str] = (
        "Two groups only. Removes one direction; bias in others stays and can be recovered. With `normalise` the "
        "lengths of the vectors are lost."
    )

    normalise: bool = True
    words: Selector | None = None

    def _check(self, concept: Concept) -> None:
        require_two_groups(concept, "GBDD")

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        first, second, coverage = rows_of_two_groups(v, concept)
        if self.normalise:
            first, second = unit_rows(first), unit_rows(second)
        direction, share = common_direction(first, second)
        vm: VectorMap = SoftProjection(direction[None])
        if self.normalise:
            vm = Chain((RowNormalise(v.dim), vm))
        details = {
            "concept": concept.name,
            "words": [len(first), len(second)],
            "pairs": len(first) * len(second),
            "share_of_squares": share,
        }
        return self._reported(sparing(vm, self.words, v, concept), v, coverage, details)


def common_direction(first: Matrix64, second: Matrix64) -> tuple[Vector64, float]:
    """Return the first right singular vector of all differences first_i - second_j, and its share of their squares.

    It points from the mean of the second rows to the mean of the first.

    >>> common_direction(np.array([[2.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 0.0]]))[0].tolist()
    [1.0, 0.0]
    """
    sums = first.sum(axis=0), second.sum(axis=0)
    cross = np.outer(*sums)
    gram = len(second) * first.T @ first + len(first) * second.T @ second - cross - cross.T
    values, vectors = np.linalg.eigh(gram)
    total = float(np.trace(gram))
    if not total > 0:
        raise DegenerateError("the words of both groups have the same vectors", hint="use other vectors")
    direction = vectors[:, -1]
    towards = (sums[0] / len(first) - sums[1] / len(second)) @ direction
    return np.asarray(direction if towards >= 0 else -direction, dtype=np.float64), float(values[-1]) / total
