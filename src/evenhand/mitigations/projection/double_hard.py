"""Double-Hard debiasing: remove the principal component that hides the concept, then the concept's direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64, as_float64, unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps import LowRank, VectorMap
from evenhand.mitigations.maps.application import BLOCK_VALUES
from evenhand.mitigations.method import require_pairs, require_two_groups
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import Selector, sparing
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.models.vectors import Vectors
from evenhand.subspaces import pair
from evenhand.subspaces.differences import Differences, differences
from evenhand.subspaces.subspace import RANK_RTOL, principal

if TYPE_CHECKING:
    from evenhand.words import Concept

DoubleHardScore = Literal["cosine", "projection"]
FREQUENT = 50_000  # rows considered, and the longest word: the restriction of Gonen & Goldberg 2019
LONGEST = 19


@MITIGATIONS.register("double-hard")
@dataclass(frozen=True)
class DoubleHardDebias(VectorMethod):
    """Remove one principal component d of the vocabulary and the concept's direction g from every word.

    Wang et al. (2020). The mean mu and the components are those of the whole vocabulary. The words most biased to
    each pole (cosine with one anchor less cosine with the other, over frequent words not about the concept) are
    clustered after removing each of the first 20 components and the direction of the pairs learned without it; d is
    the component after which 2-means recovers the poles least. The map applies to all words, he and she too;
    nothing is normalised or equalised. It is affine, so it also applies to new vectors.

    As in the paper the component is removed from the uncentred x, so all words keep the constant -<mu, d> d, which
    clustering ignores but cosines do not; `centre_first=True` drops it. The report lists all accuracies.

    What it does not do: work with more than two poles, or without pairs. The component is selected by clustering,
    so a low clustering accuracy on these words is not evidence about others.

    Args:
        components: Number of principal components to try.
        n_words: Number of most biased words per side; at most half of the eligible words.
        anchor: The two words (positive, negative) that define bias; None: the published pair, or the first pair.
        score: How bias is measured: difference of cosines, or projection on the difference.
        centre_first: Whether the mean is subtracted before the component is removed.
        words: Which words stay unchanged; None: every word is mapped.
        seed: Seed of the 2-means starts.
    """

    id: ClassVar[str] = "double-hard"
    title: ClassVar[str] = "Double-Hard debiasing"
    formula: ClassVar[str] = "y - <y, g> g, y = x - <x, d> d - mu"
    cites: ClassVar[tuple[str, ...]] = ("wang2020",)
    limits: ClassVar[str] = (
        "Two poles with pairs only. The component is chosen by clustering, so clustering alone does not show what is "
        "left; words that rightly carry the concept lose it too."
    )

    components: int = 20
    n_words: int = 1000
    anchor: Sequence[str] | None = None
    score: DoubleHardScore = "cosine"
    centre_first: bool = False
    words: Selector | None = None
    seed: int = 0

    def _check(self, concept: Concept) -> None:
        hint = "use hard, linear or hsr, or make a concept of two of the groups"
        require_two_groups(concept, "Double-Hard", hint=hint)
        require_pairs(concept, "Double-Hard")
        if self.components < 1 or self.n_words < 1:
            raise UsageError(
                f"components and n_words must be at least 1, got {self.components} and {self.n_words}",
            )

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        anchor = self._anchor(concept)
        pair_differences = differences(v, concept.pairs)
        rows, sides = self._most_biased(v, concept, anchor)
        biased = v.matrix[rows].astype(np.float64)
        moments = vocabulary_moments(v)
        candidates = [
            self._map(component, pair_differences, moments)
            for component in principal_components(moments, self.components)
        ]
        accuracies = [agreement(vm(biased), sides, seed=self.seed) for vm in candidates]
        best = int(np.argmin(accuracies))
        details = {
            "concept": concept.name,
            "anchor": list(anchor),
            "component": best + 1,
            "accuracies": accuracies,
            "accuracy_before": agreement(biased, sides, seed=self.seed),
            "words_clustered": len(sides),
            "pairs_lost": [list(words) for words in pair_differences.lost],
        }
        vm = sparing(candidates[best], self.words, v, concept)
        return self._reported(vm, v, pair_differences.coverage, details)

    def _anchor(self, concept: Concept) -> tuple[str, str]:
        published = concept.direction.words if concept.direction and concept.direction.how == "pair" else None
        words = self.anchor or published or concept.pairs.pairs[0]
        if isinstance(words, str) or len(words) != 2:
            raise UsageError(f"anchor must be two words (positive, negative), got {words!r}")
        return (words[0], words[1])

    def _most_biased(self, v: Vectors, concept: Concept, anchor: tuple[str, str]) -> tuple[Rows, Rows]:
        """Return the rows of the most biased words of both sides, and the side of each (1: positive)."""
        rows = _neutral_rows(v, concept)
        axis = pair(v, *anchor, normalise=self.score == "cosine").basis[0]
        vectors = unit_rows(v.matrix[rows]) if self.score == "cosine" else as_float64(v.matrix[rows])
        order = np.argsort(-(vectors @ axis), kind="stable")
        n = min(self.n_words, len(rows) // 2)
        if n < 2:
            raise DegenerateError(
                f"{v.name} has {len(rows)} plain lower-case words outside {concept.name!r}: too few to cluster"
            )
        return rows[np.concatenate([order[:n], order[-n:]])], np.repeat([1, 0], n)

    def _map(self, component: Vector64, pair_differences: Differences, moments: Moments) -> LowRank:
        purified = pair_differences.rows - np.outer(pair_differences.rows @ component, component)
        direction = principal(purified, k=1, how="pairs", towards=pair_differences.rows.mean(axis=0)).basis[0]
        # The direction is learned without the component, so the two are orthogonal and one product removes both.
        basis = np.stack([component, direction])
        shift = moments.mean - (moments.mean @ direction) * direction
        bias = shift - (shift @ component) * component if self.centre_first else shift
        return LowRank(basis.T, basis, -bias)


class Moments(NamedTuple):
    """Mean and sum of x'x over n rows."""

    n: int
    mean: Vector64
    products: Matrix64

    def covariance(self) -> Matrix64:
        """Return the covariance, with divisor n."""
        return np.asarray(self.products / self.n - np.outer(self.mean, self.mean), dtype=np.float64)


def vocabulary_moments(v: Vectors, *, normalise: bool = False) -> Moments:
    """Return the moments of all vectors, or of all unit vectors, computed in blocks of rows.

    Raises:
        DegenerateError: a vector holds NaN or infinity; the message names its word.
    """
    total, products = np.zeros(v.dim), np.zeros((v.dim, v.dim))
    size = max(1, BLOCK_VALUES // v.dim)
    for start in range(0, len(v), size):
        rows = v.matrix[start : start + size]
        block = unit_rows(rows) if normalise else rows.astype(np.float64)
        total += block.sum(axis=0)
        products += block.T @ block
        if not np.isfinite(total).all():
            word = v.words[start + int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])]
            raise DegenerateError(f"{v.name} has NaN or infinity in the vector of {word!r}", hint="drop or repair it")
    return Moments(len(v), total / max(len(v), 1), products)


def principal_components(moments: Moments, most: int) -> Matrix64:
    """Return the strongest principal components of the vocabulary as rows."""
    values, vectors = np.linalg.eigh(moments.covariance())
    rank = int(np.count_nonzero(values > RANK_RTOL * values[-1]))
    if not rank or values[-1] <= 0:
        raise DegenerateError("all vectors are equal, so there are no principal components")
    return np.asarray(vectors[:, ::-1].T[: min(most, rank)], dtype=np.float64)


def agreement(rows: Matrix, sides: Rows, *, seed: int = 0) -> float:
    """Return the share of rows that 2-means assigns to their own side, for the better naming of the clusters."""
    from sklearn.cluster import KMeans  # slow to import
    from threadpoolctl import threadpool_limits

    # So few rows gain nothing from threads, and on a busy machine threads wait for each other for seconds.
    with threadpool_limits(limits=1):
        clusters = KMeans(n_clusters=2, n_init=10, random_state=seed).fit_predict(rows)
    share = float(np.mean(clusters == sides))
    return max(share, 1 - share)


def _neutral_rows(v: Vectors, concept: Concept) -> Rows:
    """Return the rows of frequent, lower-case, plain words that are not about the concept."""
    groups = [word for group in concept.groups.values() for word in group]
    about = {*v.matching(concept.specific), *groups, *(word for pair in concept.pairs for word in pair)}
    rows = [row for row, word in enumerate(v.words[:FREQUENT]) if _is_plain(word) and word not in about]
    return np.array(rows, dtype=np.int64)


def _is_plain(word: str) -> bool:
    return len(word) <= LONGEST and word == word.lower() and all(part.isalpha() for part in word.split("_"))
