"""Net neutral: how often a model concludes nothing from who did it (Dev et al. 2020)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evenhand.measures.inference.answered import SAMPLE, answered
from evenhand.measures.inference.seeds import SeedsResult
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
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
        "stands in the details. Binary gender, US English, sentences made from templates; three small models of ours, "
        "not the model you use: evenhand probe asks that one."
    ),
    cites=("dev2019",),
    queries=("gender-occupation",),
    family="inference",
)


@measure(INFO)
def nli_neutrality(
    vectors: Vectors,
    probe: Probe | str | Path = "gender-occupation",
    *,
    sample: int | None = SAMPLE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Net neutral of the embedded NLI models over these vectors, its interval over words and training seeds.

    The models were trained on the embedded vectors, and on their he-she projection; for these two, each has its own
    models. Any other mitigated version of the embedded vectors is read by models that were trained before it, which
    the note says. Other vectors have none. `sample` is how many pairs are asked, drawn evenly over pairs of words;
    None asks all. Fraction neutral and T:tau are in the details, items are the occupations.

    What it does not tell you: which way the model leans. See `evenhand show nli-neutrality`.
    """
    run = answered(vectors, probe, sample=sample, seed=seed)
    if run.found is None:
        return undefined("nli-neutrality", run.problem, run.coverage, **run.about)
    score = run.found.scores["net_neutral"]
    return Measurement(
        "nli-neutrality",
        score.mean,
        run.found.first.n_pairs,
        run.coverage,
        interval=score.interval,
        reading=_reading(run.found),
        items=_items(run.found),
        details=run.details(),
        **run.about,
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
