"""`probe`: put a probe to a model and score the answers (Dev et al. 2020; Dawkins 2021)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evenhand.engines import Engine, open_engine
from evenhand.errors import EvenhandWarning, UsageError, VocabularyError
from evenhand.measures.inference import summary
from evenhand.measures.inference.accumulator import Gathered, Progress, ask_all, ask_sample
from evenhand.measures.inference.coverage import covered
from evenhand.measures.inference.pair_statistics import SAYS, Columns
from evenhand.measures.inference.result import ProbeResult
from evenhand.measures.inference.summary import headline_draws
from evenhand.models.nli import LABELS, NLIModel
from evenhand.models.nli.protocol import RecordedModel
from evenhand.stats.bootstrap import RESAMPLES
from evenhand.words.probes import Probe, stratified
from evenhand.words.probes import probe as find_probe

CONTROL_PAIRS = 2_000


def probe(
    model: NLIModel | RecordedModel,
    probe: str | Path | Probe = "gender-occupation",
    *,
    sample: int | None = None,
    seed: int = 0,
    thresholds: Iterable[float] = (0.5, 0.7),
    controls: bool = True,
    draws: int = RESAMPLES,
    force: bool = False,
    engine: str | Engine = "local",
    progress: Progress | None = None,
) -> ProbeResult:
    """Ask a model about all pairs of a probe, or a stratified sample of about `sample`, and score the answers.

    Net neutral, fraction neutral and T:tau (Dev et al. 2020) are 1 for a model that never concludes anything from the
    subject; the gap between groups tells which way it leans; E and d are those of Dawkins 2021. Intervals are a
    bootstrap over words, those of the templates too (`draws` resamples, 0 for none). Fillers outside the model's
    vocabulary are left out and counted; more than a fifth of a slot is an error unless `force`. `controls` are pairs
    whose label is not neutral. `engine` is `local`, `ray` or one of `evenhand.engines`: where the parts are asked.

    What it does not tell you: anything about people outside the lists (binary gender, English, US names), nor whether
    a model is unbiased elsewhere. Templates share words, so that two million pairs are far fewer observations.
    """
    refuse_no_model(model)
    columns = Columns(tuple(thresholds))
    full = find_probe(probe)
    asked, coverage = covered(full, model, force=force)
    with open_engine(engine) as workers:
        choices: dict[str, Any] = {"seed": seed, "engine": workers}
        gathered = _gather(model, asked, columns, sample=sample, draws=draws, progress=progress, **choices)
        right = _controls(model, asked, force=force, **choices) if controls else {}
    params = {"sample": sample, "draws": draws, "thresholds": list(columns.thresholds), "force": force}
    return ProbeResult(
        asked,
        model.name,
        gathered.tables.count,
        summary.neutrality(gathered),
        summary.word_pair_neutrality(gathered),
        summary.groups(gathered),
        summary.gap(gathered, seed=seed),
        summary.marked_scores(gathered, seed=seed),
        accuracy(gathered),
        right,
        coverage,
        gathered.resampled.over if gathered.resampled else (),
        {**params, "surface": asdict(asked.surface), "all_pairs": asked.n_pairs, **_strata(gathered)},
        seed,
        columns,
        gathered.tables,
        {label: gathered.extremes.listed(place) for place, label in enumerate(LABELS)},
        headline_draws(gathered),
    )


def accuracy(gathered: Gathered) -> float:
    """The share of pairs whose most probable label is the expected one."""
    place = gathered.columns.at(SAYS[LABELS.index(gathered.probe.expected)])
    return float(gathered.tables.means[place])


def refuse_no_model(model: Any) -> None:
    """An error for what cannot be asked; a bare function most of all, since nobody knows the order of its labels."""
    if isinstance(model, (NLIModel, RecordedModel)):
        return
    hint = "a model has a name and predict(premises, hypotheses); load one with models.nli"
    if callable(model):
        hint = 'say what its columns are: CallableModel(function, ("entailment", "neutral", "contradiction"))'
    raise UsageError(f"{type(model).__name__} is no NLI model", hint=hint)


def _gather(
    model: NLIModel | RecordedModel,
    asked: Probe,
    columns: Columns,
    *,
    sample: int | None,
    draws: int,
    seed: int,
    engine: Engine,
    progress: Progress | None = None,
) -> Gathered:
    gathered = Gathered(asked, columns, draws=draws, seed=seed)
    if sample is None:
        ask_all(gathered, model, progress, engine)
    else:
        ask_sample(gathered, model, stratified(asked, sample, seed=seed), progress, engine)
    return gathered


def _controls(
    model: NLIModel | RecordedModel, asked: Probe, *, force: bool, seed: int, engine: Engine
) -> dict[str, float]:
    """Accuracy on a sample of each control, in the surface form of the probe; recorded answers hold none."""
    found: dict[str, float] = {}
    for name in () if isinstance(model, RecordedModel) else asked.controls:
        try:
            control, _ = covered(find_probe(name).written(asked.surface), model, force=force)
        except VocabularyError as error:
            if not force:
                raise
            warnings.warn(f"not asked: {error.message}", EvenhandWarning, stacklevel=4)
            continue
        pairs = CONTROL_PAIRS if control.n_pairs > CONTROL_PAIRS else None
        found[name] = accuracy(_gather(model, control, Columns(()), sample=pairs, draws=0, seed=seed, engine=engine))
    return found


def _strata(gathered: Gathered) -> dict[str, Any]:
    if gathered.sampled is None:
        return {}
    drawn = gathered.sampled.sample
    return {"strata": drawn.by, "per_stratum": drawn.per_stratum}
