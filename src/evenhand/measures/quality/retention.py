"""Retention: the share of each word's nearest neighbours that a mitigation leaves in place."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.errors import DegenerateError
from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.geometry.word_selection import VOCABULARY, Restriction, Words, select_words
from evenhand.measures.measurement import Measurement, word_items
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.neighbours import nearest, unit_float32
from evenhand.stats import mean_interval
from evenhand.stats.units import mean_units
from evenhand.words import Concept, as_concept

INFO = Info(
    id="retention",
    title="Neighbours kept",
    takes="words",
    better="higher",
    formula="mean_w |NN_k(w) in these vectors n NN_k(w) in the reference| / k",
    reading="1: every word has the same k nearest words as before. Needs no rated data, so it works for any language.",
    limits=(
        "A neighbour that was there because of the bias counts as much as any other, so that a method which removes "
        "bias must lose some. It says that something changed, not whether it got worse: see similarity and analogy."
    ),
    cites=("gonen2019",),
    queries=(VOCABULARY,),
    family="quality",
    needs_reference=True,
    definition=3,
    role="moved",
)


@measure(INFO)
def retention(
    call: Call,
    vectors: Vectors,
    words: Words = VOCABULARY,
    *,
    k: int = 10,
    sample: int | None = 2_000,
    min_share: float = MIN_SHARE,
    concept: Concept | str = "gender",
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the mean share of the k nearest words that are the same as in the reference.

    Args:
        vectors: the vectors to measure.
        words: a list of words, its id or its file; the restricted vocabulary by default.
        k: number of neighbours.
        sample: number of words drawn from a longer list; None takes all.
        min_share: smallest share of the words that the vocabulary must have.
        concept: neighbours are searched in the restricted vocabulary, without the words of this concept.
        restriction: how the vocabulary is restricted.
        reference: vectors before mitigation; these vectors by default, which gives 1.
        seed: seed of the sample.

    Returns:
        The mean share, with the loss of each word (share - 1) in `items`.

    What it does not tell you: whether the neighbours that changed were worth keeping.
    """
    concept = as_concept(concept)
    selection, pool = (
        select_words(vectors, each, concept=concept, restriction=restriction, reference=reference)
        for each in (words, VOCABULARY)
    )
    call.describe(selection.name, coverage=selection.coverage, params=pool.restriction)
    call.require(selection.lists(), min_share)
    if len(pool) <= k:
        raise DegenerateError(f"{len(pool)} words are too few for {k} neighbours")
    drawn = selection.sample(sample, seed=seed)
    now = _neighbours(vectors, drawn.rows, pool.rows, k)
    original = _neighbours(reference or vectors, drawn.reference_rows, pool.reference_rows, k)
    shares = _shared(now, original)
    return call.measurement(
        float(shares.mean()),
        len(drawn),
        interval=mean_interval(shares, limits=(0.0, 1.0)),
        reading=f"{100 * shares.mean():.0f} % of the {k} nearest words are the same as before",
        items=word_items(drawn.words, shares - 1),
        units=(mean_units("word", drawn.words, shares),),
        details={"pool": dict(pool.sizes)},
    )


def _neighbours(vectors: Vectors, rows: Rows, pool: Rows, k: int) -> Rows:
    """Return the k nearest of each row as indices into the pool, without the row itself."""
    index = np.full(len(vectors), -1)
    index[pool] = np.arange(len(pool))
    return nearest(unit_float32(vectors, rows), unit_float32(vectors, pool), k, exclude=index[rows])[0]


def _shared(first: Rows, second: Rows) -> Vector64:
    """Return the share of each row's entries that the same row of the other has too."""
    return np.asarray((first[:, :, None] == second[:, None, :]).any(axis=2).mean(axis=1), dtype=np.float64)
