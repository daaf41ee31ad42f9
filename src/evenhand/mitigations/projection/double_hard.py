"""Double-Hard debiasing: first the principal component that hides the concept, then the concept's direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64, as_float64, unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps import LowRank, VectorMap
from evenhand.mitigations.method import Mitigation
from evenhand.mitigations.projection.moments import Moments, moments
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import Selector, sparing
from evenhand.models.vectors import Vectors
from evenhand.subspaces import pair
from evenhand.subspaces.lookup import Differences, differences
from evenhand.subspaces.principal import RANK_RTOL, principal

if TYPE_CHECKING:
    from evenhand.words import Concept

Score = Literal["cosine", "projection"]
FREQUENT = 50_000  # rows considered, and the longest word: the restriction of Gonen & Goldberg 2019
LONGEST = 19


@MITIGATIONS.register("double-hard")
@dataclass(frozen=True)
class DoubleHardDebias(Mitigation):
    """(x - <x, d> d - mu) without its part along g: one principal component d and the concept's direction g removed.

    Wang et al. 2020. mu and the components are those of the whole vocabulary. The words that lean most to each pole
    (cos with one anchor less cos with the other, over frequent words that are not about the concept) are clustered
    after each of the first 20 components in turn, and the direction of the pairs learned without it, are removed; d is
    the component after which 2-means finds the poles least. Applied to all words, he and she too; nothing is
    normalised or equalised. The map is affine, so that it also takes new vectors.

    As in the paper the component is taken from the uncentred x, so that all words keep the constant -<mu, d> d, which
    no cluster notices but cosines do; `centre_first=True` leaves it out. The report has all accuracies.

    What it does not do: work for more than two poles, or without pairs and an anchor pair. Choosing by clustering is
    fitting to clustering: a low accuracy on these very words is no evidence about others.
    """

    id: ClassVar[str] = "double-hard"
    title: ClassVar[str] = "Double-Hard debiasing"
    citation: ClassVar[str] = "Wang, Lin, Rajani, McCann, Ordonez & Xiong 2020, ACL"
    limits: ClassVar[str] = (
        "Two poles with pairs only. Chosen by clustering, so that clustering alone does not show what is left; "
        "words that rightly carry the concept lose it too."
    )

    components: int = 20
    """How many principal components are tried."""
    n_words: int = 1000
    """Most biased words of each side; at most half of the words there are."""
    anchor: Sequence[str] | None = None
    """(positive, negative); None: the concept's published pair, or its first pair."""
    score: Score = "cosine"
    """How leaning is measured: difference of cosines, or projection on the difference."""
    centre_first: bool = False
    words: Selector | None = None
    """Which words stay as they are (see `selection`); None: every word is mapped."""
    seed: int = 0

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        """Try the components on the most biased words and return the affine map for the best."""
        anchor = self._anchor(concept)
        found = differences(v, concept.pairs)
        rows, labels = self._most_biased(v, concept, anchor)
        biased = v.matrix[rows].astype(np.float64)
        every = moments(v)
        tried = [self._map(component, found, every) for component in _principal(every, self.components)]
        accuracies = [agreement(vm(biased), labels, seed=self.seed) for vm in tried]
        chosen = int(np.argmin(accuracies))
        details = {
            "concept": concept.name,
            "anchor": list(anchor),
            "component": chosen + 1,
            "accuracies": accuracies,
            "accuracy_before": agreement(biased, labels, seed=self.seed),
            "words_clustered": len(labels),
            "pairs_lost": [list(two) for two in found.lost],
        }
        return self._reported(sparing(tried[chosen], self.words, v, concept), v, found.coverage, details)

    def _check(self, concept: Concept) -> None:
        if len(concept.groups) != 2 or not len(concept.pairs):
            raise UsageError(
                f"Double-Hard needs two poles and pairs; concept {concept.name!r} has {len(concept.groups)} groups "
                f"and {len(concept.pairs)} pairs",
                hint="use hard, linear or hsr, or make a concept of two of the groups",
            )
        if self.components < 1 or self.n_words < 1:
            raise UsageError(f"at least one component and one word, got {self.components} and {self.n_words}")
        if self.score not in get_args(Score):
            raise UsageError(f"unknown score {self.score!r}", hint="use cosine or projection")

    def _anchor(self, concept: Concept) -> tuple[str, str]:
        published = concept.direction.words if concept.direction and concept.direction.how == "pair" else None
        both = self.anchor or published or concept.pairs.pairs[0]
        if isinstance(both, str) or len(both) != 2:
            raise UsageError(f"an anchor is (positive, negative), got {both!r}")
        return (both[0], both[1])

    def _most_biased(self, v: Vectors, concept: Concept, anchor: tuple[str, str]) -> tuple[Rows, Rows]:
        """Rows of the words that lean most to either side, and which side (1: the positive)."""
        rows = _neutral_words(v, concept)
        axis = pair(v, *anchor, normalise=self.score == "cosine").basis[0]
        words = unit_rows(v.matrix[rows]) if self.score == "cosine" else as_float64(v.matrix[rows])
        order = np.argsort(-(words @ axis), kind="stable")
        n = min(self.n_words, len(rows) // 2)
        if n < 2:
            raise DegenerateError(
                f"{v.name} has {len(rows)} plain lower-case words outside {concept.name!r}: too few to cluster"
            )
        return rows[np.concatenate([order[:n], order[-n:]])], np.repeat([1, 0], n)

    def _map(self, component: Vector64, found: Differences, every: Moments) -> LowRank:
        purified = found.rows - np.outer(found.rows @ component, component)
        direction = principal(purified, k=1, how="pairs", towards=found.rows.mean(axis=0)).basis[0]
        # The direction is learned without the component, so that the two are orthogonal and one product removes both.
        both = np.stack([component, direction])
        kept = every.mean - (every.mean @ direction) * direction
        bias = kept - (kept @ component) * component if self.centre_first else kept
        return LowRank(both.T, both, -bias)


def agreement(rows: Matrix, sides: Rows, *, seed: int = 0) -> float:
    """Share of the rows that 2-means puts with their own side, the better of the two ways to name the clusters."""
    from sklearn.cluster import KMeans  # costs more to import than all the rest
    from threadpoolctl import threadpool_limits

    # So few rows gain nothing from threads, and on a busy machine these wait for each other for seconds.
    with threadpool_limits(limits=1):
        found = KMeans(n_clusters=2, n_init=10, random_state=seed).fit_predict(rows)
    share = float(np.mean(found == sides))
    return max(share, 1 - share)


def _principal(every: Moments, most: int) -> Matrix64:
    """The strongest principal components of the vocabulary, one a row."""
    values, vectors = np.linalg.eigh(every.covariance())
    real = int(np.count_nonzero(values > RANK_RTOL * values[-1]))
    if not real or values[-1] <= 0:
        raise DegenerateError("all vectors are equal, so that there are no principal components")
    return np.asarray(vectors[:, ::-1].T[: min(most, real)], dtype=np.float64)


def _neutral_words(v: Vectors, concept: Concept) -> Rows:
    """Frequent, lower-case, plain words that are not about the concept."""
    groups = [word for group in concept.groups.values() for word in group]
    about = {*concept.specific, *groups, *(word for two in concept.pairs for word in two)}
    plain = [row for row, word in enumerate(v.words[:FREQUENT]) if _is_plain(word) and word not in about]
    return np.array(plain, dtype=np.int64)


def _is_plain(word: str) -> bool:
    return len(word) <= LONGEST and word == word.lower() and all(part.isalpha() for part in word.split("_"))
