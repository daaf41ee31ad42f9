"""Erasure that uses the labels: oracle LEACE, and quadratic erasure, which also makes covariances equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from evenhand.arrays import Matrix64, Rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.labelled_words import FromLabels
from evenhand.mitigations.maps import VectorMap, WordTable
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import sparing
from evenhand.models.vectors import Vectors
from evenhand.subspaces.subspace import RANK_RTOL

if TYPE_CHECKING:
    from evenhand.words import Concept

STEPS, CLOSE = 200, 1e-12  # of the fixed point that the common covariance is; relative change at which it stops


@dataclass(frozen=True)
class WithLabels(FromLabels):
    """Base of methods that need the label of a vector to change it: labelled words get new vectors, others keep theirs.

    Args:
        control: Whether the labels are shuffled first: what erasure does that knows nothing of the concept.
    """

    control: bool = False

    def _check(self, concept: Concept) -> None:
        super()._check(concept)
        if self.examples == "sentences":
            raise UsageError(
                f"{self.id} changes labelled words only, and a sentence that the model reads has no label",
                hint="use leace, which needs no labels once it is fitted",
            )

    def _erased(self, x: Matrix64, y: Rows) -> Matrix64:
        """Return the vectors of the labelled words after the erasure."""
        raise NotImplementedError

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        labelled = self._labelled(v, concept)
        x, y = labelled.matrix(v), labelled.y
        if self.control:
            y = np.random.default_rng(self.seed).permutation(y)
        erased = self._erased(x, y)
        names = [v.words[int(row)] for row in labelled.rows]
        vm = sparing(WordTable(dict(zip(names, erased, strict=True))), self.words, v, concept)
        details = {
            **labelled.report(x, erased, shuffled=self.control),
            "concept": concept.name,
            "mean_squared_change": float(np.mean(np.sum((erased - x) ** 2, axis=1))),
            "unlabelled_words": "unchanged: this erasure needs the label of a vector",
        }
        return self._reported(vm, v, labelled.coverage, details)


@MITIGATIONS.register("oracle-leace")
@dataclass(frozen=True)
class OracleLEACE(WithLabels):
    """Erase a concept with the least change that any function of vector and label allows.

    Belrose et al. (2023): x - Cov(x, z) Cov(z)^+ (z - mean z), with z the label of x. For classes this subtracts the
    mean of the class and adds the mean of all. Afterwards the classes have equal means, so that no linear classifier
    separates them, and no erasure that ensures this moves the vectors less; LEACE, which does not see the label, moves
    them more.

    It cannot be used without labels: words that have none keep their vectors, and so does every vector inside a
    network. It is a bound for what LEACE can reach, and useful for a data set whose labels are known.

    What it does not do: make the classes equal in anything but their means.
    """

    id: ClassVar[str] = "oracle-leace"
    title: ClassVar[str] = "Oracle LEACE"
    formula: ClassVar[str] = "x - Cov(x, z) Cov(z)^+ (z - mean z), z the label of x"
    cites: ClassVar[tuple[str, ...]] = ("belrose2023",)
    limits: ClassVar[str] = (
        "Needs the label of every vector that it changes: words without one stay as they are. Equal means only: "
        "nonlinear classifiers may still find the concept."
    )

    def _erased(self, x: Matrix64, y: Rows) -> Matrix64:
        return erase_means(x, y)


@MITIGATIONS.register("qleace")
@dataclass(frozen=True)
class QuadraticLEACE(WithLabels):
    """Erase differences of means and covariances between classes, so that no quadratic classifier separates them.

    Every class is moved to the same mean and, by the linear map that moves its vectors least, to the same covariance:
    the one nearest to those of all classes (the Wasserstein barycentre of the class covariances, weighted by class
    size). Afterwards the classes have equal means and covariances (Belrose et al. 2023, released as quadratic LEACE).

    It cannot be used without labels: words that have none keep their vectors.

    What it does not do: make the classes equal in higher moments, which other classifiers use. A class needs more
    words than dimensions, otherwise its covariance has directions without variance, and this raises an error.
    """

    id: ClassVar[str] = "qleace"
    title: ClassVar[str] = "Quadratic LEACE"
    formula: ClassVar[str] = "mean + T_z (x - mean_z), T_z Cov_z T_z = B, B the barycentre of the class covariances"
    cites: ClassVar[tuple[str, ...]] = ("belrose2023",)
    limits: ClassVar[str] = (
        "Needs the label of every vector that it changes, and more words in each class than dimensions. Equal means "
        "and covariances only."
    )

    def _erased(self, x: Matrix64, y: Rows) -> Matrix64:
        return erase_moments(x, y)


def erase_means(x: Matrix64, y: Rows) -> Matrix64:
    """Return rows with the mean of their class replaced by the mean of all.

    >>> erase_means(np.array([[0.0], [2.0], [5.0], [9.0]]), np.array([0, 0, 1, 1])).ravel().tolist()
    [3.0, 5.0, 2.0, 6.0]
    """
    classes = np.unique(y)
    if len(classes) < 2:
        raise DegenerateError("all rows are of one class; erasure needs two")
    result = np.array(x, dtype=np.float64)
    for one in classes:
        result[y == one] += x.mean(axis=0) - x[y == one].mean(axis=0)
    return result


def erase_moments(x: Matrix64, y: Rows) -> Matrix64:
    """Return rows whose classes have the same mean and covariance, moved as little as a linear map of a class allows.

    Raises:
        DegenerateError: If the covariance of a class is singular.
    """
    classes = np.unique(y)
    if len(classes) < 2:
        raise DegenerateError("all rows are of one class; erasure needs two")
    means = [x[y == one].mean(axis=0) for one in classes]
    covariances = []
    for one, mean in zip(classes, means, strict=True):
        rows = x[y == one] - mean
        covariance = rows.T @ rows / len(rows)
        values = np.linalg.eigvalsh(covariance)
        if len(rows) <= x.shape[1] or values[0] <= RANK_RTOL**2 * values[-1]:
            raise DegenerateError(
                f"a class has {len(rows)} words in {x.shape[1]} dimensions, too few for its covariance",
                hint="use more words, fewer classes (neutral=0), or leace",
            )
        covariances.append(covariance)
    weights = np.array([np.mean(y == one) for one in classes])
    centre = barycentre(covariances, weights)
    result = np.empty_like(x, dtype=np.float64)
    for one, mean, covariance in zip(classes, means, covariances, strict=True):
        result[y == one] = x.mean(axis=0) + (x[y == one] - mean) @ transport(covariance, centre)
    return result


def transport(source: Matrix64, target: Matrix64) -> Matrix64:
    """Return the symmetric T with T source T = target, which moves vectors of covariance `source` least."""
    root, inverse = _roots(source)
    return np.asarray(inverse @ _roots(root @ target @ root)[0] @ inverse, dtype=np.float64)


def barycentre(covariances: list[Matrix64], weights: Matrix64) -> Matrix64:
    """Return the covariance whose mean squared Wasserstein distance from others is least (Alvarez-Esteban 2016).

    >>> barycentre([np.array([[1.0]]), np.array([[9.0]])], np.array([0.5, 0.5])).round(6).tolist()  # ((1 + 3) / 2)^2
    [[4.0]]
    """
    centre = np.tensordot(weights, np.stack(covariances), axes=1)
    for _ in range(STEPS):
        root, inverse = _roots(centre)
        inner = sum(weight * _roots(root @ one @ root)[0] for weight, one in zip(weights, covariances, strict=True))
        after = np.asarray(inverse @ inner @ inner @ inverse, dtype=np.float64)
        after = (after + after.T) / 2
        moved = float(np.abs(after - centre).max())
        centre = after
        if moved <= CLOSE * float(np.abs(centre).max()):
            break
    return np.asarray(centre, dtype=np.float64)


def _roots(matrix: Matrix64) -> tuple[Matrix64, Matrix64]:
    """Return the symmetric square root of a positive matrix, and its inverse."""
    values, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    roots = np.sqrt(np.maximum(values, np.finfo(float).tiny))
    return (axes * roots) @ axes.T, (axes / roots) @ axes.T
