"""Iterative nullspace projection: train a linear classifier, remove what it looks at, and train the next one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from evenhand.arrays import Matrix64
from evenhand.errors import UsageError
from evenhand.mitigations.erasure.linear_svm import LinearClassifier, train
from evenhand.mitigations.labelled_words import FromLabels, Labelled
from evenhand.mitigations.maps import SoftProjection, VectorMap
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import sparing
from evenhand.models.vectors import Vectors
from evenhand.subspaces.principal import RANK_RTOL

if TYPE_CHECKING:
    from evenhand.words import Concept

ZERO = 1e-6  # of the margin: a classifier whose decision values all stay below this decides nothing


@dataclass
class _Removed:
    """What has been taken away so far, and the coordinates that are left."""

    left: Matrix64
    """(d, d - r), orthonormal columns: the intersection of the null spaces of all classifiers so far."""
    basis: list[Matrix64] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    stopped: str = "all iterations done"

    @property
    def ranks(self) -> list[int]:
        return [len(rows) for rows in self.basis]


@MITIGATIONS.register("inlp")
@dataclass(frozen=True)
class INLP(FromLabels):
    """x P, P the projection onto the intersection of the null spaces of all classifiers trained one after the other.

    Ravfogel et al. 2020: linear support vector machines without intercept (squared hinge, C = 1, one against the
    rest), 35 of them, on the 7,500 words most biased to each side of he - she and as many neutral ones. Each
    classifier removes the span of its weight vectors, up to as many dimensions as there are classes (one for two): 35
    rounds of three classes take about 100 dimensions, not 35. The next one is trained inside what is left, so that
    the null spaces intersect by construction. It ends early when nothing is left that a classifier could use.

    `weighting="information"` shrinks the directions of a round by a = 2 acc - 1 instead of removing them (Dawkins
    2021, section 5, who prints 1 - 2 acc), acc its accuracy on held-out words; for k classes (k acc - 1) / (k - 1).

    What it does not do: what a classifier that is not linear can read stays. The dimensions removed hold more than
    the concept; without an intercept, the mean of the vectors can be among it (`mean_removed` in the report).
    """

    id: ClassVar[str] = "inlp"
    title: ClassVar[str] = "Iterative nullspace projection (INLP)"
    citation: ClassVar[str] = "Ravfogel, Elazar, Gonen, Twiton & Goldberg 2020, ACL"
    limits: ClassVar[str] = (
        "Removes many dimensions, with more in them than the concept; classifiers that are not linear may still find "
        "it. Needs many labelled words: with fewer of them than dimensions any labels can be told apart."
    )

    iterations: int = 35
    margin: float | None = None
    """Stop once a round's held-out accuracy is within this of the largest class's share; None: never for that."""
    weighting: Literal["none", "information"] = "none"
    C: float = 1.0

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        """Choose the labelled words, run the rounds, and return the projection."""
        labelled = self._labelled(v, concept)
        x = labelled.matrix(v)
        removed = self._rounds(x, labelled)
        basis = np.vstack([np.empty((0, v.dim)), *removed.basis])
        vm = SoftProjection(basis, np.repeat(self._weights(removed, labelled), removed.ranks))
        details = {**_account(removed, x, basis), **labelled.report(x, vm), "concept": concept.name}
        return self._reported(sparing(vm, self.words, v, concept), v, labelled.coverage, details)

    def _check(self, concept: Concept) -> None:
        super()._check(concept)
        if self.iterations < 1 or self.C <= 0:
            raise UsageError(f"iterations and C must be positive, got {self.iterations} and {self.C}")
        if self.weighting not in ("none", "information"):
            raise UsageError(f"unknown weighting {self.weighting!r}", hint="use none or information")

    def _rounds(self, x: Matrix64, labelled: Labelled) -> _Removed:
        fit, dev, _ = labelled.parts
        y, removed = labelled.y, _Removed(np.eye(x.shape[1]))
        for _ in range(self.iterations):
            if not removed.left.shape[1]:
                removed.stopped = "no dimension is left"
                break
            inside, held_out = x[fit] @ removed.left, x[dev] @ removed.left
            learned = train(inside, y[fit], C=self.C)
            accuracy = learned.accuracy(held_out, y[dev])
            if np.abs(learned.scores(inside)).max() < ZERO:
                removed.stopped = "the classifier is zero: nothing linear is left"
                break
            if self.margin is not None and accuracy <= labelled.majority + self.margin:
                removed.stopped = "the classifier is no better than the largest class"
                break
            removed.accuracies.append(accuracy)
            _remove(removed, learned)
        return removed

    def _weights(self, removed: _Removed, labelled: Labelled) -> Matrix64:
        if self.weighting == "none":
            return np.ones(len(removed.basis))
        k = len(labelled.classes)
        return np.clip((k * np.array(removed.accuracies) - 1) / (k - 1), 0.0, 1.0)


def _remove(removed: _Removed, learned: LinearClassifier) -> None:
    """Split what is left into the row space of the classifier and the rest."""
    _, strength, right = np.linalg.svd(learned.directions, full_matrices=True)
    rank = int(np.count_nonzero(strength > RANK_RTOL * strength[0]))
    removed.basis.append((removed.left @ right[:rank].T).T)
    # One step of QR keeps the columns orthonormal to the last digit after many rounds.
    removed.left = np.linalg.qr(removed.left @ right[rank:].T)[0]


def _account(removed: _Removed, x: Matrix64, basis: Matrix64) -> dict[str, Any]:
    mean = x.mean(axis=0)
    length = float(np.linalg.norm(mean))
    return {
        "accuracies": removed.accuracies,
        "ranks": removed.ranks,
        "iterations_done": len(removed.basis),
        "stopped": removed.stopped,
        "mean_removed": float(np.linalg.norm(basis @ mean)) / length if length else 0.0,
    }
