"""The two terms that GN-GloVe adds to the loss of GloVe, and the words that they are about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix, Rows
from evenhand.errors import UsageError, VocabularyError
from evenhand.models.vectors import Coverage
from evenhand.models.vectors.lookup import find, locate

if TYPE_CHECKING:
    from evenhand.corpus import Cooccurrence

WordPairs = tuple[tuple[str, str], ...]
Single = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Listed:
    """The list words among the words of a corpus."""

    side: Single
    """Of every word: -1 in the first list, 1 in the second, 0 in neither."""
    first: Rows
    second: Rows
    """Counterparts, where the corpus has both."""
    divisor: int
    """Of the sum of differences: the number of pairs that were found, unless all that were listed are meant."""
    coverage: Coverage

    def direction(self, vectors: Matrix) -> Matrix:
        """v_g: the mean difference of the second and the first words of the pairs."""
        return np.asarray((vectors[self.second] - vectors[self.first]).sum(axis=0) / self.divisor)


def listed(counts: Cooccurrence, pairs: WordPairs, *, poles: tuple[str, str], by_listed: bool = False) -> Listed:
    """Find both lists among the words of the counts. A pair that is listed twice counts once, unless `by_listed`."""
    used = pairs if by_listed else tuple(dict.fromkeys(pairs))
    sides = [locate(words, counts.index) for words in zip(*pairs, strict=True)]
    for (rows, coverage), pole in zip(sides, poles, strict=True):
        if not len(rows):
            raise VocabularyError(
                f"the co-occurrence counts have none of the {coverage.asked} {pole!r} words of the pairs, "
                f"such as {coverage.missing[0]!r}",
                hint="lower min_count, use more text, or give pairs= that the text has",
            )
    (first, found), (second, also) = sides
    _refuse_both(counts, np.intersect1d(first, second))
    spelt = [(find(a, counts.index), find(b, counts.index)) for a, b in used]
    whole = [(counts.index[a], counts.index[b]) for a, b in spelt if a is not None and b is not None]
    if not whole:
        raise VocabularyError(
            f"the co-occurrence counts have no pair of which both words occur, such as {'-'.join(pairs[0])}",
            hint="lower min_count, use more text, or give pairs= that the text has",
        )
    side = np.zeros(len(counts.words), dtype=np.float32)
    side[first], side[second] = -1, 1
    twos = np.array(whole, dtype=np.int64)
    return Listed(side, twos[:, 0], twos[:, 1], len(used) if by_listed else len(whole), found + also)


def _refuse_both(counts: Cooccurrence, rows: Rows) -> None:
    if len(rows):
        raise UsageError(
            f"{counts.words[rows[0]]!r} stands on both sides of the pairs", hint="a word can be at one end only"
        )


@dataclass(frozen=True, eq=False)
class Coordinate:
    """What vectors of one epoch add to the loss; their last column is the bias, the one before it the coordinate.

    apart * J_D: l1: - s w_g, l2: (w_g - s)^2 for a listed word with side s; neutral * J_E: (v_g . w_a)^2 for the other
    words, w_a being the coordinates before w_g. Both are weighted by `weight` times the entries that the word has in
    the block. The paper's l1 form is the absolute value of the sum over all words, which is the same while the sides
    stay apart as they begin.
    """

    side: Single
    direction: Matrix
    """v_g, held fixed: it has a 0 for the coordinate and for the bias."""
    weight: Single
    apart: float
    neutral: float
    form: str

    def __call__(self, rows: Rows, vectors: Matrix, hits: Rows, slope: Matrix) -> float:
        """The loss of these rows; its gradient is added to `slope`."""
        side, weight = self.side[rows], self.weight[rows] * hits.astype(np.float32)
        along = np.einsum("ij,j->i", vectors, self.direction)  # not BLAS: its sums may depend on the threads it gets
        neutral = np.where(side == 0, self.neutral * weight, 0)
        slope += (2 * neutral * along)[:, None] * self.direction
        pull, gender = self.apart * weight, vectors[:, -2]
        if self.form == "l2":
            off = np.where(side == 0, 0, gender - side)
            slope[:, -2] += 2 * pull * off
            return float((neutral * along**2 + pull * off**2).sum())
        slope[:, -2] -= pull * side
        return float((neutral * along**2 - pull * side * gender).sum())
