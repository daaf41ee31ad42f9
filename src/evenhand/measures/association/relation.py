"""The relation of RIPA: the one direction that ordered pairs of words have in common, and how sure it is."""

from __future__ import annotations

from typing import Literal

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, row_norms
from evenhand.errors import DegenerateError
from evenhand.models.vectors import Vectors
from evenhand.stats import resamples
from evenhand.subspaces.lookup import SAME_WORD, differences
from evenhand.words import Pairs

Relation = Literal["pc", "mean-of-pairs"]
DRAWS, FEWER_DRAWS, MANY_PAIRS = 1_000, 200, 40  # each draw factorises a matrix of pairs x pairs


def pair_differences(vectors: Vectors, pairs: Pairs) -> tuple[Matrix64, tuple[tuple[str, str], ...]]:
    """First minus second for every complete pair, and those pairs; one whose words are alike has no direction."""
    found = differences(vectors, pairs)
    longest = np.array([max(row_norms(vectors.take(pair)[0])) for pair in found.used])
    apart = row_norms(found.rows) > SAME_WORD * longest
    if not apart.any():
        raise DegenerateError(f"{pairs.name}: no pair of words differs by more than noise")
    return found.rows[apart], tuple(pair for pair, kept in zip(found.used, apart, strict=True) if kept)


def relations(apart: Matrix64, relation: Relation, drawn: Rows) -> Matrix64:
    """For each drawing of pairs, weights that make its relation vector out of the differences: (drawings, pairs).

    The relation vector is the weighted sum of the rows of `apart`. For "mean-of-pairs" it is the mean of the unit
    differences, so that its inner product with a word is the mean of the single RIPAs. For "pc" it is the first right
    singular vector of the drawn rows, found in the small space of pairs: with counts c and G = D D', u the leading
    eigenvector of sqrt(c) G sqrt(c) with eigenvalue s^2, it is D' (sqrt(c) u) / s.
    """
    counts = np.stack([(drawn == pair).sum(axis=1) for pair in range(len(apart))], axis=1).astype(np.float64)
    if relation == "mean-of-pairs":
        return np.asarray(counts / counts.sum(axis=1, keepdims=True) / row_norms(apart))
    gram, roots = apart @ apart.T, np.sqrt(counts)
    squares, vectors = np.linalg.eigh(roots[:, :, None] * gram * roots[:, None, :])
    weights = roots * vectors[:, :, -1] / np.sqrt(squares[:, -1:])
    # towards the first pole: the sum of the drawn differences has a positive part along it
    agreement = np.einsum("dp,pq,dq->d", counts, gram, weights)
    return np.asarray(weights * np.where(agreement < 0, -1.0, 1.0)[:, None])


def drawn_associations(rows: Matrix64, apart: Matrix64, relation: Relation, seed: int) -> Matrix64:
    """RIPA of each word for each bootstrap draw of pairs: (draws, words)."""
    draws = DRAWS if len(apart) <= MANY_PAIRS else FEWER_DRAWS
    weights = relations(apart, relation, resamples(len(apart), draws, seed=seed))
    return np.asarray(weights @ (apart @ rows.T))


def associations(rows: Matrix64, apart: Matrix64, relation: Relation) -> Vector64:
    """RIPA of each word."""
    weights = relations(apart, relation, np.arange(len(apart))[None])
    return np.asarray(rows @ (weights @ apart)[0])
