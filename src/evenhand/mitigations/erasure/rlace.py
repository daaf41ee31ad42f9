"""R-LACE: a minimax game between a linear classifier and a projection of given rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.labelled_words import FromLabels, Labelled, train
from evenhand.mitigations.maps import SoftProjection, VectorMap
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import sparing
from evenhand.models.vectors import Vectors
from evenhand.subspaces.subspace import oriented

if TYPE_CHECKING:
    from evenhand.words import Concept

BISECTIONS = 60  # of an interval of length about 2: down to the last bit of double precision


class _Best(NamedTuple):
    """The directions after which a new classifier did worst, and the accuracy of each evaluation."""

    basis: Matrix64
    accuracy: float
    accuracies: list[float]
    steps: int
    stopped: str


@MITIGATIONS.register("rlace")
@dataclass(frozen=True)
class RLACE(FromLabels):
    """Remove the subspace of rank r without which the best linear classifier does worst.

    Ravfogel et al. (2022): minimise over classifiers and maximise over P the cross-entropy of a classifier on
    x (I - P), with P relaxed to the Fantope {0 <= P <= I, trace P = r}. A gradient step of the classifier alternates
    with a gradient step of P and its projection onto the Fantope (eigenvalues shifted and clipped). At intervals a
    new classifier is trained after the r strongest eigenvectors are removed; the P that is worst for it on held-out
    words is kept.

    The steps use all words at once instead of batches of 128, on vectors that are centred and scaled to mean length
    1: about fifty steps instead of fifty thousand, and none of them random. With r one less than the number of
    classes the solution is known: P removes the differences of the class means, as `LEACE(orth=True)` does in closed
    form (Belrose et al. 2023). The game is useful for a smaller rank.

    What it does not do: hide the concept from nonlinear classifiers or from clustering.

    Args:
        neutral: Neutral words, at most; 0, as in the published experiment, uses the two genders only.
        rank: Number of dimensions to remove; None: one less than the number of classes.
        steps: Steps of the game, at most.
        rate: Learning rate of the classifier.
        projection_rate: Learning rate of the projection.
        decay: Weight decay of the classifier.
        every: Steps between two evaluations with a new classifier.
        epsilon: Stop when the new classifier is within this of the share of the largest class.
    """

    id: ClassVar[str] = "rlace"
    title: ClassVar[str] = "Relaxed linear adversarial concept erasure (R-LACE)"
    formula: ClassVar[str] = (
        "x (I - P), P = argmax over projections of rank r of min over w of the loss of w on x (I - P)"
    )
    cites: ClassVar[tuple[str, ...]] = ("ravfogel2022",)
    limits: ClassVar[str] = (
        "Hides the classes from linear classifiers only, and on words like the labelled ones; a rank below the number "
        "of classes less one cannot hide all of them."
    )

    neutral: int = 0
    rank: int | None = None
    steps: int = 500
    rate: float = 1.0
    projection_rate: float = 10.0
    decay: float = 1e-4
    every: int = 25
    epsilon: float = 0.002

    def _check(self, concept: Concept) -> None:
        super()._check(concept)
        if min(self.steps, self.every, self.rate, self.projection_rate) <= 0:
            raise UsageError("steps, every, rate and projection_rate must be positive")

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        labelled = self._labelled(v, concept)
        rank = len(labelled.classes) - 1 if self.rank is None else self.rank
        if not 1 <= rank <= v.dim:
            raise UsageError(f"rank must be between 1 and {v.dim}, the number of dimensions; got {rank}")
        x = labelled.matrix(v)
        best = self._play(x, labelled, rank)
        vm = SoftProjection(best.basis)
        game = {"accuracies": best.accuracies, "steps_done": best.steps, "stopped": best.stopped}
        details = {**labelled.report(x, vm(x)), **game, "concept": concept.name}
        return self._reported(sparing(vm, self.words, v, concept), v, labelled.coverage, details)

    def _play(self, x: Matrix64, labelled: Labelled, rank: int) -> _Best:
        fit = labelled.parts[0]
        game = _Game(x[fit], labelled.y[fit], rank)
        best = _Best(np.empty((0, x.shape[1])), np.inf, [], 0, "completed all steps")
        for step in range(1, self.steps + 1):
            game.classifier_step(self.rate, self.decay)
            game.projection_step(self.projection_rate)
            if step % self.every and step != self.steps:
                continue
            accuracy = _new_classifier_accuracy(x, labelled, game.basis)
            best = best._replace(accuracies=[*best.accuracies, accuracy], steps=step)
            if accuracy < best.accuracy:
                best = best._replace(basis=game.basis, accuracy=accuracy)
            if accuracy <= labelled.majority + self.epsilon:
                return best._replace(stopped="the classifier is at chance")
        return best


class _Game:
    """The two players: weights of a softmax classifier with intercept, and a matrix in the Fantope."""

    def __init__(self, x: Matrix64, y: Rows, rank: int) -> None:
        centred = x - x.mean(axis=0)
        length = float(np.sqrt((centred**2).sum(axis=1).mean()))
        if length == 0:
            raise DegenerateError("all labelled words have the same vector")
        self.x, self.y = centred / length, np.eye(int(y.max()) + 1)[y]
        self.rank, dim = rank, x.shape[1]
        self.p = np.eye(dim) * rank / dim
        self.basis = np.eye(dim)[:rank]
        self.weights, self.shift = np.zeros((dim, self.y.shape[1])), np.zeros(self.y.shape[1])

    def _gradient(self) -> tuple[Matrix64, Vector64]:
        """Return the gradient of the mean cross-entropy for the effective weights (I - P) W and for the intercept."""
        scores = self.x @ (self.weights - self.p @ self.weights) + self.shift
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        residuals = (exponentials / exponentials.sum(axis=1, keepdims=True) - self.y) / len(self.y)
        return self.x.T @ residuals, residuals.sum(axis=0)

    def classifier_step(self, rate: float, decay: float) -> None:
        """Take a descent step of the classifier."""
        gradient, shift = self._gradient()
        self.weights = self.weights - rate * (gradient - self.p @ gradient + decay * self.weights)
        self.shift = self.shift - rate * shift

    def projection_step(self, rate: float) -> None:
        """Take an ascent step of P and project it onto the Fantope."""
        ascent = -self._gradient()[0] @ self.weights.T
        self.p, strongest = fantope(self.p + rate * (ascent + ascent.T) / 2, self.rank)
        self.basis = oriented(strongest)


def fantope(matrix: Matrix64, rank: int) -> tuple[Matrix64, Matrix64]:
    """Return the nearest matrix with eigenvalues in [0, 1] that sum to the rank, and its strongest eigenvectors.

    The eigenvectors (rows) stay; the eigenvalues are shifted by the number for which they, clipped, sum to the rank
    (Vu et al. 2013), found by bisection.
    """
    values, axes = np.linalg.eigh(matrix)
    low, high = float(values[0]) - 1, float(values[-1])
    for _ in range(BISECTIONS):
        shift = (low + high) / 2
        low, high = (shift, high) if np.clip(values - shift, 0, 1).sum() > rank else (low, shift)
    clipped = np.clip(values - (low + high) / 2, 0, 1)
    return (axes * clipped) @ axes.T, axes[:, ::-1][:, :rank].T


def _new_classifier_accuracy(x: Matrix64, labelled: Labelled, basis: Matrix64) -> float:
    """Return the held-out accuracy of a new classifier after the directions are removed."""
    fit, dev, _ = labelled.parts
    left = x - (x @ basis.T) @ basis
    return train(left[fit], labelled.y[fit], intercept=True).accuracy(left[dev], labelled.y[dev])
