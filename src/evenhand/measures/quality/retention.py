"""Retention: how far a method moves words among their neighbours, and sentences among each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import DegenerateError
from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.geometry.biased_words import VOCABULARY, Restriction, WordSource, select_words
from evenhand.measures.likelihood.perplexity import NEUTRAL_TEXT, read_lines
from evenhand.measures.measurement import Measurement, word_items
from evenhand.measures.registry import Info
from evenhand.models.encoders.sentences import Pooling, SentenceEncoder, layer_number
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.neighbours import neighbours_among
from evenhand.stats import mean_interval
from evenhand.stats.bootstrap import Interval, interval, resamples
from evenhand.stats.correlation import spearman_rows
from evenhand.stats.units import mean_units
from evenhand.words import Concept, as_concept

RETENTION_INFO = Info(
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


@measure(RETENTION_INFO)
def retention(
    call: Call,
    vectors: Vectors,
    words: WordSource = VOCABULARY,
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
    now = neighbours_among(vectors, drawn.rows, pool.rows, k)
    original = neighbours_among(reference or vectors, drawn.reference_rows, pool.reference_rows, k)
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


def _shared(first: Rows, second: Rows) -> Vector64:
    """Return the share of each row's entries that the same row of the other has too."""
    return np.asarray((first[:, :, None] == second[:, None, :]).any(axis=2).mean(axis=1), dtype=np.float64)


FEWEST = 5
DRAWS = 500
SENTENCE_RETENTION_INFO = Info(
    id="sentence-retention",
    title="Similarity of sentences kept",
    takes="text",
    better="higher",
    formula="Spearman's rho over all pairs of sentences: cosine in this model with cosine in the reference",
    reading="1: the sentences are in the same order of similarity as before. Needs no rated data.",
    limits=(
        "The sentences name nobody, so that what a method removes on purpose counts little. It says that something "
        "changed, not whether it got worse: measure the task that the encoder is used for."
    ),
    cites=("reimers2019",),
    queries=(NEUTRAL_TEXT,),
    view="sentences",
    family="quality",
    needs_reference=True,
    role="moved",
)


@measure(SENTENCE_RETENTION_INFO)
def sentence_retention(
    call: Call,
    view: SentenceEncoder,
    text: str | Path | Sequence[str] = NEUTRAL_TEXT,
    *,
    layer: int | None = None,
    pooling: Pooling | None = None,
    reference: SentenceEncoder | None = None,
    seed: int = 0,
) -> Measurement:
    """Correlate the cosines of all pairs of sentences with those before mitigation.

    Args:
        view: a sentence encoder, or the `sentences` view of a subject.
        text: path of a text file, a list of sentences, or `neutral-text` for those that come with evenhand.
        layer: the layer to read; the last one by default.
        pooling: how token vectors are joined; the model's own way by default.
        reference: the encoder before mitigation; this encoder by default, which gives 1.
        seed: seed of the bootstrap over sentences.
    """
    name, lines = read_lines(text)
    call.describe(name, params={"layer": layer_number(layer, view.layers), "pooling": pooling or view.pooling})
    if len(lines) < FEWEST:
        raise DegenerateError(f"{len(lines)} sentences are too few; at least {FEWEST} are needed")
    now, before = (_cosines(encoder, lines, layer, pooling) for encoder in (view, reference or view))
    upper = np.triu_indices(len(lines), 1)
    value = float(spearman_rows(now[upper][None], before[upper][None])[0])
    if not np.isfinite(value):
        raise DegenerateError("all sentences are equally similar to each other")
    change = np.abs(now - before)[upper]
    return call.measurement(
        value,
        len(lines),
        interval=sentence_interval(now, before, seed),
        reading=f"the order of similarities correlates with that before by {value:.3f}",
        details={"pairs": len(change), "mean_change": float(change.mean()), "largest_change": float(change.max())},
    )


def _cosines(encoder: SentenceEncoder, lines: list[str], layer: int | None, pooling: Pooling | None) -> Matrix64:
    unit = unit_rows(encoder.encode(lines, layer=layer, pooling=pooling))
    return np.asarray(unit @ unit.T)


def sentence_interval(now: Matrix64, before: Matrix64, seed: int) -> Interval:
    """Return the percentile interval over sentences; a pair of one sentence with itself does not count."""

    def rho(rows: Rows) -> float:
        first, second = np.triu_indices(len(rows), 1)
        kept = rows[first] != rows[second]
        i, j = rows[first[kept]], rows[second[kept]]
        if not len(i):  # few sentences, of which one was drawn every time
            return np.nan
        return float(spearman_rows(now[i, j][None], before[i, j][None])[0])

    values: Vector64 = np.array([rho(rows) for rows in resamples(len(now), DRAWS, seed=seed)])
    return interval(values)
