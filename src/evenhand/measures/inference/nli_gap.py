"""The gap between groups: for whom a model concludes more (beside the neutrality of Dev et al. 2020)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from evenhand.arrays import Matrix64
from evenhand.errors import UsageError
from evenhand.measures.call import Call, measure
from evenhand.measures.inference.ensemble_probe import (
    SAMPLE,
    InferenceView,
    ask_ensemble,
    gap_p,
    gap_units,
    probe_details,
)
from evenhand.measures.inference.pair_statistics import Tables, divided
from evenhand.measures.inference.seeds import SeedsResult
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.nli import LABELS
from evenhand.words.probes import Probe

WIDE = "the interval of a gap is wider than it needs to be: it covered the true gap in all samples of a simulation"
GapLabel: TypeAlias = Literal["entailment", "contradiction"]
INFO = Info(
    id="nli-gap",
    title="Gap between groups of an inference model",
    takes="probe",
    better="zero",
    null=0.0,
    formula="mean P(label) over pairs whose hypothesis names the first group, minus the same for the second",
    reading=(
        "Above 0: the model concludes the label more often for the first group (female) than for the second (male). "
        "Entailment and contradiction are asked separately."
    ),
    limits=(
        "An average over all occupations: opposite leanings of nurse and mechanic cancel, see the items. Six words for "
        "two groups; nothing about anybody else."
    ),
    cites=("dev2019",),
    queries=("gender-occupation", "gender-activity-fr"),
    view="inference",
    family="inference",
    definition=2,
    plain=1,
    charts=("entailment-by-occupation", "measure-agreement"),
)


@measure(INFO)
def nli_gap(
    call: Call,
    model: InferenceView,
    probe: Probe | str | Path = "gender-occupation",
    *,
    label: GapLabel | None = None,
    sample: int | None = SAMPLE,
    seed: int = 0,
) -> Measurement | tuple[Measurement, ...]:
    """Gap between the probe's two groups, with its interval over words and training seeds.

    The p-value also asks whether the gap is large beside the differences between the words of a group: see `gap_p`.

    Returns one measurement for entailment and one for contradiction, or only that of `label`. Net neutral cannot see
    the gap: retraining on projected vectors closed it in every seed while net neutral did not move. The items are the
    gaps of single occupations.

    What it does not tell you: whether the model is right about anything. See `evenhand show nli-gap`.
    """
    if label is not None and label not in get_args(GapLabel):
        raise UsageError(f"{label!r} is not a label with a gap", hint="use entailment or contradiction")
    labels = (label,) if label else get_args(GapLabel)
    answers = ask_ensemble(call, model, probe, scores=label or labels, sample=sample, seed=seed)
    gaps = tuple(_gap(call, answers, chosen) for chosen in labels)
    return gaps[0] if label else gaps


def _gap(call: Call, answers: SeedsResult, label: GapLabel) -> Measurement:
    params = {"label": label}
    if answers.groups is None:
        reason = f"{call.query} has no two groups that all seeds can be compared on"
        return call.undefined(reason, score=label, params=params)
    score, (first, second), index = answers.scores[f"gap_{label}"], answers.groups, LABELS.index(label)
    return call.measurement(
        score.mean,
        answers.first.n_pairs,
        score=label,
        note=WIDE if score.interval else "",
        interval=score.interval,
        p_value=gap_p(answers, index, answers.groups),
        units=gap_units(answers, index, answers.groups),
        positive=first,
        reading=f"{label} is concluded {'more' if score.mean >= 0 else 'less'} often for {first} than for {second} "
        f"words; {min(score.values):+z.3f} to {max(score.values):+z.3f} by seed",
        items=_items(answers, index, first, second),
        details={**probe_details(answers), "groups": [first, second]},
        params=params,
    )


def _items(found: SeedsResult, label: int, first: str, second: str) -> tuple[dict[str, Any], ...]:
    """The gap of each filler of the side without groups, and P(label) of both groups, where the sample has pairs."""
    asked = found.first.asked
    words = [filler.word for filler in asked.side("hypothesis" if asked.grouped == "premise" else "premise")]
    means = np.mean([_means(result.tables, asked, label, first, second) for result in found.results], axis=0)
    return tuple(
        {"word": word, "value": float(one - other), "first": round(float(one), 4), "second": round(float(other), 4)}
        for word, (one, other) in zip(words, means, strict=True)
        if np.isfinite(one) and np.isfinite(other)
    )


def _means(tables: Tables, asked: Probe, label: int, first: str, second: str) -> Matrix64:
    """Return the mean probability of the label for both groups, (fillers, 2)."""
    sums, counts = tables.words, tables.word_counts
    if asked.grouped == "premise":
        sums, counts = sums.swapaxes(0, 1), counts.T
    groups = (list(asked.groups[name]) for name in (first, second))
    means = [divided(sums[:, rows].sum(axis=1), counts[:, rows].sum(axis=1))[:, label] for rows in groups]
    return np.stack(means, axis=1)
