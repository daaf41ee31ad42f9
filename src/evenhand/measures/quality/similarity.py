"""Word similarity: do the cosines of word pairs follow human ratings of their similarity?"""

from __future__ import annotations

import os
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.call import MIN_SHARE, Call, ListCoverage, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.quality.rated_sets import RatedPairs, local_ids, rated_pairs
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import bootstrap
from evenhand.stats.correlation import mean_ranks, spearman_rows
from evenhand.stats.units import correlation_units

PACKAGED = ("rg-65", "mc-30")  # part of evenhand, so that quality is always measured
SETS = ("ws-353", "mturk-287", "mturk-771", "men", "simlex-999", "rw")
Unknown = Literal["drop", "mean-vector"]
ABSENT = -1
DRAWS_AT_ONCE = 200
MIN_ROWS = 3
SAME = 1e-9  # cosines of float32 vectors that differ by less differ by rounding


def available() -> tuple[str, ...]:
    """Return the ids of the further similarity sets on this disk."""
    return local_ids("similarity", SETS)


INFO = Info(
    id="similarity",
    title="Word similarity",
    takes="dataset",
    better="higher",
    formula="rho = Pearson(rank cos(a, b), rank rating(a, b)) over the pairs; equal values share their mean rank",
    reading="1: cosines order the pairs as people do. 0: no relation. Compare before and after on the same pairs only.",
    limits=(
        "Ratings mix similarity (car, automobile) with relatedness (car, road), and differ between sets; a set of 65 "
        "nouns has a wide interval. It does not say whether a task that uses the vectors got better or worse."
    ),
    cites=(
        "rubenstein1965",
        "miller1991",
        "finkelstein2002",
        "radinsky2011",
        "halawi2012",
        "bruni2014",
        "hill2015",
        "luong2013",
    ),
    queries=PACKAGED,
    available=available,
    family="quality",
    definition=2,
    role="cost",
)


@measure(INFO)
def similarity(
    call: Call,
    vectors: Vectors,
    dataset: RatedPairs | str | os.PathLike[str],
    *,
    unknown: Unknown = "drop",
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure Spearman's rank correlation between cosine and human rating.

    Args:
        vectors: the vectors to measure.
        dataset: an id of the catalog (rg-65, ws-353, mturk-287, mturk-771, men, simlex-999, rw, ...) or a file with
            word, word and rating on a line.
        unknown: "drop" leaves out pairs with an unknown word, and counts them. "mean-vector" gives such a word the mean
            of the vocabulary, as the web benchmarks package (Jastrzebski et al. 2017) does, so that vectors with
            different vocabularies are measured on the same pairs.
        min_share: smallest share of the pairs that must have both words, with `unknown="drop"`.
        reference: vectors before mitigation.
        seed: seed of the bootstrap over pairs.

    Returns:
        The correlation, with cosine and rating of each pair in `items`.

    What it does not tell you: what a drop of a few hundredths costs in a task. See `evenhand show similarity`.
    """
    if unknown not in get_args(Unknown):
        raise UsageError(f"unknown policy {unknown!r} for words without a vector", hint="use drop or mean-vector")
    source = rated_pairs(dataset)
    located, coverage = vectors.locate(word for pair in source.pairs for word in pair)
    index = dict(zip(coverage.found, located.tolist(), strict=True))
    rows = np.array([[index.get(word, ABSENT) for word in pair] for pair in source.pairs], dtype=np.int64)
    complete = (rows != ABSENT).all(axis=1)
    used = np.flatnonzero(complete | (unknown == "mean-vector"))
    call.describe(source.name, coverage=coverage)
    n_complete = int(complete.sum())
    if unknown == "drop":
        pairs_list = ListCoverage(source.name, n_complete, len(complete), "complete pair")
    else:
        pairs_list = ListCoverage.of_words(source.name, coverage)
    call.require([pairs_list], min_share if unknown == "drop" else 0.0)
    if len(used) < MIN_ROWS:
        raise VocabularyError(
            f"{n_complete} of {len(complete)} pairs of {source.name} have both words in the vocabulary"
        )
    cosines, ratings = _cosines(vectors, rows[used]), source.ratings[used]
    constant = [name for name, column in (("cosines", cosines), ("ratings", ratings)) if np.ptp(column) <= SAME]
    if constant:
        raise DegenerateError(f"all {constant[0]} are equal, so that they have no order")
    value = float(spearman_rows(cosines[None], ratings[None])[0])
    return call.measurement(
        value,
        len(used),
        interval=rank_interval(cosines, ratings, seed=seed),
        reading=f"over {len(used)} of {len(complete)} pairs, cosines and ratings correlate with rho = {value:.2f}",
        items=tuple(
            {"first": source.pairs[row][0], "second": source.pairs[row][1], "value": float(cosine), "rating": rating}
            for row, cosine, rating in zip(used.tolist(), cosines, ratings.tolist(), strict=True)
        ),
        details={"pairs": len(complete), "pairs_complete": n_complete, "pairs_used": len(used)},
        units=(
            correlation_units(
                "pair", [" ".join(source.pairs[row]) for row in used], mean_ranks(cosines), mean_ranks(ratings)
            ),
        ),
    )


def _cosines(vectors: Vectors, rows: Rows) -> Vector64:
    """Return the cosine of each pair; an absent word has the mean vector of the vocabulary."""
    left, right = (vectors.matrix[side].astype(np.float64) for side in rows.T)
    if (rows == ABSENT).any():
        mean = vectors.matrix.mean(axis=0, dtype=np.float64)
        for side, matrix in zip(rows.T, (left, right), strict=True):
            matrix[side == ABSENT] = mean
    return np.asarray(np.einsum("ij,ij->i", unit_rows(left), unit_rows(right)))


def rank_interval(x: Vector64, y: Vector64, *, seed: int = 0) -> tuple[float, float] | None:
    """Return the percentile interval over resampled rows."""
    if len(x) < MIN_ROWS:
        return None
    rng = np.random.default_rng(seed)
    share = np.full(len(x), 1 / len(x))
    parts = [
        correlations(x, y, rng.multinomial(len(x), share, size=DRAWS_AT_ONCE))
        for _ in range(0, bootstrap.RESAMPLES, DRAWS_AT_ONCE)
    ]
    return bootstrap.interval(np.concatenate(parts))


def correlations(x: Vector64, y: Vector64, counts: NDArray[np.int64]) -> Vector64:
    """Return one value for each row of `counts`, the number of draws of each pair; NaN where a column is constant."""
    middle = (len(x) + 1) / 2  # the mean rank, ties or not
    dx, dy = _ranks(x, counts) - middle, _ranks(y, counts) - middle
    joint, squares_x, squares_y = ((counts * part).sum(axis=1) for part in (dx * dy, dx * dx, dy * dy))
    scale = np.sqrt(squares_x * squares_y)
    undefined = np.full(len(counts), np.nan)
    return np.asarray(np.divide(joint, scale, out=undefined, where=scale > 0))


def _ranks(values: Vector64, counts: NDArray[np.int64]) -> Matrix64:
    """Return the mean ranks in each draw: a value drawn g times after t lower ones has rank t + (g + 1) / 2."""
    _, level = np.unique(values, return_inverse=True)
    order = np.argsort(level, kind="stable")
    starts = np.flatnonzero(np.diff(level[order], prepend=-1))
    drawn = np.add.reduceat(counts[:, order], starts, axis=1)
    ranks = np.cumsum(drawn, axis=1) - (drawn - 1) / 2
    return np.asarray(ranks[:, level])
