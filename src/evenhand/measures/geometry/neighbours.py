"""Bias by neighbours: are biased words still surrounded by words of the same side? (Gonen & Goldberg 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np

from evenhand.arrays import Vector64
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.geometry.bias_score import Pair, Score, leaning, pole_pair
from evenhand.measures.geometry.graph import graph
from evenhand.measures.geometry.intervals import resampled
from evenhand.measures.geometry.word_selection import VOCABULARY, Restriction
from evenhand.measures.geometry.word_selection import pool as words_of
from evenhand.measures.measurement import Measurement, undefined, word_items
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats.correlation import pearson_rows, spearman_rows
from evenhand.words import Concept, WordSet, as_concept

INFO = Info(
    id="neighbours",
    title="Bias by neighbours",
    takes="words",
    better="zero",
    formula="r(bias of w in the reference, share of the k nearest words of w that lean to the positive pole)",
    reading="Near 1: words that leaned to a side before are still among words that leaned to it. 0: no trace is left.",
    limits=(
        "A correlation says how well the order is kept, not how strong the bias is; neighbourhoods overlap, so that "
        "the interval, which takes words as independent, is too narrow."
    ),
    cites=("gonen2019",),
    queries=(VOCABULARY, "bolukbasi2016-professions"),
    family="geometry",
    needs_reference=True,
)
Statistic = Literal["pearson", "spearman"]
CORRELATIONS = {"pearson": pearson_rows, "spearman": spearman_rows}


@measure(INFO)
def neighbours(
    vectors: Vectors,
    words: WordSet | str | Iterable[str] = VOCABULARY,
    *,
    k: int = 100,
    sample: int | None = 2_000,
    pool: WordSet | str | Iterable[str] = VOCABULARY,
    statistic: Statistic = "pearson",
    score: Score = "cosine",
    pair: Pair | None = None,
    concept: Concept | str = "gender",
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Correlation between a word's bias in the `reference` and the share of its neighbours on the positive side.

    The k nearest words are searched in these vectors among the `pool` (the whole restricted vocabulary by default),
    each labelled by the sign of its score in the reference. With words="bolukbasi2016-professions" it is the paper's
    experiment on professions. Of a longer list `sample` words are drawn with the seed; None asks all.

    What it does not tell you: how strong the bias is. See `evenhand show neighbours`.
    """
    if statistic not in get_args(Statistic):
        raise UsageError(f"unknown correlation {statistic!r}", hint="use pearson or spearman")
    about, rules, before = as_concept(concept), restriction or Restriction(), reference or vectors
    ends = pole_pair(about, pair)
    asked, near = (
        words_of(vectors, each, concept=about, restriction=rules, reference=reference) for each in (words, pool)
    )
    chosen = {
        "k": k,
        "sample": sample,
        "pool": near.name,
        "statistic": statistic,
        "score": score,
        "pair": list(ends),
    }
    common: dict[str, Any] = {
        "query": asked.name,
        "model": vectors.name,
        "positive": about.positive,
        "params": {"concept": about.name} | chosen | near.rules,
        "seed": seed,
    }
    drawn = asked.sample(sample, seed=seed)
    try:
        bias = leaning(before, drawn.reference_rows, ends, score=score)
        sides = leaning(before, near.reference_rows, ends, score=score) > 0
        edges = graph(vectors, drawn, near, k=k)
        shares = sides[edges.neighbours].mean(axis=1)
        values = {name: _correlation(name, bias, shares) for name in CORRELATIONS}
    except (DegenerateError, VocabularyError) as error:
        return undefined("neighbours", error.message, asked.coverage, **common)
    return Measurement(
        "neighbours",
        values[statistic],
        len(drawn),
        asked.coverage,
        interval=resampled(lambda rows: CORRELATIONS[statistic](bias[rows], shares[rows]), len(drawn), seed=seed),
        reading=f"bias before and the neighbours now go together with r = {values[statistic]:.2f}",
        items=word_items(drawn.words, bias, neighbours=shares.tolist()),
        details=values
        | {"k": edges.k, "positive_in_pool": float(sides.mean()), "sizes": dict(asked.sizes), "pool": dict(near.sizes)},
        **common,
    )


def _correlation(name: str, bias: Vector64, shares: Vector64) -> float:
    value = float(CORRELATIONS[name](bias[None], shares[None])[0])
    if not np.isfinite(value):
        raise DegenerateError("the bias of the words, or the share of their neighbours, does not vary")
    return value
