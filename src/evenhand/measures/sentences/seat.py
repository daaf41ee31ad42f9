"""SEAT: WEAT over sentence vectors (May et al. 2019), and the same at every layer of a model."""

from __future__ import annotations

from typing import Literal

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.association.weat import largest_effect
from evenhand.measures.call import Call, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.measures.sentences.encoded_query import (
    SEAT,
    TEMPLATE,
    EncodedQuery,
    encode_query,
    published_ids,
    published_query,
    sentence_effect,
)
from evenhand.models.encoders.sentences import Pooling, SentenceEncoder
from evenhand.stats import jackknife_interval
from evenhand.stats.bootstrap import Interval
from evenhand.stats.permutation import EXACT_UP_TO, Alternative, permutation_test
from evenhand.stats.units import Units, effect_size_units, linearised_units
from evenhand.words import Query, Template

SeatVariant = Literal["", "released"]
WEAT = tuple(f"weat-{number}" for number in (6, 7, 8, 1, 2, 3, 4, 5, 9, 10))
RELEASED_SAMPLES = 100_000  # of the released code, which is exact up to as many partitions
BASELINE_DRAWS = 1_000


def available_queries() -> tuple[str, ...]:
    """Return the published sentence tests where they are on this disk, else the word queries of WEAT."""
    return published_ids() or WEAT


SEAT_INFO = Info(
    id="seat",
    title="Sentence Encoder Association Test",
    takes="query",
    better="zero",
    formula="d = (mean_X s - mean_Y s) / sd_{X u Y} s,  s(x) = mean_A cos(x, a) - mean_B cos(x, b), over sentences",
    reading=(
        "Above 0: sentences with the first targets are nearer to those with the first attributes. Read the sign, and "
        "compare the size with `baseline_size` in the details, the mean |d| after a random exchange of words."
    ),
    limits=(
        "Bland sentences are not what a model reads in use, and results for names and for group terms often disagree. "
        "It depends on pooling and layer, which the parameters state. A small value does not show that bias is absent."
    ),
    cites=("may2019", "caliskan2017", "meade2022"),
    view="sentences",
    arity=(2, 2),
    one_against_rest=True,
    available=available_queries,
    find_query=published_query,
    data=(SEAT,),
    null=0.0,
    definition=3,
    plain=1,
    charts=("sentence-effect-sizes",),
    effect_size=True,
    ticked=("sentences",),
)


@measure(SEAT_INFO)
def seat(
    call: Call,
    view: SentenceEncoder,
    query: Query | str,
    *,
    layer: int | None = None,
    pooling: Pooling | None = None,
    template: Template | str = TEMPLATE,
    ddof: int = 0,
    alternative: Alternative = "two-sided",
    samples: int = 10_000,
    variant: SeatVariant = "",
    seed: int = 0,
) -> Measurement:
    """Measure the effect size over sentences, with a permutation test and an interval over words.

    Sentences of one word move together: the test exchanges words between the target sets, and the interval is over the
    choice of words. A test over sentences finds differences where there are none. So do phrases that share a word which
    the other set lacks, such as "white woman" and "white girl": they count as one word.

    Args:
        view: a sentence encoder, or the `sentences` view of a subject.
        query: a word query, whose words the template turns into sentences; or a published test by the name of its
            file (sent-weat6), where the data set `seat` is on this disk.
        layer: the layer to read, 0 for the input embedding; the last one by default.
        pooling: how token vectors are joined; the model's own way by default.
        template: a template with the free slot `{word}`.
        ddof: 0 for the population's standard deviation, 1 for the sample's.
        alternative: of the permutation test.
        samples: number of random partitions where there are too many for an exact test.
        variant: `released` follows the published codes: sd with `ddof=1`, a one-sided test that exchanges sentences.
        seed: seed of the permutations.

    Returns:
        The effect size, with the mean association of each target word in `items`.

    What it does not tell you: whether the model treats groups differently in a task. See `evenhand show seat`.
    """
    if variant:
        ddof, alternative, samples = 1, "greater", RELEASED_SAMPLES
    if ddof not in (0, 1):
        raise UsageError(f"ddof must be 0 (population) or 1 (sample), got {ddof!r}")
    encoded = encode_query(view, query, layer=layer, pooling=pooling, template=template)
    x, y, near, far = encoded.sets
    took_effect = {**encoded.params, "ddof": ddof, "alternative": alternative, "samples": samples}
    positive = f"{x.name} with {near.name}"
    call.describe(encoded.query, positive=positive, coverage=encoded.coverage, params=took_effect)
    call.require(encoded.lists)
    s_x, s_y = encoded.associations(0)
    effect = sentence_effect(encoded.sets, (s_x, s_y), ddof)
    if effect is None:
        raise DegenerateError("all target sentences have the same association: the standard deviation is 0")
    permuted, limit = ((s_x, s_y), RELEASED_SAMPLES) if variant else ((effect.first, effect.second), EXACT_UP_TO)
    test = permutation_test(*permuted, alternative=alternative, samples=samples, exact_up_to=limit, seed=seed)
    first, second = (near.name, far.name) if effect.value >= 0 else (far.name, near.name)
    return call.measurement(
        effect.value,
        len(s_x) + len(s_y),
        interval=effect.interval,
        p_value=test.p_value,
        units=(effect_size_units("word", x.sentence_words, y.sentence_words, s_x, s_y, ddof=ddof),),
        reading=f"the sentence vectors associate {x.name} with {first}, {y.name} with {second}",
        items=tuple(
            {"word": word, "set": group.name, "value": float(value)}
            for group, values in ((x, effect.first), (y, effect.second))
            for word, value in zip(group.words, values, strict=True)
        ),
        details={
            "mean_difference": float(s_x.mean() - s_y.mean()),
            "bound": largest_effect(len(s_x), len(s_y), ddof),
            "baseline_size": _baseline(effect.first, effect.second, seed) / effect.deviation,
            "sizes": [len(group.sentences) for group in encoded.sets],
            "words": [len(group.words) for group in encoded.sets],
            "permuted": "sentences" if variant else "words",
            "partitions": test.partitions,
            "exact": test.exact,
        },
    )


def _baseline(first: Vector64, second: Vector64, seed: int) -> float:
    """Return the mean absolute difference of means when words are dealt to the two sets at random."""
    pooled = np.concatenate([first, second])
    rng = np.random.default_rng(seed)
    dealt = rng.permuted(np.broadcast_to(pooled, (BASELINE_DRAWS, len(pooled))), axis=1)
    differences = dealt[:, : len(first)].mean(axis=1) - dealt[:, len(first) :].mean(axis=1)
    return float(np.abs(differences).mean())


LAYER_BIAS_INFO = Info(
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
    arity=(2, 2),
    one_against_rest=True,
    find_query=published_query,
    definition=3,
    charts=("layer-bias",),
)


@measure(LAYER_BIAS_INFO)
def layer_bias(
    call: Call,
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
    positive = f"{x.name} with {near.name}"
    call.describe(encoded.query, positive=positive, coverage=encoded.coverage, params=encoded.params)
    call.require(encoded.lists)
    table = _word_associations(encoded)
    first = len(x.words)
    observed = _effects(table, first)
    if not np.isfinite(observed).all():
        layer = int(np.argmin(np.isfinite(observed)))
        raise DegenerateError(f"all target words have the same association at layer {layer}")
    value, dealt = float(np.abs(observed).mean()), _dealt(table, first, samples, seed)
    peak = int(np.argmax(np.abs(observed)))
    return call.measurement(
        value,
        table.shape[1],
        interval=_interval(table, first),
        units=_units(table, first, [f"0:{w}" for w in x.words] + [f"1:{w}" for w in y.words], value),
        p_value=float((np.count_nonzero(dealt >= value - 1e-12) + 1) / (samples + 1)),
        reading=f"strongest at layer {peak} of {view.layers}: d = {observed[peak]:+.2f}; last {observed[-1]:+.2f}",
        items=tuple({"word": f"layer {layer}", "value": float(d)} for layer, d in enumerate(observed)),
        details={"baseline": float(dealt.mean()), "peak_layer": peak, "layers": view.layers},
    )


def _word_associations(encoded: EncodedQuery) -> Matrix64:
    """Return the mean association of each target word at each layer, (layers, words)."""
    rows = []
    for layer in encoded.layers:
        try:
            associations = encoded.associations(layer)
        except DegenerateError as error:
            raise DegenerateError(f"layer {layer}: {error.message}") from error
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
