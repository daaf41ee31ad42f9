"""Retention: the share of each word's nearest neighbours that a mitigation leaves in place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.measures.geometry.word_selection import VOCABULARY, Restriction
from evenhand.measures.geometry.word_selection import pool as words_of
from evenhand.measures.measurement import Measurement, undefined, word_items
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.neighbours import nearest, unit_float32
from evenhand.stats import bootstrap
from evenhand.words import Concept, WordSet, as_concept

INFO = Info(
    id="retention",
    title="Neighbours kept",
    takes="words",
    better="higher",
    formula="mean_w |NN_k(w) in these vectors n NN_k(w) in the reference| / k",
    reading="1: every word has the same k nearest words as before. Needs no rated data, so it works for any language.",
    limits=(
        "A neighbour that was there because of the bias counts as much as any other, so that a method which removes "
        "bias must lose some. It says that something changed, not whether it became worse: ask similarity and analogy."
    ),
    cites=("gonen2019",),
    queries=(VOCABULARY,),
    family="quality",
    needs_reference=True,
)


@measure(INFO)
def retention(
    vectors: Vectors,
    words: WordSet | str | Iterable[str] = VOCABULARY,
    *,
    k: int = 10,
    sample: int | None = 2_000,
    concept: Concept | str = "gender",
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Mean share of the k nearest words that are the same as in the `reference`, over a seeded sample of words.

    Neighbours are searched among the restricted vocabulary, in which words about the concept do not count.
    """
    about, rules = as_concept(concept), restriction or Restriction()
    asked, near = (
        words_of(vectors, each, concept=about, restriction=rules, reference=reference) for each in (words, VOCABULARY)
    )
    common: dict[str, Any] = {
        "query": asked.name,
        "model": vectors.name,
        "params": {"k": k, "sample": sample, "concept": about.name} | near.rules,
        "seed": seed,
    }
    drawn = asked.sample(sample, seed=seed)
    if not len(drawn) or len(near) <= k:
        return undefined("retention", f"{len(near)} words are too few for {k} neighbours", asked.coverage, **common)
    now = _neighbours(vectors, drawn.rows, near.rows, k)
    before = _neighbours(reference or vectors, drawn.reference_rows, near.reference_rows, k)
    kept = _shared(now, before)
    return Measurement(
        "retention",
        float(kept.mean()),
        len(drawn),
        asked.coverage,
        interval=bootstrap.percentile_interval(lambda rows: kept[rows].mean(axis=1), len(kept), seed=seed),
        reading=f"{100 * kept.mean():.0f} % of the {k} nearest words are the same as before",
        items=word_items(drawn.words, kept - 1),
        details={"pool": dict(near.sizes)},
        **common,
    )


def _neighbours(vectors: Vectors, rows: Rows, pool: Rows, k: int) -> Rows:
    """For each row its k nearest as places in the pool, itself left out."""
    place = np.full(len(vectors), -1)
    place[pool] = np.arange(len(pool))
    return nearest(unit_float32(vectors, rows), unit_float32(vectors, pool), k, exclude=place[rows])[0]


def _shared(first: Rows, second: Rows) -> Vector64:
    """Share of each row's entries that the same row of the other has too."""
    return np.asarray((first[:, :, None] == second[:, None, :]).any(axis=2).mean(axis=1), dtype=np.float64)
