"""Word similarity: do near vectors belong to words that people call similar?"""

from __future__ import annotations

import os
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import UsageError
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.quality.rated_sets import RatedPairs, here, rated_pairs
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats import bootstrap
from evenhand.stats.correlation import spearman_rows

SETS = ("rg-65", "ws-353", "mturk-287", "mturk-771", "men", "simlex-999", "rw")
Unknown = Literal["drop", "mean-vector"]
ABSENT = -1
SAME = 1e-9  # cosines of float32 vectors that differ by less differ by rounding


def available() -> tuple[str, ...]:
    """The sets that lie on this disk."""
    return here("similarity", SETS)


INFO = Info(
    id="similarity",
    title="Word similarity",
    takes="dataset",
    better="higher",
    formula="rho = Pearson(rank cos(a, b), rank rating(a, b)) over the pairs; equal values share their mean rank",
    reading="1: cosines order the pairs as people do. 0: no relation. Compare before and after on the same pairs only.",
    limits=(
        "Ratings mix similarity (car, automobile) with relatedness (car, road), and differ between sets; a set of 65 "
        "nouns has a wide interval. It does not tell whether a task that uses the vectors got better or worse."
    ),
    cites=("rubenstein1965", "finkelstein2002", "radinsky2011", "halawi2012", "bruni2014", "hill2015", "luong2013"),
    queries=(),
    available=available,
    family="quality",
)


@measure(INFO)
def similarity(
    vectors: Vectors,
    dataset: RatedPairs | str | os.PathLike[str],
    *,
    unknown: Unknown = "drop",
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Spearman's rank correlation between cosine and human rating, with a bootstrap interval over the pairs.

    `dataset` is an id of the catalog (rg-65, ws-353, mturk-287, mturk-771, men, simlex-999, rw, ...) or a file with
    word, word and rating on a line. A pair with an unknown word is dropped and counted; `unknown="mean-vector"` gives
    such a word the mean of the vocabulary instead, as the web benchmarks package (Jastrzebski et al. 2017) does, so
    that vectors with different vocabularies answer the same pairs.

    What it does not tell you: what a drop of a few hundredths costs in a task. See `evenhand show similarity`.
    """
    if unknown not in ("drop", "mean-vector"):
        raise UsageError(f"unknown policy {unknown!r} for words without a vector", hint="use drop or mean-vector")
    asked = rated_pairs(dataset)
    found, coverage = vectors.locate(word for two in asked.pairs for word in two)
    place = dict(zip(coverage.found, found.tolist(), strict=True))
    rows = np.array([[place.get(word, ABSENT) for word in two] for two in asked.pairs], dtype=np.int64)
    known = (rows != ABSENT).all(axis=1)
    kept = np.flatnonzero(known | (unknown == "mean-vector"))
    common = {
        "query": asked.name,
        "model": vectors.name,
        "params": {"unknown": unknown, "case": vectors.case},
        "seed": seed,
    }
    if len(place) == 0 or len(kept) < MIN_ROWS:
        reason = f"{int(known.sum())} of {len(known)} pairs of {asked.name} have both words in the vocabulary"
        return undefined("similarity", reason, coverage, **common)
    cosines, ratings = _cosines(vectors, rows[kept]), asked.ratings[kept]
    flat = [name for name, column in (("cosines", cosines), ("ratings", ratings)) if np.ptp(column) <= SAME]
    if flat:
        return undefined("similarity", f"all {flat[0]} are equal, so that they have no order", coverage, **common)
    value = float(spearman_rows(cosines[None], ratings[None])[0])
    return Measurement(
        "similarity",
        value,
        len(kept),
        coverage,
        interval=rank_interval(cosines, ratings, seed=seed),
        reading=f"over {len(kept)} of {len(known)} pairs, cosines and ratings agree in order to {value:.2f}",
        items=tuple(
            {"first": asked.pairs[row][0], "second": asked.pairs[row][1], "value": float(cosine), "rating": rating}
            for row, cosine, rating in zip(kept.tolist(), cosines, ratings.tolist(), strict=True)
        ),
        details={"pairs": len(known), "pairs_complete": int(known.sum()), "pairs_used": len(kept)},
        **common,  # type: ignore[arg-type]
    )


def _cosines(vectors: Vectors, rows: Rows) -> Vector64:
    """Cosine of each pair; an absent word has the mean vector of the vocabulary."""
    left, right = (vectors.matrix[side].astype(np.float64) for side in rows.T)
    if (rows == ABSENT).any():
        mean = vectors.matrix.mean(axis=0, dtype=np.float64)
        for side, matrix in zip(rows.T, (left, right), strict=True):
            matrix[side == ABSENT] = mean
    return np.asarray(np.einsum("ij,ij->i", unit_rows(left), unit_rows(right)))


DRAWS_AT_ONCE = 200
MIN_ROWS = 3


def rank_interval(x: Vector64, y: Vector64, *, seed: int = 0) -> tuple[float, float] | None:
    """Percentile interval over resampled rows."""
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
    """One value for each line of `counts`, which says how often each row was drawn; NaN where a column is constant."""
    middle = (len(x) + 1) / 2  # the mean rank, ties or not
    dx, dy = _ranks(x, counts) - middle, _ranks(y, counts) - middle
    joint, squares_x, squares_y = ((counts * part).sum(axis=1) for part in (dx * dy, dx * dx, dy * dy))
    scale = np.sqrt(squares_x * squares_y)
    undefined = np.full(len(counts), np.nan)
    return np.asarray(np.divide(joint, scale, out=undefined, where=scale > 0))


def _ranks(values: Vector64, counts: NDArray[np.int64]) -> Matrix64:
    """Mean ranks inside each drawing: a value drawn g times after others drawn t times has rank t + (g + 1) / 2."""
    _, place = np.unique(values, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    drawn = np.add.reduceat(counts[:, order], starts, axis=1)
    ranks = np.cumsum(drawn, axis=1) - (drawn - 1) / 2
    return np.asarray(ranks[:, place])
