"""Bias by layer: the effect size of SEAT at every layer of an encoder, from one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.measures.sentences.encoded_query import TEMPLATE, EncodedQuery, encode_query, published_query
from evenhand.measures.sentences.seat import WEAT
from evenhand.models.encoders.sentences import Pooling, SentenceEncoder
from evenhand.stats import jackknife_interval
from evenhand.stats.bootstrap import Interval
from evenhand.stats.units import Units, linearised_units
from evenhand.words import Query, Template

INFO = Info(
    id="layer-bias",
    title="Bias by layer",
    takes="query",
    better="zero",
    formula="mean over layers of |d_layer|,  d_layer the effect size of SEAT at that layer, over words",
    reading=(
        "Read the layers in the items: where the association enters and whether it reaches the output. The summary is "
        "a mean of sizes and never 0 by chance alone; compare it with `baseline` in the details."
    ),
    limits=(
        "Layers are not independent of each other, and a direction that a layer holds need not be used by the next. "
        "Cosines of inner layers are dominated by a few dimensions in many models."
    ),
    cites=("may2019", "meade2022"),
    queries=tuple(id for id in WEAT if id not in ("weat-1", "weat-2", "weat-9")),  # without the controls
    view="sentences",
    family="sentences",
    arity=(2, 2),
    one_against_rest=True,
    find_query=published_query,
    definition=3,
)


@measure(INFO)
def layer_bias(
    view: SentenceEncoder,
    query: Query | str,
    *,
    pooling: Pooling | None = None,
    template: Template | str = TEMPLATE,
    samples: int = 2_000,
    seed: int = 0,
) -> Measurement:
    """Measure the effect size over words at every layer, and their mean size.

    Args:
        view: a sentence encoder, or the `sentences` view of a subject.
        query: as in `seat`.
        pooling: how token vectors are joined; the model's own way by default.
        template: a template with the free slot `{word}`.
        samples: number of random partitions of the words for the p-value.
        seed: seed of the partitions.

    Returns:
        The mean of |d| over all layers, 0 being the input embedding. The p-value is that of the mean when words are
        dealt to the target sets at random, the same in every layer; the interval resamples words. `items` has the
        signed d of each layer.
    """
    encoded = encode_query(view, query, all_layers=True, pooling=pooling, template=template)
    x, y, near, _ = encoded.sets
    params = {**encoded.params, "samples": samples}
    fields: dict[str, Any] = {"query": encoded.query.name, "model": view.name, "params": params, "seed": seed}
    fields["positive"] = f"{x.name} with {near.name}"
    if encoded.problem:
        return undefined("layer-bias", encoded.problem, encoded.coverage, **fields)
    table = _word_associations(encoded)
    if isinstance(table, str):
        return undefined("layer-bias", table, encoded.coverage, **fields)
    first = len(x.words)
    observed = _effects(table, first)
    if not np.isfinite(observed).all():
        reason = f"all target words have the same association at layer {int(np.argmin(np.isfinite(observed)))}"
        return undefined("layer-bias", reason, encoded.coverage, **fields)
    value, dealt = float(np.abs(observed).mean()), _dealt(table, first, samples, seed)
    peak = int(np.argmax(np.abs(observed)))
    return Measurement(
        "layer-bias",
        value,
        table.shape[1],
        encoded.coverage,
        interval=_interval(table, first),
        units=_units(table, first, [f"0:{w}" for w in x.words] + [f"1:{w}" for w in y.words], value),
        p_value=float((np.count_nonzero(dealt >= value - 1e-12) + 1) / (samples + 1)),
        reading=f"strongest at layer {peak} of {view.layers}: d = {observed[peak]:+.2f}; last {observed[-1]:+.2f}",
        items=tuple({"word": f"layer {layer}", "value": float(d)} for layer, d in enumerate(observed)),
        details={"baseline": float(dealt.mean()), "peak_layer": peak, "layers": view.layers},
        **fields,
    )


def _word_associations(encoded: EncodedQuery) -> Matrix64 | str:
    """Return the mean association of each target word at each layer, (layers, words), or why there is none."""
    rows = []
    for layer in encoded.layers:
        associations = encoded.associations(layer)
        if isinstance(associations, str):
            return f"layer {layer}: {associations}"
        pairs = zip(encoded.sets[:2], associations, strict=True)
        rows.append(np.concatenate([group.word_means(values) for group, values in pairs]))
    return np.stack(rows)


def _effects(table: Matrix64, first: int) -> Vector64:
    """Return d of each layer, given associations whose first columns are the first target set; NaN without spread."""
    difference = table[..., :first].mean(axis=-1) - table[..., first:].mean(axis=-1)
    deviation = table.std(axis=-1)
    flat = deviation <= 1e-12 * np.abs(table).max(axis=-1)
    return np.asarray(np.divide(difference, deviation, out=np.full_like(deviation, np.nan), where=~flat))


def _dealt(table: Matrix64, first: int, samples: int, seed: int) -> Vector64:
    """Return the mean |d| over layers when the words are dealt to the two sets at random."""
    order = np.argsort(np.random.default_rng(seed).random((samples, table.shape[1])), axis=1)
    return np.asarray(np.abs(_effects(table[:, order], first)).mean(axis=0))


def _interval(table: Matrix64, first: int) -> Interval:
    """Leave out one word at a time within each target set, on a scale where |d| has no upper limit.

    The bootstrap draws the same word twice, which makes the standard deviation too small and d too large.
    """
    codes = (np.arange(table.shape[1]) >= first).astype(np.int64)

    def half_effect(sums: Matrix64) -> Vector64:
        return _mean_effect(sums) / 2  # d is at most 2 for sets of equal sizes

    columns = _columns(table, first)
    bounds = jackknife_interval(half_effect, columns, strata=codes, scale="correlation", limits=(0.0, 1.0))
    return (2 * bounds[0], 2 * bounds[1]) if bounds else None


def _units(table: Matrix64, first: int, names: list[str], value: float) -> tuple[Units, ...]:
    """Return the target words as units of the mean |d|, linearised; none where a set without a word has no mean."""
    columns = _columns(table, first)
    with np.errstate(all="ignore"):
        left_out = _mean_effect(columns.sum(axis=0) - columns)
    return (linearised_units("word", names, value, left_out),) if np.isfinite(left_out).all() else ()


def _columns(table: Matrix64, first: int) -> Matrix64:
    """Return what decides the effects by its sums over words: membership, values by set, and squares, by layer."""
    own = (np.arange(table.shape[1]) >= first)[:, None] == np.arange(2)
    away = (table - table.mean(axis=1, keepdims=True)).T
    return np.concatenate([own, away * own[:, :1], away * own[:, 1:], away**2], axis=1).astype(np.float64)


def _mean_effect(sums: Matrix64) -> Vector64:
    """Return the mean |d| over layers of each row of sums of `_columns`."""
    layers = (sums.shape[1] - 2) // 3
    counts, totals, squares = sums[:, :2], sums[:, 2 : 2 + 2 * layers].reshape(-1, 2, layers), sums[:, -layers:]
    n = counts.sum(axis=1, keepdims=True)
    variance = squares / n - (totals.sum(axis=1) / n) ** 2
    means = totals / counts[:, :, None]
    effects = np.abs(means[:, 0] - means[:, 1]) / np.sqrt(variance)
    return np.asarray(effects.mean(axis=1))
