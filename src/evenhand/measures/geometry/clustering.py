"""Clustering: do the most biased words still fall into two clusters after mitigation? (Gonen & Goldberg 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, as_float64, unit_rows
from evenhand.arrays import Rows as Labels
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.geometry.bias_score import Pair, Score, pole_pair
from evenhand.measures.geometry.intervals import resampled
from evenhand.measures.geometry.word_selection import VOCABULARY, Restriction, extremes, pool
from evenhand.measures.measurement import Measurement, undefined, word_items
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats.bootstrap import Interval
from evenhand.words import Concept, WordSet, as_concept


def tables(labels: Labels, clusters: Labels) -> Matrix64:
    """Counts (..., 2, 2) of label x cluster along the last axis of both."""
    cells = 2 * labels + clusters
    counts = np.stack([(cells == cell).sum(axis=-1) for cell in range(4)], axis=-1)
    return counts.reshape(*counts.shape[:-1], 2, 2).astype(np.float64)


def accuracy(counts: Matrix64) -> Vector64:
    """The share of words in the right cluster under the better of the two namings: 0.5 is chance, 1 perfect."""
    straight = counts[..., 0, 0] + counts[..., 1, 1]
    total = counts.sum(axis=(-2, -1))
    return np.asarray(np.maximum(straight, total - straight) / total)


def v_measure(counts: Matrix64) -> Vector64:
    """Harmonic mean of homogeneity and completeness (Rosenberg & Hirschberg 2007): 0 independent, 1 perfect.

    It is 2 I / (H(labels) + H(clusters)); one label and one cluster agree perfectly, as the paper defines it.
    """
    shares = counts / counts.sum(axis=(-2, -1), keepdims=True)
    labels, clusters = _entropy(shares.sum(axis=-1)), _entropy(shares.sum(axis=-2))
    shared = labels + clusters - _entropy(shares.reshape(*shares.shape[:-2], 4))
    total = labels + clusters
    return np.asarray(np.divide(2 * shared, total, out=np.ones_like(total), where=total > 0))


INFO = Info(
    id="clustering",
    title="Clustering of biased words",
    takes="words",
    better="lower",
    formula="accuracy (or v-measure) of 2-means against the side of the n + n most biased words of the reference",
    reading="Accuracy 0.5 (v-measure 0): the two sides are mixed. 1: the clusters are exactly the two sides.",
    limits=(
        "The words are chosen by their bias, so that vectors before any mitigation are near 1 by construction; only "
        "what is left afterwards tells. 2-means finds the strongest division of these words, which may have another "
        "cause, and a low value does not keep a classifier from finding the sides."
    ),
    cites=("gonen2019", "wang2020", "dawkins2021"),
    queries=(VOCABULARY,),
    family="geometry",
    needs_reference=True,
)
Agreement = Literal["accuracy", "v-measure"]
SAME_POINT = 1e-6  # of the largest coordinate: the precision of float32 vectors
FUNCTIONS = {"accuracy": accuracy, "v-measure": v_measure}


@measure(INFO)
def clustering(
    vectors: Vectors,
    words: WordSet | str | Iterable[str] = VOCABULARY,
    *,
    per_side: int = 500,
    value: Agreement = "accuracy",
    score: Score = "cosine",
    pair: Pair | None = None,
    normalise: bool = False,
    runs: int = 5,
    starts: int = 10,
    concept: Concept | str = "gender",
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Mean agreement of `runs` seeded 2-means (each the best of `starts`) with the side of the most biased words.

    Gonen & Goldberg take 500 words a side by cos(w, he) - cos(w, she) and report accuracy, Dawkins 1,500 by projection
    and v-measure, Wang 100, 500 and 1,000. The words are chosen in the `reference`; the clusters are of these vectors,
    at their own lengths unless `normalise`. The details have the range over the seeds, which can be wide where
    clusters are weak, and under "before" the same numbers in the reference. The interval is over words and seeds.

    What it does not tell you: that bias is gone when it is low. See `evenhand show clustering`.
    """
    if value not in get_args(Agreement):
        raise UsageError(f"unknown value {value!r}", hint="use accuracy or v-measure")
    if runs < 1 or starts < 1:
        raise UsageError(f"at least one run and one start are needed, got runs={runs}, starts={starts}")
    about, before = as_concept(concept), reference or vectors
    ends = pole_pair(about, pair)
    every = pool(vectors, words, concept=about, restriction=restriction or Restriction(), reference=reference)
    chosen = {
        "per_side": per_side,
        "value": value,
        "score": score,
        "normalise": normalise,
        "runs": runs,
    }
    common: dict[str, Any] = {
        "query": every.name,
        "model": vectors.name,
        "params": {"concept": about.name, "pair": list(ends), "starts": starts} | chosen | every.rules,
        "seed": seed,
    }
    cluster = partial(two_means, normalise=normalise, runs=runs, starts=starts, seed=seed)
    try:
        sides = extremes(every, before, ends, score=score, per_side=per_side)
        clusters = cluster(sides.chosen.matrix(vectors))
        earlier = None if before is vectors else cluster(as_float64(before.matrix[sides.chosen.reference_rows]))
    except (DegenerateError, VocabularyError) as error:
        return undefined("clustering", error.message, every.coverage, **common)
    counts = tables(sides.labels, clusters)
    found = 100 * accuracy(counts).mean()
    return Measurement(
        "clustering",
        float(FUNCTIONS[value](counts).mean()),
        len(sides.chosen),
        every.coverage,
        interval=_interval(sides.labels, clusters, value, seed),
        reading=f"2-means finds the side of {found:.1f} % of the words (50 % is chance)",
        items=word_items(sides.chosen.words, sides.scores, cluster=clusters[0].tolist()),
        details=sides.to_dict()
        | _ranges(sides.labels, clusters)
        | ({} if earlier is None else {"before": _ranges(sides.labels, earlier)}),
        **common,
    )


def two_means(rows: Matrix64, *, normalise: bool, runs: int, starts: int, seed: int) -> Rows:
    """(runs, words): the cluster of each word, each run with a seed of its own."""
    from sklearn.cluster import KMeans  # costs more to import than everything else here

    scaled = unit_rows(rows) if normalise else rows
    if np.ptp(scaled, axis=0).max() <= SAME_POINT * max(1.0, float(np.abs(scaled).max())):
        raise DegenerateError("all chosen words have the same vector, so that there are no clusters")
    found = [KMeans(2, n_init=starts, random_state=seed + run).fit_predict(scaled) for run in range(runs)]
    return np.asarray(found, dtype=np.int64)


def _ranges(labels: Rows, clusters: Rows) -> dict[str, Any]:
    """Mean, least and most of both agreements over the runs."""
    counts = tables(labels, clusters)
    values = {name: function(counts) for name, function in FUNCTIONS.items()}
    return {
        name: {"mean": float(v.mean()), "least": float(v.min()), "most": float(v.max())} for name, v in values.items()
    }


def _interval(labels: Rows, clusters: Rows, value: Agreement, seed: int) -> Interval:
    """Words are drawn with replacement, and each draw takes one of the runs, so that both spread the interval."""
    rng = np.random.default_rng(seed)

    def drawn(rows: Rows) -> Vector64:
        run = rng.integers(len(clusters), size=(len(rows), 1))
        return FUNCTIONS[value](tables(labels[rows], clusters[run, rows]))

    return resampled(drawn, len(labels), seed=seed + 1)


def _entropy(shares: Matrix64) -> Vector64:
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray(-(shares * logs).sum(axis=-1))
