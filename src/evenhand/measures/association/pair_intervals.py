"""Intervals of RIPA over pairs: products across halves of the pairs are free of the noise of single pairs.

The pairs are a sample of a population of pairs that represent the concept. Its relation vector b is, for "pc", the
leading eigenvector of E[D D'] of the differences D = x - y, oriented so that <E[D], b> > 0; for "mean-of-pairs" it is
E[D / |D|]. The value of a word is beta(w) = <w, b>; the words are fixed.

The relation vector of m pairs in hundreds of dimensions is cos(phi) b + noise, with phi of 30 to 50 degrees for ten
gender pairs. So each beta shrinks by cos(phi), while noise adds to |beta| of words near 0. A bootstrap of pairs does
both a second time, and covers the population's values in 21 to 95 % of samples.

Let b_A and b_B be the relation vectors of two disjoint halves of the pairs, averaged over many ways to halve. Their
errors are independent with mean near 0, so that

    E <b_A, b_B>          = cos(phi)^2                      (1 by definition for "mean-of-pairs")
    E <w, (b_A + b_B)/2>  = cos(phi) <w, b>
    E <w, b_A> <w, b_B>   = cos(phi)^2 <w, b>^2,

phi being that of half the pairs. Hence beta(w) = <w, (b_A + b_B)/2> / sqrt(<b_A, b_B>), and the mean of beta(w)^2 over
the words is the mean of <w, b_A> <w, b_B> / <b_A, b_B>. Mean |beta| is its root times mean |beta| / rms(beta) as
observed. Standard errors are those of the jackknife over pairs, intervals use Student's t; for the mean on the
logarithmic scale.

In simulation 95 % intervals cover a word's value in 91 to 96 % of samples, with 6 to 40 pairs from populations like
lists of gender pairs, and the mean in 90 to 99 %; in one of them in 83 to 88 %, so that the mean's is approximate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Vector64
from evenhand.stats.bootstrap import LEVEL, Interval

Relation = Literal["pc", "mean-of-pairs"]
FEWEST = 5  # pairs: the smaller half has two
MANY = 24  # pairs; more are left out in this many groups
CELLS_AT_ONCE = 1 << 22  # of batches of pairs x pairs matrices


@dataclass(frozen=True, eq=False)
class PairIntervals:
    """Estimates for the population of pairs, with their intervals.

    Attributes:
        beta: (words,) the value of each word, corrected for the error of the relation vector.
        bounds: (2, words) its interval.
        mean: mean |beta|, corrected; None where the errors of the pairs leave nothing of it.
        interval: the interval of the mean.
        agreement: <b_A, b_B>, the squared cosine of the relation vector of half the pairs and the population's.
    """

    beta: Vector64
    bounds: Matrix64
    mean: float | None
    interval: Interval
    agreement: float


def pair_intervals(
    rows: Matrix64, contrasts: Matrix64, relation: Relation = "pc", *, level: float = LEVEL, seed: int = 0
) -> PairIntervals | None:
    """Return the intervals of RIPA over pairs; None for fewer than five pairs, or pairs without a common direction.

    Args:
        rows: (words, dimensions) the words, not normalised.
        contrasts: (pairs, dimensions) first minus second of each pair.
        relation: how the pairs make a relation vector.
        level: share of samples of pairs whose interval covers the population's value.
        seed: seed of the halvings.
    """
    from scipy.special import stdtrit

    pairs = len(contrasts)
    if pairs < FEWEST:
        return None
    gram, with_words = contrasts @ contrasts.T, contrasts @ rows.T
    groups = np.arange(pairs) % min(pairs, MANY)
    used = np.concatenate([np.ones((1, pairs)), (groups != np.arange(groups.max() + 1)[:, None]).astype(np.float64)])
    halves = _halvings(pairs, np.random.default_rng(seed))
    one, other = (relation_weights(gram, side[:, None] * used[None], relation) for side in (halves, 1 - halves))
    agreement = np.ones(len(used)) if relation == "mean-of-pairs" else _products(one, gram, other)
    quantile = float(stdtrit(len(used) - 2, (1 + level) / 2))
    if relation == "pc" and not _is_beyond_noise(agreement, quantile):
        return None
    beta = (one + other).mean(axis=0) / 2 @ with_words / np.sqrt(agreement)[:, None]
    margin = quantile * _jackknife_error(beta)
    bounds = np.stack([beta[0] - margin, beta[0] + margin])
    squares = _products(one, with_words @ with_words.T / len(rows), other) / agreement
    if not (squares > 0).all():
        return PairIntervals(beta[0], bounds, None, None, float(agreement[0]))
    observed = np.abs(relation_weights(gram, used, relation) @ with_words)
    shape = observed.mean(axis=1) / np.sqrt((observed**2).mean(axis=1))
    logs = np.log(squares) / 2 + np.log(shape)
    error = quantile * float(_jackknife_error(logs))
    interval = (float(np.exp(logs[0] - error)), float(np.exp(logs[0] + error)))
    return PairIntervals(beta[0], bounds, float(np.exp(logs[0])), interval, float(agreement[0]))


def relation_weights(gram: Matrix64, counts: NDArray[np.float64], relation: Relation) -> NDArray[np.float64]:
    """Return the weights (..., pairs) that make a relation vector out of the differences of the counted pairs.

    For "mean-of-pairs" the vector is the mean of the unit differences, so that its inner product with a word is the
    mean of the single RIPAs. For "pc" it is the first right singular vector of the counted rows, computed in the small
    space of pairs: with counts c and G = D D', u the leading eigenvector of sqrt(c) G sqrt(c) with eigenvalue s^2, it
    is D' (sqrt(c) u) / s.

    Args:
        gram: (pairs, pairs) inner products of the differences.
        counts: (..., pairs) how often each pair counts.
        relation: how the pairs make a relation vector.
    """
    if relation == "mean-of-pairs":
        return np.asarray(counts / counts.sum(axis=-1, keepdims=True) / np.sqrt(np.diag(gram)))
    flat = counts.reshape(-1, len(gram))
    step = max(1, CELLS_AT_ONCE // len(gram) ** 2)
    blocks = [_principal_weights(gram, flat[start : start + step]) for start in range(0, len(flat), step)]
    return np.concatenate(blocks).reshape(counts.shape)


def _principal_weights(gram: Matrix64, counts: Matrix64) -> Matrix64:
    roots = np.sqrt(counts)
    squares, vectors = np.linalg.eigh(roots[:, :, None] * gram * roots[:, None, :])
    weights = roots * vectors[:, :, -1] / np.sqrt(squares[:, -1:])
    # towards the first pole: the sum of the counted differences has a positive component along it
    agreement = np.einsum("dp,pq,dq->d", counts, gram, weights, optimize=True)
    return np.asarray(weights * np.where(agreement < 0, -1.0, 1.0)[:, None])


def _is_beyond_noise(agreement: Vector64, quantile: float) -> bool:
    """Return True when the halves agree: all products are positive, and well above their standard error."""
    return bool((agreement > 0).all() and agreement[0] > quantile / 2 * float(_jackknife_error(agreement)))


def _halvings(pairs: int, rng: np.random.Generator) -> Matrix64:
    """Return (halvings, pairs): 1 for the pairs of one half."""
    count = 30 if pairs <= 20 else 16
    order = rng.permuted(np.tile(np.arange(pairs), (count, 1)), axis=1)
    return np.asarray(order < pairs // 2, dtype=np.float64)


def _products(one: NDArray[np.float64], form: Matrix64, other: NDArray[np.float64]) -> Vector64:
    """Return the product of both halves in a quadratic form, averaged over the halvings, for each set of pairs."""
    return np.asarray(((one @ form) * other).sum(axis=-1).mean(axis=0))


def _jackknife_error(estimates: NDArray[np.float64]) -> Vector64:
    """Return the jackknife standard error; row 0 is the estimate of all pairs, the others leave one group out."""
    left_out = estimates[1:]
    n = len(left_out)
    return np.asarray(np.sqrt((n - 1) / n * np.square(left_out - left_out.mean(axis=0)).sum(axis=0)))
