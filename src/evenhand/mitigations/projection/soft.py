"""Soft debiasing: the linear map that balances keeping inner products against removing projections on the concept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from evenhand.arrays import Matrix64, unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps import Affine, Chain, RowNormalise, VectorMap
from evenhand.mitigations.projection.double_hard import vocabulary_moments
from evenhand.mitigations.projection.hard import check_subspace, exempt_words, unit_subspace
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import Selector
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace

if TYPE_CHECKING:
    from evenhand.words import Concept, Recipe

STEPS = 20_000
TOLERANCE = 1e-12  # relative change in one step
RANK_RTOL = 1e-10  # for eigenvalues of a sum of squares of float32 numbers


@MITIGATIONS.register("soft")
@dataclass(frozen=True)
class SoftDebias(VectorMethod):
    """Find the linear map that keeps inner products and reduces the neutral words' projections; scale to unit length.

    Bolukbasi et al. (2016, section 6): W holds all words, N the neutral ones and B the concept's subspace, as columns
    of unit length. In X = T'T the problem is convex over positive semidefinite matrices; with C = WW' the first term
    is |C^1/2 (X - I) C^1/2|^2. It is solved from the identity by accelerated projected gradients, in coordinates in
    which the first term is a Euclidean distance, so the result is the minimum (a released code runs ten epochs of
    gradient descent from a random T, which leaves a nearly random map). T is the symmetric root of X.

    The published penalty of 0.2 multiplies a sum over words while the first term is a sum over pairs of words: with
    tens of thousands of words almost nothing changes. `share_left` in the report is the share of the neutral words'
    squared projection that stays. `per_word=True` uses means instead of sums, so that the effect of a penalty is
    independent of vocabulary size.

    What it does not do: remove the direction. Neighbourhoods stay, as with hard debiasing.

    Args:
        penalty: Weight of the neutral words' projections (lambda).
        per_word: Whether both terms are means (over pairs of words, over neutral words) instead of sums.
        subspace: A learned subspace, a recipe or the name of an estimator; None: as in hard debiasing.
        k: Number of directions; None: 1, or one less than the number of groups where there are more than two.
        words: Which words are not neutral; None: the concept's specific words. All words are mapped.
    """

    id: ClassVar[str] = "soft"
    title: ClassVar[str] = "Soft debiasing"
    formula: ClassVar[str] = "Tx / |Tx|, T = argmin |(TW)'TW - W'W|^2 + penalty |(TN)'TB|^2"
    cites: ClassVar[tuple[str, ...]] = ("bolukbasi2016",)
    limits: ClassVar[str] = (
        "With the published penalty it hardly changes a large vocabulary. Reduces the projection of neutral words "
        "without removing it. All vectors are scaled to unit length."
    )

    penalty: float = 0.2
    per_word: bool = False
    subspace: Subspace | Recipe | str | None = None
    k: int | None = None
    words: Selector | None = None

    def _check(self, concept: Concept) -> None:
        if not (np.isfinite(self.penalty) and self.penalty >= 0):
            raise UsageError(f"penalty must be a number of at least 0, got {self.penalty}")
        check_subspace(concept, "soft debiasing", self.subspace)

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        learned = unit_subspace(v, concept, self.subspace, k=self.k)
        exempt = exempt_words(v, concept, self.words)
        rows = unit_rows(v.matrix[[v.index[word] for word in sorted(exempt)]]) if exempt else np.empty((0, v.dim))
        every = vocabulary_moments(v, normalise=True).products
        neutral = every - rows.T @ rows
        n_neutral = len(v) - len(exempt)
        if not n_neutral:
            raise UsageError(f"every word of {v.name} is exempt for {concept.name!r}: no word is neutral")
        weight = self.penalty * (len(v) ** 2 / n_neutral if self.per_word else 1.0)
        solution = solve(every, neutral, learned.basis, weight)
        left, original = (_projection(x, neutral, learned.basis) for x in (solution.x, None))
        details = {
            "concept": concept.name,
            "subspace": learned.to_dict(basis=False),
            "words_neutral": n_neutral,
            "objective_before": solution.before,
            "objective_after": solution.after,
            "steps": solution.steps,
            "share_left": left / original,
        }
        vm = Chain([RowNormalise(v.dim), Affine(_root(solution.x)), RowNormalise(v.dim)])
        return self._reported(vm, v, learned.coverage, details)


class Solution(NamedTuple):
    """The minimiser X, the objective at the identity and at X, and the number of steps."""

    x: Matrix64
    before: float
    after: float
    steps: int


def solve(every: Matrix64, neutral: Matrix64, basis: Matrix64, weight: float) -> Solution:
    """Return the positive semidefinite X that minimises tr(C D C D) + weight tr(B X S X B'), D = X - I.

    With Y = C^1/2 X C^1/2 on the span of the words: min |Y - C|^2 + weight tr(P Y S Y), where P and S are B'B and
    the neutral words' moments, each between two C^-1/2. Its curvature lies between 2 and 2 (1 + weight |P| |S|).
    """
    values, vectors = np.linalg.eigh(every)
    nonzero = values > RANK_RTOL * values[-1]
    span, scale = vectors[:, nonzero], np.sqrt(values[nonzero])
    target = np.diag(values[nonzero])
    p, s = ((span.T @ moment @ span) / np.outer(scale, scale) for moment in (basis.T @ basis, neutral))
    y, steps = _accelerated(target, p, s, weight)
    # Outside the span of the words the objective is constant, so X stays the identity there.
    x = np.eye(len(every)) + span @ (y / np.outer(scale, scale) - np.eye(len(scale))) @ span.T
    return Solution(x, _objective(target, target, p, s, weight), _objective(y, target, p, s, weight), steps)


def _accelerated(target: Matrix64, p: Matrix64, s: Matrix64, weight: float) -> tuple[Matrix64, int]:
    curvature = 1.0 + weight * float(np.linalg.norm(p, 2) * np.linalg.norm(s, 2))
    momentum = (np.sqrt(curvature) - 1) / (np.sqrt(curvature) + 1)
    y = ahead = target
    for step in range(1, STEPS + 1):
        gradient = (ahead - target) + weight / 2 * (p @ ahead @ s + s @ ahead @ p)
        after = _positive(ahead - gradient / curvature)
        change = float(np.linalg.norm(after - y))
        ahead = after + momentum * (after - y)
        y = after
        if change <= TOLERANCE * float(np.linalg.norm(y)):
            return y, step
    raise DegenerateError(f"soft debiasing did not converge in {STEPS:,} steps", hint="use a smaller penalty")


def _positive(y: Matrix64) -> Matrix64:
    """Return the nearest positive semidefinite matrix; a Cholesky factor, cheap to compute, shows that it is y."""
    try:
        np.linalg.cholesky(y)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(y)
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T, dtype=np.float64)
    return y


def _objective(y: Matrix64, target: Matrix64, p: Matrix64, s: Matrix64, weight: float) -> float:
    return float(np.sum((y - target) ** 2) + weight * np.sum((p @ y) * (y @ s)))


def _projection(x: Matrix64 | None, neutral: Matrix64, basis: Matrix64) -> float:
    """Return |N'XB|^2; without X, its value at the identity."""
    mapped = basis if x is None else basis @ x
    return float(np.sum((mapped @ neutral) * mapped))


def _root(x: Matrix64) -> Matrix64:
    values, vectors = np.linalg.eigh(x)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, dtype=np.float64)
