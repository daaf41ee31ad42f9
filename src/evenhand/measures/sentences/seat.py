"""SEAT: WEAT over sentence vectors (May et al. 2019), with words as the units of its test."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from evenhand.arrays import Vector64
from evenhand.errors import UsageError, unknown_name
from evenhand.measures.association.weat import largest_effect
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.measures.sentences.encoded_query import (
    SEAT,
    TEMPLATE,
    encode_query,
    published_ids,
    published_query,
    sentence_effect,
)
from evenhand.models.encoders.protocol import Pooling, SentenceEncoder
from evenhand.stats.permutation import EXACT_UP_TO, Alternative, PermutationTest, permutation_test
from evenhand.stats.units import effect_size_units
from evenhand.words import Query, Template

Variant = Literal["", "released"]
WEAT = tuple(f"weat-{number}" for number in (6, 7, 8, 1, 2, 3, 4, 5, 9, 10))
RELEASED_SAMPLES = 100_000  # of the released code, which is exact up to as many partitions
BASELINE_DRAWS = 1_000


def available_queries() -> tuple[str, ...]:
    """Return the published sentence tests where they are on this disk, else the word queries of WEAT."""
    return published_ids() or WEAT


INFO = Info(
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
    queries=(),
    view="sentences",
    family="sentences",
    arity=(2, 2),
    one_against_rest=True,
    available=available_queries,
    find_query=published_query,
    data=(SEAT,),
    null=0.0,
    definition=3,
)


@measure(INFO)
def seat(
    view: SentenceEncoder,
    query: Query | str,
    *,
    layer: int | None = None,
    pooling: Pooling | None = None,
    template: Template | str = TEMPLATE,
    ddof: int = 0,
    alternative: Alternative = "two-sided",
    samples: int = 10_000,
    variant: Variant = "",
    seed: int = 0,
) -> Measurement:
    """Measure the effect size over sentences, with a permutation test and an interval over words.

    Sentences of one word move together: the test exchanges words between the target sets, and the interval is over the
    choice of words. A test over sentences finds differences where there are none.

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
    if variant not in ("", "released"):
        raise unknown_name("variant of seat", variant, ("released",))
    if variant:
        ddof, alternative, samples = 1, "greater", RELEASED_SAMPLES
    if ddof not in (0, 1):
        raise UsageError(f"ddof must be 0 (population) or 1 (sample), got {ddof!r}")
    encoded = encode_query(view, query, layer=layer, pooling=pooling, template=template)
    x, y, near, far = encoded.sets
    params = {**encoded.params, "ddof": ddof, "alternative": alternative, "samples": samples}
    params |= {"variant": variant} if variant else {}
    fields: dict[str, Any] = {"query": encoded.query.name, "model": view.name, "params": params, "seed": seed}
    fields["positive"] = f"{x.name} with {near.name}"
    if encoded.problem:
        return undefined("seat", encoded.problem, encoded.coverage, **fields)
    associations = encoded.associations(0)
    if isinstance(associations, str):
        return undefined("seat", associations, encoded.coverage, **fields)
    effect = sentence_effect(encoded.sets, associations, ddof)
    if effect is None:
        reason = "all target sentences have the same association: the standard deviation is 0"
        return undefined("seat", reason, encoded.coverage, **fields)
    units = associations if variant else (effect.first, effect.second)
    test = _test(*units, alternative, samples, seed, released=bool(variant))
    first, second = (near.name, far.name) if effect.value >= 0 else (far.name, near.name)
    return Measurement(
        "seat",
        effect.value,
        len(associations[0]) + len(associations[1]),
        encoded.coverage,
        interval=effect.interval,
        p_value=test.p_value,
        units=(effect_size_units("word", x.sentence_words, y.sentence_words, *associations, ddof=ddof),),
        reading=f"the sentence vectors associate {x.name} with {first}, {y.name} with {second}",
        items=tuple(
            {"word": word, "set": group.name, "value": float(value)}
            for group, values in ((x, effect.first), (y, effect.second))
            for word, value in zip(group.words, values, strict=True)
        ),
        details={
            "mean_difference": float(associations[0].mean() - associations[1].mean()),
            "bound": largest_effect(len(associations[0]), len(associations[1]), ddof),
            "baseline_size": _baseline(effect.first, effect.second, seed) / effect.deviation,
            "sizes": [len(group.sentences) for group in encoded.sets],
            "words": [len(group.words) for group in encoded.sets],
            "permuted": "sentences" if variant else "words",
            "partitions": test.partitions,
            "exact": test.exact,
        },
        **fields,
    )


def _test(
    first: Vector64, second: Vector64, alternative: Alternative, samples: int, seed: int, *, released: bool
) -> PermutationTest:
    limit = RELEASED_SAMPLES if released else EXACT_UP_TO
    return permutation_test(first, second, alternative=alternative, samples=samples, exact_up_to=limit, seed=seed)


def _baseline(first: Vector64, second: Vector64, seed: int) -> float:
    """Return the mean absolute difference of means when words are dealt to the two sets at random."""
    pooled = np.concatenate([first, second])
    rng = np.random.default_rng(seed)
    dealt = rng.permuted(np.broadcast_to(pooled, (BASELINE_DRAWS, len(pooled))), axis=1)
    differences = dealt[:, : len(first)].mean(axis=1) - dealt[:, len(first) :].mean(axis=1)
    return float(np.abs(differences).mean())
