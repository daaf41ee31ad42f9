"""Occupations: does the bias score of an occupation follow the real share of women in it? (Caliskan et al. 2017)."""

from __future__ import annotations

from typing import get_args

import numpy as np

from evenhand.errors import UsageError, unknown_name
from evenhand.measures.call import MIN_SHARE, Call, ListCoverage, measure
from evenhand.measures.geometry.biased_words import BiasScore, PolePair, bias_scores, concept_poles
from evenhand.measures.measurement import Measurement, word_items
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import pearson, spearman
from evenhand.stats.correlation import CorrelationName, correlation_p, mean_ranks
from evenhand.stats.units import correlation_units
from evenhand.words import Concept, WordSet, as_concept
from evenhand.words import wordset as find_wordset

INFO = Info(
    id="occupation-share",
    title="Occupations and the real share of women",
    takes="words",
    better="zero",
    null=0.0,
    formula="r(cos(w, she) - cos(w, he), percentage of women in occupation w)",
    reading="Near 1: the vectors order occupations as the labour market does. 0: the two orders are unrelated.",
    limits=(
        "Following the statistics of one country and year is not the same as being unfair, and not following them does "
        "not prove fairness. 40 occupations leave a wide interval, and some words have other meanings (sewer, chief)."
    ),
    cites=("caliskan2017", "zhao2018gender"),
    queries=("occupations-share-of-women",),
    family="geometry",
    concepts=("gender",),
    definition=3,
    two_groups=True,
    plain=2,
    charts=("occupations", "measure-agreement"),
)


@measure(INFO)
def occupation_share(
    call: Call,
    vectors: Vectors,
    words: WordSet | str = "occupations-share-of-women",
    *,
    column: str | None = None,
    statistic: CorrelationName = "pearson",
    score: BiasScore = "cosine",
    pair: PolePair | None = None,
    min_share: float = MIN_SHARE,
    concept: Concept | str = "gender",
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the correlation of each word's bias score with the number that the word set gives for it.

    Args:
        vectors: the vectors to measure.
        words: a word set with numbers, its id or its file.
        column: name of the numbers; the first column of the word set by default.
        statistic: "pearson" or "spearman".
        score: the bias score in these vectors, see `bias_scores`.
        pair: the two poles; by default those of the concept.
        min_share: smallest share of the words, and of the concept's groups, that the vocabulary must have.
        concept: the concept that the numbers are about. Without a published pair, its positive group is compared with
            all others together.
        reference: vectors before mitigation.
        seed: seed of the bootstrap over words for Spearman's correlation.

    Returns:
        The correlation, with score and number of each word in `items`, and both coefficients and their range with one
        word left out in `details`.

    What it does not tell you: whether following the statistics is fair. See `evenhand show occupation-share`.
    """
    if statistic not in get_args(CorrelationName):
        raise UsageError(f"unknown correlation {statistic!r}", hint="use pearson or spearman")
    wordset, concept = find_wordset(words), as_concept(concept)
    numbers, poles = _numbers(wordset, column), concept_poles(concept, pair)
    rows, coverage = vectors.locate(wordset)
    call.describe(wordset.name, positive=concept.positive, coverage=coverage, params=poles.to_dict())
    call.require((ListCoverage.of_words(wordset.name, coverage), *poles.lists(vectors)), min_share)
    shares = np.array([numbers[word] for word in coverage.found])
    scores = bias_scores(vectors, rows, poles, score=score)
    correlations = {c.kind: c for c in (pearson(scores, shares), spearman(scores, shares, seed=seed))}
    chosen = correlations[statistic]
    ranked = (scores, shares) if statistic == "pearson" else (mean_ranks(scores), mean_ranks(shares))
    return call.measurement(
        chosen.value,
        chosen.n,
        interval=chosen.interval,
        reading=f"the bias of occupations follows the real shares with r = {chosen.value:.2f}",
        p_value=correlation_p(*ranked, seed=seed),
        items=word_items(coverage.found, scores, share=shares.tolist()),
        units=(correlation_units("word", coverage.found, *ranked),),
        details={
            **{kind: correlation.value for kind, correlation in correlations.items()},
            "leave_one_out": chosen.leave_one_out,
        },
    )


def _numbers(wordset: WordSet, column: str | None) -> dict[str, float]:
    """Return the number of each word."""
    if not wordset.scores:
        raise UsageError(
            f"word set {wordset.name!r} has no numbers", hint="use occupations-share-of-women, or give rows"
        )
    name = column or next(iter(wordset.scores))
    if name not in wordset.scores:
        raise unknown_name(f"column of {wordset.name!r}", name, wordset.scores)
    return dict(zip(wordset.words, wordset.scores[name], strict=True))
