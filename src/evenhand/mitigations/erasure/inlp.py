"""Iterative nullspace projection: train a linear classifier, remove the directions it uses, and repeat."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import EvenhandWarning, UsageError
from evenhand.mitigations.labelled_words import FromLabels, Labelled, LinearClassifier, train
from evenhand.mitigations.maps import SoftProjection, VectorMap
from evenhand.mitigations.method import Variant
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import sparing
from evenhand.models.vectors import Vectors
from evenhand.stats.bootstrap import wilson
from evenhand.subspaces.subspace import RANK_RTOL

if TYPE_CHECKING:
    from evenhand.words import Concept

ZERO = 1e-6  # of the margin: a classifier whose decision values all stay below this decides nothing
COMPLETED = "completed all iterations"
NO_DIMENSION = "no dimension is left"
ZERO_CLASSIFIER = "the classifier is zero: nothing linear is left"
CHANCE = "the classifier is at chance"
RANK_LIMIT = "reached max_rank"
VARIANCE_LIMIT = "reached min_variance"


@dataclass
class _Removal:
    """The directions removed so far, and the coordinates that are left."""

    left: Matrix64
    """(d, d - r), orthonormal columns: the intersection of the null spaces of all classifiers so far."""
    basis: list[Matrix64] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    stopped: str = COMPLETED
    last_accuracy: float | None = None
    """Held-out accuracy of the classifier at which a limit stopped the iterations."""

    @property
    def ranks(self) -> list[int]:
        return [len(rows) for rows in self.basis]


@MITIGATIONS.register("inlp")
@dataclass(frozen=True)
class INLP(FromLabels):
    """Project onto the intersection of the null spaces of linear classifiers that are trained one after the other.

    Ravfogel et al. (2020): linear support vector machines without intercept (squared hinge loss, C = 1, one against
    the rest), at most 35 of them, on the 7,500 words most biased to each side of he - she and as many neutral ones.
    Each classifier removes the span of its weight vectors, up to as many dimensions as there are classes (one for
    two). The next classifier is trained inside what is left, so the null spaces intersect by construction.

    The iterations end when no linear classifier is above chance: the share of the largest class lies inside the 95 %
    interval of the held-out accuracy, or above it, for the classifier of the iteration and for one with intercept.
    Further iterations would remove directions at random. They also end before more than `max_rank` of the dimensions
    or more than 1 - `min_variance` of the variance is removed, with a warning, since a classifier then still finds
    the concept. The first iteration is never refused. `variant="released"` follows the released code: all iterations,
    until nothing is left.

    `weighting="information"` shrinks the directions of an iteration by a = 2 acc - 1 instead of removing them (Dawkins
    2021, section 5, who prints 1 - 2 acc), acc its accuracy on held-out words; for k classes (k acc - 1) / (k - 1).

    What it does not do: remove what nonlinear classifiers use. The dimensions removed hold more than the concept;
    without an intercept, the mean of the vectors can be among them (`mean_removed` in the report).

    Args:
        iterations: Number of classifiers, at most.
        margin: Chance is a held-out accuracy up to this above the largest class's share; None: its 95 % interval.
        max_rank: Share of the dimensions that may be removed; the published experiment removes about a third.
        min_variance: Share of the labelled words' variance that must stay; below one half the map removes more of the
            vectors than it keeps.
        weighting: `none` removes directions, `information` shrinks them by the classifier's accuracy.
        C: Inverse regularisation of the classifiers.
        variant: `paper` stops at chance and at the limits, `released` completes all iterations.
    """

    id: ClassVar[str] = "inlp"
    title: ClassVar[str] = "Iterative nullspace projection (INLP)"
    formula: ClassVar[str] = "x P, P the projection onto the null space of w_1, ..., w_n, w_i trained on x P_{i-1}"
    cites: ClassVar[tuple[str, ...]] = ("ravfogel2020",)
    limits: ClassVar[str] = (
        "Removes many dimensions, which hold more than the concept; nonlinear classifiers may still find it. Needs "
        "many labelled words: with fewer words than dimensions any labels can be separated."
    )
    definition: ClassVar[int] = 2

    iterations: int = 35
    margin: float | None = None
    weighting: Literal["none", "information"] = "none"
    C: float = 1.0
    max_rank: float = 0.5
    min_variance: float = 0.5
    variant: Variant = "paper"

    def _check(self, concept: Concept) -> None:
        super()._check(concept)
        if self.iterations < 1 or self.C <= 0:
            raise UsageError(f"iterations and C must be positive, got {self.iterations} and {self.C}")
        for name in ("max_rank", "min_variance"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is a share between 0 and 1, got {getattr(self, name)}")

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        labelled = self._labelled(v, concept)
        x = labelled.matrix(v)
        removal = self._iterate(x, labelled)
        basis = np.vstack([np.empty((0, v.dim)), *removal.basis])
        vm = SoftProjection(basis, np.repeat(self._weights(removal, labelled), removal.ranks))
        details = {**_summary(removal, x, basis), **labelled.report(x, vm(x)), "concept": concept.name}
        return self._reported(sparing(vm, self.words, v, concept), v, labelled.coverage, details)

    def _iterate(self, x: Matrix64, labelled: Labelled) -> _Removal:
        fit, dev, _ = labelled.parts
        y, removal = labelled.y, _Removal(np.eye(x.shape[1]))
        covariance = np.cov(x, rowvar=False, bias=True).reshape(x.shape[1], -1)
        for _ in range(self.iterations):
            if not removal.left.shape[1]:
                removal.stopped = NO_DIMENSION
                break
            inside, held_out = x[fit] @ removal.left, x[dev] @ removal.left
            classifier = train(inside, y[fit], C=self.C)
            accuracy = classifier.accuracy(held_out, y[dev])
            if np.abs(classifier.scores(inside)).max() < ZERO:
                removal.stopped = ZERO_CLASSIFIER
                break
            if self._is_chance(accuracy, y[dev]) and self._with_intercept_is_chance(inside, held_out, labelled):
                removal.stopped = CHANCE
                break
            directions, left = _split(removal.left, classifier)
            limit = self._limit(removal, directions, covariance)
            if limit:
                removal.stopped, removal.last_accuracy = limit, accuracy
                _warn_limit(removal, self, _largest_share(y[dev]))
                break
            removal.basis.append(directions)
            removal.accuracies.append(accuracy)
            removal.left = left
        return removal

    def _is_chance(self, accuracy: float, y: Rows) -> bool:
        largest = _largest_share(y)
        if self.margin is not None:
            return accuracy <= largest + self.margin
        return self.variant == "paper" and float(wilson(accuracy, len(y))[0]) <= largest

    def _with_intercept_is_chance(self, inside: Matrix64, held_out: Matrix64, labelled: Labelled) -> bool:
        """Return whether a classifier with intercept is at chance too: with unequal classes it can do better."""
        if self.variant == "released" or self.margin is not None:
            return True
        fit, dev, _ = labelled.parts
        classifier = train(inside, labelled.y[fit], C=self.C, intercept=True)
        return self._is_chance(classifier.accuracy(held_out, labelled.y[dev]), labelled.y[dev])

    def _limit(self, removal: _Removal, directions: Matrix64, covariance: Matrix64) -> str:
        """Return the limit that removing these directions would exceed, or an empty string."""
        if self.variant == "released" or not removal.basis:
            return ""
        basis = np.vstack([*removal.basis, directions])
        total = float(np.trace(covariance))
        removed = float(np.einsum("ij,jk,ik->", basis, covariance, basis))
        if len(basis) > self.max_rank * len(covariance):
            return RANK_LIMIT
        return VARIANCE_LIMIT if total - removed < self.min_variance * total else ""

    def _weights(self, removal: _Removal, labelled: Labelled) -> Vector64:
        if self.weighting == "none":
            return np.ones(len(removal.basis))
        k = len(labelled.classes)
        return np.clip((k * np.array(removal.accuracies) - 1) / (k - 1), 0.0, 1.0)


def _largest_share(y: Rows) -> float:
    """Return the share of the largest class: the accuracy of the best constant prediction."""
    counts = np.bincount(y)
    return float(counts.max() / counts.sum())


def _split(left: Matrix64, classifier: LinearClassifier) -> tuple[Matrix64, Matrix64]:
    """Split what is left into the row space of the classifier (rows) and its null space (columns)."""
    _, strength, right = np.linalg.svd(classifier.directions, full_matrices=True)
    rank = int(np.count_nonzero(strength > RANK_RTOL * strength[0]))
    # A QR step keeps the columns orthonormal to machine precision over many iterations.
    return (left @ right[:rank].T).T, np.linalg.qr(left @ right[rank:].T)[0]


def _warn_limit(removal: _Removal, method: INLP, largest: float) -> None:
    limit = "max_rank" if removal.stopped == RANK_LIMIT else "min_variance"
    warnings.warn(
        f"inlp stopped after {len(removal.basis)} iterations at {limit}={getattr(method, limit):g}: a linear "
        f"classifier still has an accuracy of {removal.last_accuracy:.3f} on held-out words (chance: {largest:.3f})",
        EvenhandWarning,
        stacklevel=6,
    )


def _summary(removal: _Removal, x: Matrix64, basis: Matrix64) -> dict[str, object]:
    mean = x.mean(axis=0)
    length = float(np.linalg.norm(mean))
    return {
        "accuracies": removal.accuracies,
        "ranks": removal.ranks,
        "iterations_done": len(removal.basis),
        "stopped": removal.stopped,
        "mean_removed": float(np.linalg.norm(basis @ mean)) / length if length else 0.0,
    }
