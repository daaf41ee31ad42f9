"""The bias alignment model: average every vector with its image under the rotation that aligns two word lists."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from evenhand.arrays import Matrix64
from evenhand.errors import DegenerateError, EvenhandWarning, UsageError, VocabularyError
from evenhand.mitigations.labelled_words import rows_of_two_groups
from evenhand.mitigations.maps import Affine, VectorMap
from evenhand.mitigations.method import require_pairs, require_two_groups
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import Selector, sparing
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces.differences import listed, word_rows
from evenhand.subspaces.subspace import RANK_RTOL

if TYPE_CHECKING:
    from evenhand.words import Concept

BamVariant = Literal["regularised", "paper", "released"]
Pairing = Literal["aligned", "all"]


@MITIGATIONS.register("bam")
@dataclass(frozen=True)
class BAM(VectorMethod):
    """Average every vector with its image under the orthogonal matrix W that maps one pole's words near the other's.

    Lauscher et al. (2020): W = U V' from the SVD of A'B (A W ~ B, orthogonal Procrustes), with A and B the two lists
    stacked over all pairs. Then A'B = (sum a)(sum b)' has rank 1, and even aligned pairs leave its rank far below the
    dimension: W is arbitrary on the rest of the space, and averaging with an arbitrary rotation halves it. By default
    W therefore minimises |A W - B|^2 + penalty |W - I|^2 over aligned pairs: it is the polar factor of
    A'B + penalty I, unique, and the identity away from the words. The penalty is in units of the mean squared length
    of the words: 1 weighs as much as one more pair in every direction.

    `variant="paper"` is U V' as published (with a warning: it depends on the SVD routine). `variant="released"` is
    the released code, which returns V' alone, not a Procrustes solution. Both stack all pairs by default.

    What it does not do: remove anything. The two poles are moved towards each other and the rest is kept. It needs
    exactly two poles.

    Args:
        penalty: Weight of staying near the identity, in mean squared lengths of the words; regularised variant only.
        pairing: `aligned`: the concept's pairs; `all`: every word of one group with every word of the other;
            None: `aligned` for the regularised variant, `all` for the others.
        mapped: Which pole W maps to the other.
        words: Which words stay unchanged; None: every word is mapped.
        variant: `regularised`, `paper` or `released`.
    """

    id: ClassVar[str] = "bam"
    title: ClassVar[str] = "Bias alignment model (BAM)"
    formula: ClassVar[str] = "(x + x W) / 2, W = argmin |A W - B|^2 + penalty |W - I|^2 over orthogonal W"
    cites: ClassVar[tuple[str, ...]] = ("lauscher2020",)
    limits: ClassVar[str] = (
        "Two poles only. As published it is not determined by the data; the regularised form depends on a penalty. "
        "Moves the poles together without removing anything."
    )

    penalty: float = 1.0
    pairing: Pairing | None = None
    mapped: Literal["positive", "negative"] = "positive"
    words: Selector | None = None
    variant: BamVariant = "regularised"

    def _check(self, concept: Concept) -> None:
        require_two_groups(concept, "BAM")
        if self._pairing() == "aligned":
            require_pairs(concept, "BAM", hint="add pairs to the concept, or use pairing='all'")
        if not (np.isfinite(self.penalty) and self.penalty > 0):
            raise UsageError(f"penalty must be above 0, otherwise W is not determined; got {self.penalty}")

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        pairing = self._pairing()
        first, second, coverage = _aligned(v, concept) if pairing == "aligned" else rows_of_two_groups(v, concept)
        if self.mapped == "negative":
            first, second = second, first
        moments = _cross(first, second, pairing)
        rotation = self._rotation(moments, first, second)
        apart = np.linalg.norm(first.mean(axis=0) - second.mean(axis=0))
        details = {
            "concept": concept.name,
            "pairing": pairing,
            "rows": [len(first), len(second)],
            "rank_of_words": int(np.linalg.matrix_rank(moments, rtol=RANK_RTOL)),
            "poles_apart_before": float(apart),
            "poles_apart_mapped": float(np.linalg.norm(first.mean(axis=0) @ rotation - second.mean(axis=0))),
        }
        vm = sparing(Affine((np.eye(v.dim) + rotation) / 2), self.words, v, concept)
        return self._reported(vm, v, coverage, details)

    def _pairing(self) -> Pairing:
        return self.pairing or ("aligned" if self.variant == "regularised" else "all")

    def _rotation(self, moments: Matrix64, first: Matrix64, second: Matrix64) -> Matrix64:
        if self.variant == "regularised":
            scale = (np.mean(np.sum(first**2, axis=1)) + np.mean(np.sum(second**2, axis=1))) / 2
            moments = moments + self.penalty * scale * np.eye(len(moments))
        left, strength, right = np.linalg.svd(moments)
        if strength[-1] > RANK_RTOL * strength[0]:
            return right if self.variant == "released" else left @ right
        if self.variant == "regularised":
            raise DegenerateError("A'B + penalty I is singular, so W is not unique", hint="use a larger penalty")
        rank = int(np.count_nonzero(strength > RANK_RTOL * strength[0]))
        warnings.warn(
            f"BAM: the words determine W in {rank} of {len(strength)} dimensions, and it is arbitrary in the rest",
            EvenhandWarning,
            stacklevel=4,
        )
        return right if self.variant == "released" else left @ right


def _aligned(v: Vectors, concept: Concept) -> tuple[Matrix64, Matrix64, Coverage]:
    rows, coverage = word_rows(
        v, [word for pair in concept.pairs for word in pair], what=f"the pairs of {concept.name!r}"
    )
    row_of = {word: row for row, word in enumerate(coverage.found)}
    complete = [(row_of[a], row_of[b]) for a, b in concept.pairs if a in row_of and b in row_of]
    if not complete:
        raise VocabularyError(f"{v.name} has no complete pair of {concept.name!r}: missing {listed(coverage.missing)}")
    first, second = (list(side) for side in zip(*complete, strict=True))
    return rows[first], rows[second], coverage


def _cross(first: Matrix64, second: Matrix64, pairing: Pairing) -> Matrix64:
    """Return A'B; stacked over all pairs it is the product of the two sums, so nothing is stacked."""
    if pairing == "all":
        return np.outer(first.sum(axis=0), second.sum(axis=0))
    return first.T @ second
