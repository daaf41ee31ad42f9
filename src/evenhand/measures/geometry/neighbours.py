"""Bias by neighbours: are biased words still surrounded by words of the same side? (Gonen & Goldberg 2019)."""

from __future__ import annotations

from typing import get_args

import numpy as np

from evenhand.arrays import Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.call import MIN_SHARE, Call, measure, word_interval
from evenhand.measures.geometry.biased_words import (
    VOCABULARY,
    BiasScore,
    PolePair,
    Restriction,
    WordSource,
    bias_scores,
    concept_poles,
    select_words,
)
from evenhand.measures.geometry.proximity_bias import neighbour_graph
from evenhand.measures.measurement import Measurement, word_items
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats.bootstrap import Interval
from evenhand.stats.correlation import (
    CorrelationName,
    correlation_p,
    mean_ranks,
    pearson_interval,
    pearson_rows,
    spearman_rows,
)
from evenhand.stats.units import correlation_units
from evenhand.words import Concept, as_concept

INFO = Info(
    id="neighbours",
    title="Bias by neighbours",
    takes="words",
    better="zero",
    null=0.0,
    formula="r(bias of w in the reference, share of the k nearest words of w that are on the positive side)",
    reading="Near 1: words that were biased to a side are still among words biased to it. 0: no trace is left.",
    limits=(
        "A correlation says how well the order is kept, not how strong the bias is; neighbourhoods overlap, so that "
        "the interval, which takes words as independent, is too narrow."
    ),
    cites=("gonen2019",),
    queries=(VOCABULARY, "bolukbasi2016-professions"),
    family="geometry",
    needs_reference=True,
    definition=3,
    two_groups=True,
    role="left",
    in_tradeoff=True,
    plain=5,
    charts=("neighbour-bias", "measure-agreement"),
)
PAIRINGS = 1_999  # random ones, for the p-value
CORRELATIONS = {"pearson": pearson_rows, "spearman": spearman_rows}


@measure(INFO)
def neighbours(
    call: Call,
    vectors: Vectors,
    words: WordSource = VOCABULARY,
    *,
    k: int = 100,
    sample: int | None = 2_000,
    pool: WordSource = VOCABULARY,
    statistic: CorrelationName = "pearson",
    score: BiasScore = "cosine",
    pair: PolePair | None = None,
    min_share: float = MIN_SHARE,
    concept: Concept | str = "gender",
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the correlation between a word's original bias and the share of its neighbours on the positive side.

    Args:
        vectors: the vectors to measure; neighbours are searched in them.
        words: a list of words, its id or its file; the restricted vocabulary by default. With
            "bolukbasi2016-professions" it is the paper's experiment on professions.
        k: number of neighbours of each word.
        sample: number of words drawn from a longer list; None takes all.
        pool: where neighbours are searched; the whole restricted vocabulary by default. Each is labelled by the sign
            of its bias score in the reference.
        statistic: "pearson" or "spearman".
        score: the bias score, see `bias_scores`.
        pair: the two poles; by default those of the concept.
        min_share: smallest share of the words, and of the concept's groups, that the vocabulary must have.
        concept: the concept. Without a published pair, its positive group is compared with all others together.
        restriction: how the vocabulary is restricted.
        reference: vectors before mitigation, which hold the original bias; these vectors by default.
        seed: seed of the sample, and of the bootstrap over words for Spearman's correlation.

    Returns:
        The correlation, with bias and share of each word in `items`.

    What it does not tell you: how strong the bias is. See `evenhand show neighbours`.
    """
    if statistic not in get_args(CorrelationName):
        raise UsageError(f"unknown correlation {statistic!r}", hint="use pearson or spearman")
    concept, original = as_concept(concept), reference or vectors
    poles = concept_poles(concept, pair)
    selection, candidates = (
        select_words(vectors, each, concept=concept, restriction=restriction, reference=reference)
        for each in (words, pool)
    )
    took_effect = {"pool": candidates.name, **poles.to_dict(), **candidates.restriction}
    call.describe(selection.name, positive=concept.positive, coverage=selection.coverage, params=took_effect)
    call.require((*selection.lists(), *poles.lists(original)), min_share)
    sources = selection.sample(sample, seed=seed)
    bias = bias_scores(original, sources.reference_rows, poles, score=score)
    positive = bias_scores(original, candidates.reference_rows, poles, score=score) > 0
    graph = neighbour_graph(vectors, sources, candidates, k=k)
    shares = positive[graph.neighbours].mean(axis=1)
    values = {name: _correlation(name, bias, shares) for name in CORRELATIONS}
    ranked = (bias, shares) if statistic == "pearson" else (mean_ranks(bias), mean_ranks(shares))
    return call.measurement(
        values[statistic],
        len(sources),
        interval=_interval(statistic, bias, shares, seed),
        reading=f"the original bias still predicts today's neighbours (r = {values[statistic]:.2f})",
        p_value=correlation_p(*ranked, samples=PAIRINGS, seed=seed),
        items=word_items(sources.words, bias, neighbours=shares.tolist()),
        units=(correlation_units("word", sources.words, *ranked),),
        details={
            **values,
            "k": graph.k,
            "positive_in_pool": float(positive.mean()),
            "sizes": dict(selection.sizes),
            "pool": dict(candidates.sizes),
        },
    )


def _correlation(name: str, bias: Vector64, shares: Vector64) -> float:
    value = float(CORRELATIONS[name](bias[None], shares[None])[0])
    if not np.isfinite(value):
        raise DegenerateError("the bias of the words, or the share of their neighbours, does not vary")
    return value


def _interval(statistic: str, bias: Vector64, shares: Vector64, seed: int) -> Interval:
    if statistic == "pearson":
        return pearson_interval(bias, shares)
    return word_interval(lambda rows: spearman_rows(bias[rows], shares[rows]), len(bias), seed=seed)
