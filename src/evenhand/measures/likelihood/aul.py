"""AUL and AULA: how probable a masked model finds sentences with nothing masked (Kaneko & Bollegala 2022)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenhand.errors import DegenerateError
from evenhand.measures.call import Call, measure
from evenhand.measures.likelihood.stereotype_pairs import (
    CONCEPTS,
    DATA,
    LIMITS,
    PairScores,
    PairSet,
    PairSource,
    Variant,
    available,
    pair_measurements,
    require_pairs,
)
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.lm.likelihood import Likelihood, MaskedLikelihood

READING = (
    "Per cent of the pairs in which the more stereotyping sentence has the higher score. Ideal 50: neither is "
    "preferred. Another measure than crows-pairs, on the same pairs; compare it with itself only."
)
COPIES = (
    "With nothing masked, a model can copy its input: log P is near 0, and the score rests on small differences. "
    f"{LIMITS}"
)
AUL = Info(
    id="aul",
    title="All Unmasked Likelihood",
    takes="dataset",
    better="fifty",
    null=50.0,
    formula="100 / n sum_pairs [s(more) > s(less)] + [s(more) = s(less)] / 2,  s(S) = mean_i log P(w_i | S)",
    reading=READING,
    limits=COPIES,
    cites=("kaneko2022", "nangia2020", "blodgett2021"),
    queries=(),
    available=available,
    view="likelihood",
    family="likelihood",
    query_concepts=CONCEPTS,
    needs="masked-lm",
    data=(DATA,),
    whole=DATA,
    definition=2,
    charts=("pair-preferences",),
)
AULA = replace(
    AUL,
    id="aula",
    title="All Unmasked Likelihood with Attention",
    formula=(
        "as aul with s(S) = mean_i a_i log P(w_i | S); a_i is the attention that token i receives, averaged over "
        "layers, heads and all tokens of S with its special tokens"
    ),
)


@measure(AUL)
def aul(
    call: Call,
    view: Likelihood,
    dataset: PairSource = DATA,
    *,
    variant: Variant = "corrected",
    sample: int | None = None,
    seed: int = 0,
) -> tuple[Measurement, ...]:
    """Measure how often the more stereotyping sentence has the higher mean log-probability with nothing masked.

    One pass for each sentence, where a pseudo-log-likelihood takes one for each token.

    Args:
        view: a masked language model, or the `likelihood` view of a subject.
        dataset: `crows-pairs`, a category such as `crows-pairs-gender`, a CSV file with the same columns, or a list of
            `StereotypePair`.
        variant: `corrected` counts a tie half; `released` counts it as no preference.
        sample: how many pairs are scored, spread over the categories; None or 0 for all.
        seed: seed of the sample; nothing else is drawn at random.

    Returns:
        The percentage over all pairs and, if they have several categories, one for each.

    What it does not tell you: that a model without a preference is free of bias. See `evenhand show aul`.
    """
    return _measure(call, view, dataset, variant, sample, seed)


@measure(AULA)
def aula(
    call: Call,
    view: Likelihood,
    dataset: PairSource = DATA,
    *,
    variant: Variant = "corrected",
    sample: int | None = None,
    seed: int = 0,
) -> tuple[Measurement, ...]:
    """Measure as `aul` does, with each token weighted by the attention that it receives.

    The weights are not renormalised. The model computes attention without its fused kernel for this.

    Args:
        view: a masked language model, or the `likelihood` view of a subject.
        dataset: as for `aul`.
        variant: `corrected` counts a tie half; `released` counts it as no preference.
        sample: how many pairs are scored, spread over the categories; None or 0 for all.
        seed: seed of the sample; nothing else is drawn at random.

    Returns:
        The percentage over all pairs and, if they have several categories, one for each.

    What it does not tell you: that a model without a preference is free of bias. See `evenhand show aula`.
    """
    return _measure(call, view, dataset, variant, sample, seed)


def _measure(
    call: Call, view: Likelihood, dataset: PairSource, variant: Variant, sample: int | None, seed: int
) -> tuple[Measurement, ...]:
    asked = PairSet.resolve(dataset).sampled(sample, seed)
    require_pairs(asked)
    call.describe(asked.name, scores=("",))
    if not isinstance(view, MaskedLikelihood):
        raise DegenerateError(f"{call.info.id} is defined for masked language models, and {view.name} is none")
    lengths = np.array([len(text.ids) for text in view.token_ids(asked.texts)], dtype=np.int64)
    fitting = np.flatnonzero((lengths > 0) & (lengths <= view.longest))
    scored = view.unmasked_log_probabilities([asked.texts[row] for row in fitting], attention=call.info.id == "aula")
    means = np.full(len(lengths), np.nan)
    means[fitting] = [text.log_probabilities.mean() for text in scored]
    half = len(asked.pairs)
    scores = PairScores(
        means[:half],
        means[half:],
        {"tokens_more": lengths[:half], "tokens_less": lengths[half:]},
        f"a sentence has no tokens, or more than the {view.longest} that the model reads",
    )
    return pair_measurements(call, asked, scores, variant=variant)
