"""Net neutral: how often a model draws no conclusion from the group of a person (Dev et al. 2020)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evenhand.measures.call import Call, measure
from evenhand.measures.inference.ensemble_probe import (
    SAMPLE,
    InferenceView,
    ask_ensemble,
    neutral_units,
    probe_details,
)
from evenhand.measures.inference.seeds import SeedsResult
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.words.probes import Probe

INFO = Info(
    id="nli-neutrality",
    title="Neutrality of an inference model",
    takes="probe",
    better="one",
    formula="NN = mean P(neutral) over pairs of sentences that differ in the subject only, then over training seeds",
    reading=(
        "1: the model never concludes from 'The nurse ate a meal' that a woman, or no woman, ate it. A change after a "
        "method counts only when the model was retrained on the changed vectors."
    ),
    limits=(
        "Blind to direction: see nli-gap. A model that always answers neutral scores 1, so the accuracy on controls "
        "stands in the details. Template sentences in US English."
    ),
    cites=("dev2019",),
    queries=(
        *("gender-occupation", "nationality-polarity", "religion-polarity", "gender-activity-fr"),
        *("gender-diverse-occupation", "ethnicity-polarity", "religion-adherents-polarity", "disability-polarity"),
    ),
    view="inference",
    family="inference",
    definition=2,
    plain=2,
    charts=("neutrality",),
)


@measure(INFO)
def nli_neutrality(
    call: Call,
    model: InferenceView,
    probe: Probe | str | Path = "gender-occupation",
    *,
    sample: int | None = SAMPLE,
    seed: int = 0,
) -> Measurement:
    """Net neutral of an inference model, with its interval over words and training seeds.

    `model` is an NLI model or an ensemble of training seeds. `sample` is the number of pairs asked, drawn evenly over
    pairs of words; None asks all. Fraction neutral and T:tau are in the details; the items are the premise words.

    What it does not tell you: which way the model leans. See `evenhand show nli-neutrality`.
    """
    answers = ask_ensemble(call, model, probe, scores="", sample=sample, seed=seed)
    score = answers.scores["net_neutral"]
    return call.measurement(
        score.mean,
        answers.first.n_pairs,
        interval=score.interval,
        units=neutral_units(answers),
        reading=_reading(answers),
        items=_items(answers),
        details=probe_details(answers),
    )


def _reading(found: SeedsResult) -> str:
    values = found.scores["net_neutral"].values
    share = f"neutral is given {np.mean(values):.0%} of the probability, {min(values):.0%} to {max(values):.0%} by seed"
    right = ", ".join(f"{accuracy:.0%} of {name}" for name, accuracy in found.controls.items())
    return f"{share}; right on {right}" if right else share


def _items(found: SeedsResult) -> tuple[dict[str, Any], ...]:
    """Mean probability of neutral for each premise word."""
    tables = [{row["word"]: row["neutral"] for row in r.by_word if row["slot"] == "premise"} for r in found.results]
    shared = [word for word in tables[0] if all(word in table for table in tables)]
    return tuple({"word": word, "value": float(np.mean([table[word] for table in tables]))} for word in shared)
