"""R-LACE: a game between a linear classifier and a projection of given rank that hides the classes from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.erasure.linear_svm import train
from evenhand.mitigations.labelled_words import FromLabels, Labelled
from evenhand.mitigations.maps import SoftProjection, VectorMap
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import sparing
from evenhand.models.vectors import Vectors
from evenhand.subspaces.subspace import oriented

if TYPE_CHECKING:
    from evenhand.words import Concept

HALVINGS = 60  # of an interval about 2 long: down to the last bit of double precision


class _Best(NamedTuple):
    """The directions after which a fresh classifier did worst, and how each look at it went."""

    basis: Matrix64
    accuracy: float
    accuracies: list[float]
    steps: int
    stopped: str


@MITIGATIONS.register("rlace")
@dataclass(frozen=True)
class RLACE(FromLabels):
    """x (I - P), P the orthogonal projection of rank r that is worst for the best linear classifier on x (I - P).

    Ravfogel et al. 2022: min over classifiers, max over P of the cross-entropy, with P relaxed to the Fantope
    {0 <= P <= I, trace P = r}, by turns: a gradient step of the classifier, a gradient step of P and its projection
    back (eigenvalues shifted and clipped). Every so often a fresh classifier is trained after the r strongest
    eigenvectors are removed; the P that makes it worst on held-out words is kept.

    The steps here use all words at once, not batches of 128, on vectors centred and scaled to length 1 on average:
    some fifty steps instead of fifty thousand, and nothing random in them. With r one less than the number of classes
    the value of the game is known: P removes the differences of the class means, as `LEACE(orth=True)` does at once
    (Belrose et al. 2023). The game is of use for a smaller rank.

    What it does not do: classifiers that are not linear, and clusters, still find the concept.
    """

    id: ClassVar[str] = "rlace"
    title: ClassVar[str] = "Relaxed linear adversarial concept erasure (R-LACE)"
    citation: ClassVar[str] = "Ravfogel, Twiton, Goldberg & Cotterell 2022, ICML"
    limits: ClassVar[str] = (
        "Hides the classes from linear classifiers only, and on words like the labelled ones; a rank below the number "
        "of classes less one cannot hide them all."
    )

    neutral: int = 0
    """The published experiment tells two genders apart, without neutral words."""
    rank: int | None = None
    """Dimensions to remove; None: one less than the number of classes."""
    steps: int = 500
    rate: float = 1.0
    """Step of the classifier."""
    projection_rate: float = 10.0
    """Step of the projection."""
    decay: float = 1e-4
    every: int = 25
    """Steps between two looks at a fresh classifier."""
    epsilon: float = 0.002
    """Stop once the fresh classifier is within this of the largest class's share."""

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        """Choose the labelled words, play the game, and return the projection."""
        labelled = self._labelled(v, concept)
        rank = len(labelled.classes) - 1 if self.rank is None else self.rank
        if not 1 <= rank <= v.dim:
            raise UsageError(f"rank={rank} makes no sense in {v.dim} dimensions", hint="1 <= rank <= dimensions")
        x = labelled.matrix(v)
        best = self._play(x, labelled, rank)
        vm = SoftProjection(best.basis)
        played = {"accuracies": best.accuracies, "steps_done": best.steps, "stopped": best.stopped}
        details = {**labelled.report(x, vm), **played, "concept": concept.name}
        return self._reported(sparing(vm, self.words, v, concept), v, labelled.coverage, details)

    def _check(self, concept: Concept) -> None:
        super()._check(concept)
        if min(self.steps, self.every, self.rate, self.projection_rate) <= 0:
            raise UsageError("steps, every, rate and projection_rate must be positive")

    def _play(self, x: Matrix64, labelled: Labelled, rank: int) -> _Best:
        fit = labelled.parts[0]
        game = _Game(x[fit], labelled.y[fit], rank)
        best = _Best(np.empty((0, x.shape[1])), np.inf, [], 0, "all steps done")
        for step in range(1, self.steps + 1):
            game.classifier_step(self.rate, self.decay)
            game.projection_step(self.projection_rate)
            if step % self.every and step != self.steps:
                continue
            accuracy = _fresh(x, labelled, game.basis)
            best = best._replace(accuracies=[*best.accuracies, accuracy], steps=step)
            if accuracy < best.accuracy:
                best = best._replace(basis=game.basis, accuracy=accuracy)
            if accuracy <= labelled.majority + self.epsilon:
                return best._replace(stopped="the classifier is no better than the largest class")
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

    def _slope(self) -> tuple[Matrix64, Vector64]:
        """Gradient of the mean cross-entropy by the effective weights (I - P) W, and by the intercept."""
        scores = self.x @ (self.weights - self.p @ self.weights) + self.shift
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        wrong = (odds / odds.sum(axis=1, keepdims=True) - self.y) / len(self.y)
        return self.x.T @ wrong, wrong.sum(axis=0)

    def classifier_step(self, rate: float, decay: float) -> None:
        """Downhill."""
        slope, shift = self._slope()
        self.weights = self.weights - rate * (slope - self.p @ slope + decay * self.weights)
        self.shift = self.shift - rate * shift

    def projection_step(self, rate: float) -> None:
        """Uphill, and back into the Fantope."""
        uphill = -self._slope()[0] @ self.weights.T
        self.p, strongest = fantope(self.p + rate * (uphill + uphill.T) / 2, self.rank)
        self.basis = oriented(strongest)


def fantope(matrix: Matrix64, rank: int) -> tuple[Matrix64, Matrix64]:
    """The nearest matrix with eigenvalues in [0, 1] that sum to the rank, and its strongest eigenvectors as rows.

    The eigenvectors stay; the eigenvalues are shifted by the one number that makes them, clipped, sum to the rank
    (Vu et al. 2013), found by bisection.
    """
    values, axes = np.linalg.eigh(matrix)
    low, high = float(values[0]) - 1, float(values[-1])
    for _ in range(HALVINGS):
        shift = (low + high) / 2
        low, high = (shift, high) if np.clip(values - shift, 0, 1).sum() > rank else (low, shift)
    clipped = np.clip(values - (low + high) / 2, 0, 1)
    return (axes * clipped) @ axes.T, axes[:, ::-1][:, :rank].T


def _fresh(x: Matrix64, labelled: Labelled, basis: Matrix64) -> float:
    """Held-out accuracy of a new classifier after the directions are removed."""
    fit, dev, _ = labelled.parts
    left = x - (x @ basis.T) @ basis
    return train(left[fit], labelled.y[fit], intercept=True).accuracy(left[dev], labelled.y[dev])
