"""Occupations: does the lean of an occupation's word follow the real share of women in it? (Caliskan et al. 2017)."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from evenhand.errors import DegenerateError, UsageError, VocabularyError, unknown_name
from evenhand.measures.geometry.bias_score import Pair, Score, leaning, pole_pair
from evenhand.measures.measurement import Measurement, undefined, word_items
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats import pearson, spearman
from evenhand.words import Concept, WordSet, as_concept, wordset

INFO = Info(
    id="occupation-share",
    title="Occupations and the real share of women",
    takes="words",
    better="zero",
    formula="r(cos(w, she) - cos(w, he), percentage of women in occupation w)",
    reading="Near 1: the vectors order occupations as the labour market does. 0: they do not tell the order.",
    limits=(
        "Following the statistics of one country and year is not the same as being unfair, and not following them is "
        "no proof of fairness. 40 occupations leave a wide interval, and some words have other meanings (sewer, chief)."
    ),
    cites=("caliskan2017", "zhao2018gender"),
    queries=("occupations-share-of-women",),
    family="geometry",
    concepts=("gender",),
)
Statistic = Literal["pearson", "spearman"]


@measure(INFO)
def occupation_share(
    vectors: Vectors,
    words: WordSet | str = "occupations-share-of-women",
    *,
    column: str | None = None,
    statistic: Statistic = "pearson",
    score: Score = "cosine",
    pair: Pair | None = None,
    concept: Concept | str = "gender",
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Correlation of each word's lean with the number that the word set gives beside it.

    The lean is that of these very vectors; `column` names the numbers, the first of the word set unless said. The
    interval is a bootstrap over words; the details have both coefficients and the range with one word left out.

    What it does not tell you: whether following the statistics is fair. See `evenhand show occupation-share`.
    """
    if statistic not in get_args(Statistic):
        raise UsageError(f"unknown correlation {statistic!r}", hint="use pearson or spearman")
    asked, about = wordset(words), as_concept(concept)
    facts, ends = _facts(asked, column), pole_pair(about, pair)
    rows, coverage = vectors.locate(asked)
    common: dict[str, Any] = {
        "query": asked.name,
        "model": vectors.name,
        "positive": about.positive,
        "params": {"concept": about.name, "pair": list(ends), "score": score, "statistic": statistic, "column": column},
        "seed": seed,
    }
    shares = np.array([facts[word] for word in coverage.found])
    try:
        leans = leaning(vectors, rows, ends, score=score)
        found = {kind.kind: kind for kind in (pearson(leans, shares, seed=seed), spearman(leans, shares, seed=seed))}
    except (DegenerateError, VocabularyError) as error:
        return undefined("occupation-share", error.message, coverage, **common)
    answer = found[statistic]
    return Measurement(
        "occupation-share",
        answer.value,
        answer.n,
        coverage,
        interval=answer.interval,
        reading=f"the order of the vectors follows the numbers with r = {answer.value:.2f}",
        items=word_items(coverage.found, leans, share=shares.tolist()),
        details={name: kind.value for name, kind in found.items()} | {"leave_one_out": answer.leave_one_out},
        **common,
    )


def _facts(asked: WordSet, column: str | None) -> dict[str, float]:
    """The number beside each word."""
    if not asked.scores:
        raise UsageError(f"word set {asked.name!r} has no numbers", hint="use occupations-share-of-women, or give rows")
    name = column or next(iter(asked.scores))
    if name not in asked.scores:
        raise unknown_name(f"column of {asked.name!r}", name, asked.scores)
    return dict(zip(asked.words, asked.scores[name], strict=True))
