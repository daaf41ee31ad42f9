"""Soft debiasing: the linear map that trades inner products kept against projections on the concept removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from evenhand.arrays import Matrix64, unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps import Affine, Chain, RowNormalise, VectorMap
from evenhand.mitigations.method import Mitigation
from evenhand.mitigations.projection.hard import check_subspace, spared_words, unit_subspace
from evenhand.mitigations.projection.moments import moments
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import Selector
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace

if TYPE_CHECKING:
    from evenhand.words import Concept, Recipe

STEPS = 20_000
TOLERANCE = 1e-12  # of the change in one step, relative to what is changed
RANK_RTOL = 1e-10  # of eigenvalues of a sum of squares of float32 numbers


@MITIGATIONS.register("soft")
@dataclass(frozen=True)
class SoftDebias(Mitigation):
    """min over T of |(TW)'TW - W'W|^2 + penalty |(TN)'TB|^2, then vectors at unit length.

    Bolukbasi et al. 2016 (section 6): W all words, N the neutral ones, B the concept's subspace, as columns at unit
    length. In X = T'T it is a convex problem over positive semidefinite matrices; with C = WW' the first term is
    |C^1/2 (X - I) C^1/2|^2. Solved here from the identity by accelerated projected gradients in the coordinates in
    which the first term is a plain distance, so that the answer is the minimum (a released code runs ten epochs of
    gradient descent from a random T, which leaves a nearly random map). T is the symmetric root of X.

    The published penalty of 0.2 multiplies a sum over words while the first term sums over pairs of words: with a
    vocabulary of tens of thousands almost nothing moves. `share_left` in the report says how much of the neutral words'
    squared projection stays. `per_word=True` takes means instead of sums, so that a penalty means the same for any
    vocabulary.

    What it does not do: remove the direction; and what hard debiasing leaves to neighbours, this leaves as well.
    """

    id: ClassVar[str] = "soft"
    title: ClassVar[str] = "Soft debiasing"
    citation: ClassVar[str] = "Bolukbasi et al. 2016, NeurIPS"
    limits: ClassVar[str] = (
        "With the published penalty it hardly changes a large vocabulary. Lessens the projection of neutral words, "
        "does not remove it. All vectors are scaled to length 1."
    )

    penalty: float = 0.2
    """Weight of the neutral words' projections (lambda)."""
    per_word: bool = False
    """Whether both terms are means (over pairs of words, over neutral words) instead of sums."""
    subspace: Subspace | Recipe | str | None = None
    """B: a learned subspace, a recipe, or the name of an estimator; None: as for hard debiasing."""
    k: int | None = None
    words: Selector | None = None
    """Which words are not neutral (see `selection`); None: the concept's specific ones. All words are mapped."""

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        """Solve the convex problem on d x d moments and return the map, between two normalisations."""
        learned = unit_subspace(v, concept, self.subspace, k=self.k)
        spared = spared_words(v, concept, self.words)
        exempt = unit_rows(v.matrix[[v.index[word] for word in sorted(spared)]]) if spared else np.empty((0, v.dim))
        every = moments(v, normalise=True).products
        neutral = every - exempt.T @ exempt
        if len(v) == len(spared):
            raise UsageError(f"every word of {v.name} rightly carries {concept.name!r}: none is neutral")
        weight = self.penalty * (len(v) ** 2 / (len(v) - len(spared)) if self.per_word else 1.0)
        found = solve(every, neutral, learned.basis, weight)
        details = {
            "concept": concept.name,
            "subspace": learned.to_dict(basis=False),
            "words_neutral": len(v) - len(spared),
            "objective_before": found.before,
            "objective_after": found.after,
            "steps": found.steps,
            "share_left": _projection(found.x, neutral, learned.basis) / _projection(None, neutral, learned.basis),
        }
        vm = Chain([RowNormalise(v.dim), Affine(_root(found.x)), RowNormalise(v.dim)])
        return self._reported(vm, v, learned.coverage, details)

    def _check(self, concept: Concept) -> None:
        if not (np.isfinite(self.penalty) and self.penalty >= 0):
            raise UsageError(f"the penalty is a number of at least 0, got {self.penalty}")
        check_subspace(concept, "soft debiasing", self.subspace)


class Solution(NamedTuple):
    """X, the objective at the identity and at X, and how many steps it took."""

    x: Matrix64
    before: float
    after: float
    steps: int


def solve(every: Matrix64, neutral: Matrix64, basis: Matrix64, weight: float) -> Solution:
    """The positive semidefinite X that minimises tr(C D C D) + weight tr(B X S X B'), D = X - I.

    With Y = C^1/2 X C^1/2 on the span of the words: min |Y - C|^2 + weight tr(P Y S Y), where P and S stand for B'B and
    the neutral words' moments between two C^-1/2. Its curvature lies between 2 and 2 (1 + weight |P| |S|).
    """
    values, vectors = np.linalg.eigh(every)
    real = values > RANK_RTOL * values[-1]
    span, scale = vectors[:, real], np.sqrt(values[real])
    target = np.diag(values[real])
    p, s = ((span.T @ moment @ span) / np.outer(scale, scale) for moment in (basis.T @ basis, neutral))
    y, steps = _accelerated(target, p, s, weight)
    # Outside the span of the words nothing is concept, so that X stays the identity there.
    x = np.eye(len(every)) + span @ (y / np.outer(scale, scale) - np.eye(len(scale))) @ span.T
    return Solution(x, _objective(target, target, p, s, weight), _objective(y, target, p, s, weight), steps)


def _accelerated(target: Matrix64, p: Matrix64, s: Matrix64, weight: float) -> tuple[Matrix64, int]:
    bend = 1.0 + weight * float(np.linalg.norm(p, 2) * np.linalg.norm(s, 2))
    momentum = (np.sqrt(bend) - 1) / (np.sqrt(bend) + 1)
    y = ahead = target
    for step in range(1, STEPS + 1):
        slope = (ahead - target) + weight / 2 * (p @ ahead @ s + s @ ahead @ p)
        after = _positive(ahead - slope / bend)
        moved = float(np.linalg.norm(after - y))
        ahead = after + momentum * (after - y)
        y = after
        if moved <= TOLERANCE * float(np.linalg.norm(y)):
            return y, step
    raise DegenerateError(f"soft debiasing did not converge in {STEPS:,} steps", hint="use a smaller penalty")


def _positive(y: Matrix64) -> Matrix64:
    """The nearest positive semidefinite matrix: y itself where it has a Cholesky factor, which is cheaper to find."""
    try:
        np.linalg.cholesky(y)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(y)
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T, dtype=np.float64)
    return y


def _objective(y: Matrix64, target: Matrix64, p: Matrix64, s: Matrix64, weight: float) -> float:
    return float(np.sum((y - target) ** 2) + weight * np.sum((p @ y) * (y @ s)))


def _projection(x: Matrix64 | None, neutral: Matrix64, basis: Matrix64) -> float:
    """|N'XB|^2, at the identity without an X."""
    mapped = basis if x is None else basis @ x
    return float(np.sum((mapped @ neutral) * mapped))


def _root(x: Matrix64) -> Matrix64:
    values, vectors = np.linalg.eigh(x)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, dtype=np.float64)
