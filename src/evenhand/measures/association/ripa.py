"""RIPA: the inner product of a word with the direction that separates pairs of words (Ethayarajh et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Vector64, row_norms
from evenhand.errors import DegenerateError
from evenhand.measures.association.located_query import LocatedSet, locate_set
from evenhand.measures.call import MIN_SHARE, Call, ListCoverage, measure
from evenhand.measures.measurement import MeasuredItem, Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import mean_interval
from evenhand.stats.bootstrap import LEVEL, Interval
from evenhand.stats.units import mean_units
from evenhand.subspaces.differences import SAME_WORD, differences
from evenhand.words import Concept, Pairs, WordSet, as_concept, as_wordset

INFO = Info(
    id="ripa",
    title="Relational Inner Product Association",
    takes="words",
    better="zero",
    formula="beta(w; b) = <w, b>,  b = first (uncentred) principal direction of x - y over the pairs, unit length",
    reading="Mean |beta| over the words. Each word's beta is signed: above 0 is towards the named pole.",
    limits=(
        "It has no significance test by design, and a long vector (a frequent word) has a large value: compare with "
        "the cosine in the items. It sees the one direction of its pairs only."
    ),
    cites=("ethayarajh2019",),
    queries=("bolukbasi2016-professions",),
    definition=3,
    charts=("extreme-words", "measure-agreement"),
    ticked=("vectors",),
)


@measure(INFO)
def ripa(
    call: Call,
    vectors: Vectors,
    words: WordSet | str | Iterable[str],
    *,
    concept: Concept | str = "gender",
    relation: Relation = "pc",
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the mean |beta| of words along the direction of a concept's pairs.

    Vectors are not normalised (paper section 5). For a concept with three groups or more the direction is the first
    principal direction of all its pairs; without pairs there is no value.

    Args:
        vectors: the vectors to measure.
        words: a list of words, its id or its file.
        concept: the concept whose pairs give the direction.
        relation: "pc" is the definition for several pairs; "mean-of-pairs" averages <w, x - y> / |x - y| over the
            pairs, as the paper's experiments do.
        min_share: smallest share of the words, and of the pairs, that the vocabulary must have.
        reference: vectors before mitigation.
        seed: seed of the halvings of pairs.

    Returns:
        The mean |beta|, with beta and cosine of each word in `items`. `interval` resamples the words: how the mean
        depends on which words were chosen. How it depends on which pairs define the concept is estimated for a
        population of pairs (see `pair_intervals`): `details["population_mean"]` with `interval_over_pairs`, which is
        approximate, and `population` with `interval` of each item. These estimates are corrected for the error of the
        direction, so that they differ from the values of the given pairs; they need five pairs that agree.

    What it does not tell you: whether an association is spurious. The paper gives no test, since that depends on how
    often the words occur together in the corpus.
    """
    wordset, concept = as_wordset(words), as_concept(concept)
    located = locate_set(vectors, wordset)
    call.describe(wordset.name, positive=concept.positive, coverage=located.coverage)
    if not len(concept.pairs):
        raise DegenerateError(f"concept {concept.name!r} has no pairs of words, which RIPA needs")
    call.require((located.as_list(), ListCoverage.of_pairs(vectors, concept.pairs)), min_share)
    contrasts, used = pair_differences(vectors, concept.pairs)
    beta = associations(located.rows, contrasts, relation)
    population = pair_intervals(located.rows, contrasts, relation, seed=seed)
    return call.measurement(
        float(np.abs(beta).mean()),
        len(beta),
        interval=mean_interval(np.abs(beta), limits=(0.0, np.inf)),
        reading=f"on average words are {np.abs(beta).mean():.3f} away from the middle of the {concept.name} axis",
        items=_items(located, beta, population),
        units=(mean_units("word", located.words, np.abs(beta)),),
        details={
            "signed_mean": float(beta.mean()),
            "pairs": len(contrasts),
            "pairs_lost": [list(pair) for pair in concept.pairs if pair not in used],
            "population_mean": population.mean if population else None,
            "interval_over_pairs": list(population.interval) if population and population.interval else None,
            "pair_agreement": population.agreement if population else None,
            **({"repeated": list(located.repeated)} if located.repeated else {}),
        },
    )


def _items(located: LocatedSet, beta: Vector64, population: PairIntervals | None) -> tuple[MeasuredItem, ...]:
    lengths = row_norms(located.rows)
    cosines = np.divide(beta, lengths, out=np.zeros_like(beta), where=lengths > 0)
    items = [
        {"word": word, "value": float(value), "cosine": float(cosine)}
        for word, value, cosine in zip(located.words, beta, cosines, strict=True)
    ]
    if population is None:
        return tuple(items)
    return tuple(
        {**item, "population": float(corrected), "interval": [float(low), float(high)]}
        for item, corrected, (low, high) in zip(items, population.beta, population.bounds.T, strict=True)
    )


def pair_differences(vectors: Vectors, pairs: Pairs) -> tuple[Matrix64, tuple[tuple[str, str], ...]]:
    """Return first minus second of every complete pair, and those pairs, without pairs of two equal vectors."""
    located = differences(vectors, pairs)
    longest = np.array([max(row_norms(vectors.take(pair)[0])) for pair in located.used])
    distinct = row_norms(located.rows) > SAME_WORD * longest
    if not distinct.any():
        raise DegenerateError(f"{pairs.name}: no pair of words differs by more than noise")
    return located.rows[distinct], tuple(pair for pair, keep in zip(located.used, distinct, strict=True) if keep)


def associations(rows: Matrix64, contrasts: Matrix64, relation: Relation) -> Vector64:
    """Return RIPA of each word."""
    weights = relation_weights(contrasts @ contrasts.T, np.ones((1, len(contrasts))), relation)
    return np.asarray(rows @ (weights @ contrasts)[0])


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
