"""Marked attribute bias: E and d of Dawkins 2021, from sentences about a person and a man or woman."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from evenhand.errors import UsageError
from evenhand.measures.inference.answered import answered
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.words.probes import Probe

WHOLE = 20_000  # mab-explicit has 15,744 pairs: all of them, by whole phrases, are faster than a sample
MEANS = {"E": "distance of the groups' mean answers from all neutral", "d": "distance between the groups' mean answers"}
INFO = Info(
    id="mab",
    title="Marked attribute bias",
    takes="probe",
    better="zero",
    formula=(
        "d = |m_f - m_m|,  E = (|m_f - (0, 1, 0)| + |m_m - (0, 1, 0)|) / 2,  m: mean (entailment, neutral, "
        "contradiction) of a group"
    ),
    reading=(
        "E 0: from 'A person ate a meal' the model never concludes that a man or a woman ate it. d 0: it treats both "
        "alike, which a model that always gives the same answer does too. Both are at most 1.414."
    ),
    limits=(
        "d is blind to the common error and E to its direction: read both. Six nouns for two genders, US English, "
        "template sentences; three small models of ours, not the model you use."
    ),
    cites=("dawkins2021", "dev2019"),
    queries=("mab-explicit",),
    family="inference",
)


@measure(INFO)
def mab(
    vectors: Vectors,
    probe: Probe | str | Path = "mab-explicit",
    *,
    score: Literal["E", "d"] = "E",
    sample: int | None = WHOLE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """E or d over the embedded NLI models, its interval over the words of phrases and training seeds.

    For which models are asked see `nli_neutrality`; the six nouns are too few to draw from, so that the interval does
    not speak of other words. Dawkins 2021 trains every method anew, so that only values without the note of a model
    that was not retrained compare with the paper's.

    What it does not tell you: which group the model favours. See `evenhand show mab`.
    """
    if score not in MEANS:
        raise UsageError(f"the score is E or d, got {score!r}")
    run = answered(vectors, probe, sample=sample, seed=seed, controls=False)
    run.about["params"] |= {"score": score}
    if run.found is None:
        return undefined("mab", run.problem, run.coverage, **run.about)
    if score not in run.found.scores:
        return undefined("mab", f"{run.about['query']} has no two groups to compare", run.coverage, **run.about)
    found = run.found.scores[score]
    return Measurement(
        "mab",
        found.mean,
        run.found.first.n_pairs,
        run.coverage,
        interval=found.interval,
        reading=f"{MEANS[score]}, {min(found.values):.3f} to {max(found.values):.3f} by seed",
        details=run.details(),
        **run.about,
    )
