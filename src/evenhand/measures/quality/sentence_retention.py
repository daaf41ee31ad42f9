"""Sentence retention: whether sentences are as similar to each other as before a mitigation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.measures.likelihood.perplexity import NEUTRAL_TEXT, read_lines
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.encoders.sentences import Pooling, SentenceEncoder, layer_number
from evenhand.models.vectors import Coverage
from evenhand.stats.bootstrap import Interval, interval, resamples
from evenhand.stats.correlation import spearman_rows

FEWEST = 5
DRAWS = 500
INFO = Info(
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
)


@measure(INFO)
def sentence_retention(
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
    params = {"layer": layer_number(layer, view.layers), "pooling": pooling or view.pooling}
    fields: dict[str, Any] = {"query": name, "model": view.name, "params": params, "seed": seed}
    if len(lines) < FEWEST:
        reason = f"{len(lines)} sentences are too few; at least {FEWEST} are needed"
        return undefined("sentence-retention", reason, Coverage(()), **fields)
    now, before = (_cosines(encoder, lines, layer, pooling) for encoder in (view, reference or view))
    upper = np.triu_indices(len(lines), 1)
    value = float(spearman_rows(now[upper][None], before[upper][None])[0])
    if not np.isfinite(value):
        reason = "all sentences are equally similar to each other"
        return undefined("sentence-retention", reason, Coverage(()), **fields)
    change = np.abs(now - before)[upper]
    return Measurement(
        "sentence-retention",
        value,
        len(lines),
        Coverage(()),
        interval=sentence_interval(now, before, seed),
        reading=f"the order of similarities correlates with that before by {value:.3f}",
        details={"pairs": len(change), "mean_change": float(change.mean()), "largest_change": float(change.max())},
        **fields,
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
        return float(spearman_rows(now[i, j][None], before[i, j][None])[0])

    values: Vector64 = np.array([rho(rows) for rows in resamples(len(now), DRAWS, seed=seed)])
    return interval(values)
