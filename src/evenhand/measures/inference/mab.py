"""Marked attribute bias: E and d of Dawkins 2021, from sentences about a person and a man or woman."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, get_args

from evenhand.errors import UsageError
from evenhand.measures.call import Call, measure
from evenhand.measures.inference.nli_measures import InferenceView, ask_ensemble, probe_details
from evenhand.measures.inference.seeds import SeedsResult
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.words.probes import Probe

MabScore: TypeAlias = Literal["E", "d"]
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
        "template sentences."
    ),
    cites=("dawkins2021", "dev2019"),
    queries=("mab-explicit",),
    view="inference",
    family="inference",
    definition=2,
)


@measure(INFO)
def mab(
    call: Call,
    model: InferenceView,
    probe: Probe | str | Path = "mab-explicit",
    *,
    score: MabScore | None = None,
    sample: int | None = WHOLE,
    seed: int = 0,
) -> Measurement | tuple[Measurement, ...]:
    """E and d of an inference model, with their intervals over the words of phrases and training seeds.

    Returns one measurement for each, or only that of `score`. The six nouns are too few to draw from, so the interval
    does not cover other words. Dawkins 2021 trains every method anew: only values without the note of a model that was
    not retrained compare with the paper's.

    What it does not tell you: which group the model favours. See `evenhand show mab`.
    """
    if score is not None and score not in MEANS:
        raise UsageError(f"{score!r} is not a score of mab", hint="use E or d")
    names = (score,) if score else get_args(MabScore)
    answers = ask_ensemble(call, model, probe, scores=score or names, sample=sample, seed=seed, controls=False)
    results = tuple(_score(call, answers, name) for name in names)
    return results[0] if score else results


def _score(call: Call, answers: SeedsResult, name: MabScore) -> Measurement:
    params = {"score": name}
    if name not in answers.scores:
        return call.undefined(f"{call.query} has no two groups to compare", score=name, params=params)
    spread = answers.scores[name]
    return call.measurement(
        spread.mean,
        answers.first.n_pairs,
        score=name,
        interval=spread.interval,
        reading=f"{MEANS[name]}, {min(spread.values):.3f} to {max(spread.values):.3f} by seed",
        details=probe_details(answers),
        params=params,
    )
