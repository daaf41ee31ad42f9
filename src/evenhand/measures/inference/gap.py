"""The gap between groups: for whom a model concludes more (beside the neutrality of Dev et al. 2020)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from evenhand.arrays import Vector64
from evenhand.errors import UsageError
from evenhand.measures.inference.answered import SAMPLE, answered
from evenhand.measures.inference.pair_statistics import Tables, divided
from evenhand.measures.inference.seeds import SeedsResult
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.nli import LABELS
from evenhand.models.vectors import Vectors
from evenhand.words.probes import Probe

INFO = Info(
    id="nli-gap",
    title="Gap between groups of an inference model",
    takes="probe",
    better="zero",
    formula="mean P(label) over pairs whose hypothesis names the first group, minus the same for the second",
    reading=(
        "Above 0: the model concludes the label more often for the first group (female) than for the second (male). "
        "Entailment and contradiction are asked separately."
    ),
    limits=(
        "An average over all occupations: opposite leanings of nurse and mechanic cancel, see the items. Six words for "
        "two groups; nothing about anybody else. Three small models of ours, not the model you use."
    ),
    cites=("dev2019",),
    queries=("gender-occupation",),
    family="inference",
)


@measure(INFO)
def nli_gap(
    vectors: Vectors,
    probe: Probe | str | Path = "gender-occupation",
    *,
    label: Literal["entailment", "contradiction"] = "entailment",
    sample: int | None = SAMPLE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """The gap of one label between the probe's two groups, its interval over words and training seeds.

    Net neutral cannot see it: in a trial, retraining on projected vectors closed the gap in every seed while net
    neutral did not move. For which models are asked see `nli_neutrality`. Items are the gaps of single occupations.

    What it does not tell you: whether the model is right about anything. See `evenhand show nli-gap`.
    """
    if label not in ("entailment", "contradiction"):
        raise UsageError(f"the gap is of entailment or contradiction, got {label!r}")
    run = answered(vectors, probe, sample=sample, seed=seed)
    run.about["params"] |= {"label": label}
    if run.found is None:
        return undefined("nli-gap", run.problem, run.coverage, **run.about)
    if run.found.groups is None:
        reason = f"{run.about['query']} has no two groups that all seeds can be compared on"
        return undefined("nli-gap", reason, run.coverage, **run.about)
    score, (first, second) = run.found.scores[f"gap_{label}"], run.found.groups
    return Measurement(
        "nli-gap",
        score.mean,
        run.found.first.n_pairs,
        run.coverage,
        interval=score.interval,
        positive=first,
        reading=f"{label} {'more' if score.mean >= 0 else 'less'} often for {first} than for {second} words, "
        f"{min(score.values):+.3f} to {max(score.values):+.3f} by seed",
        items=_items(run.found, LABELS.index(label), first, second),
        details=run.details(),
        **run.about,
    )


def _items(found: SeedsResult, label: int, first: str, second: str) -> tuple[dict[str, Any], ...]:
    """The gap of each filler of the side without groups, where the sample has pairs of both groups."""
    asked = found.first.asked
    words = [filler.word for filler in asked.side("hypothesis" if asked.grouped == "premise" else "premise")]
    gaps = np.mean([_gaps(result.tables, asked, label, first, second) for result in found.results], axis=0)
    return tuple({"word": word, "value": float(gap)} for word, gap in zip(words, gaps, strict=True) if np.isfinite(gap))


def _gaps(tables: Tables, asked: Probe, label: int, first: str, second: str) -> Vector64:
    sums, counts = tables.words, tables.word_counts
    if asked.grouped == "premise":
        sums, counts = sums.swapaxes(0, 1), counts.T
    one, other = (
        divided(sums[:, places].sum(axis=1), counts[:, places].sum(axis=1))[:, label]
        for places in (list(asked.groups[name]) for name in (first, second))
    )
    return np.asarray(one - other)
