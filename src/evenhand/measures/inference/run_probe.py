"""`probe`: evaluate a model on a probe and score its answers (Dev et al. 2020; Dawkins 2021)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from evenhand.engines import Engine, open_engine
from evenhand.errors import EvenhandWarning, UsageError, VocabularyError
from evenhand.measures.inference import summary
from evenhand.measures.inference.accumulator import Accumulator, Progress, evaluate_all, evaluate_sample
from evenhand.measures.inference.pair_statistics import SAYS, Columns
from evenhand.measures.inference.result import ProbeResult
from evenhand.models.nli import LABELS, NLIModel
from evenhand.models.nli.protocol import FixedVocabulary, NLIEnsemble, RecordedModel
from evenhand.models.vectors import Coverage
from evenhand.stats.bootstrap import RESAMPLES
from evenhand.words.grammar import agree, genders_of
from evenhand.words.probes import Probe, stratified
from evenhand.words.probes import probe as find_probe

CONTROL_PAIRS = 2_000
MAX_MISSING = 0.2  # share of the fillers of a slot; beyond it the probe is another one under the same name


def probe(
    model: NLIModel | RecordedModel | NLIEnsemble,
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
    """Evaluate a model on the pairs of a probe and score its answers.

    Net neutral, fraction neutral and T:tau (Dev et al. 2020) are 1 for a model that never concludes anything from the
    subject. The gap between groups shows which way the model leans. E and d are those of Dawkins 2021.

    What it does not tell you: anything about people outside the word lists (binary gender, English, US names), nor
    whether the model is unbiased elsewhere. Templates share words, so two million pairs are far fewer observations.

    Args:
        model: The model, or predictions made elsewhere.
        probe: Id, file or object of the probe.
        sample: Evaluate a stratified sample of about this many pairs instead of all.
        seed: Seed of the sample, the bootstrap and the permutation tests.
        thresholds: The values of tau.
        controls: Also evaluate pairs whose label is not neutral.
        draws: Bootstrap resamples over words, including those of the templates; 0 for no intervals.
        force: Continue if more than a fifth of a slot's fillers are out of vocabulary.
        engine: Where the parts are evaluated: `local`, `ray` or an engine of `evenhand.engines`.
        progress: Called with the number of phrases done, their total and the name of the probe.

    Raises:
        VocabularyError: If too many fillers are out of vocabulary. Otherwise they are left out and counted.
    """
    model = require_model(model)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UsageError(f"the seed must be a non-negative integer, got {seed!r}")
    columns = Columns(tuple(thresholds))
    known, coverage = restrict_to_vocabulary(find_probe(probe), model, force=force)
    with open_engine(engine) as workers:
        sums = _evaluate(
            model, known, columns, sample=sample, draws=draws, seed=seed, engine=workers, progress=progress
        )
        control_accuracy = _controls(model, known, force=force, seed=seed, engine=workers) if controls else {}
    params = {"sample": sample, "draws": draws, "thresholds": list(columns.thresholds), "force": force}
    return ProbeResult(
        known,
        model.name,
        sums.tables.count,
        summary.neutrality(sums),
        summary.word_pair_neutrality(sums),
        summary.groups(sums),
        summary.gap(sums, seed=seed),
        summary.marked_bias(sums, seed=seed),
        accuracy(sums),
        control_accuracy,
        coverage,
        sums.resamples.over if sums.resamples else (),
        {**params, "surface": asdict(known.surface), "all_pairs": known.n_pairs, **_strata(sums)},
        seed,
        columns,
        sums.tables,
        {label: sums.top_pairs.ranking(column) for column, label in enumerate(LABELS)},
        summary.headline_draws(sums),
    )


def accuracy(sums: Accumulator) -> float:
    """Return the share of pairs whose most probable label is the expected one."""
    column = sums.columns.index(SAYS[LABELS.index(sums.probe.expected)])
    return float(sums.tables.means[column])


def require_model(model: object) -> NLIModel | RecordedModel:
    """Return the model, or the only member of an ensemble.

    Raises:
        UsageError: For several training seeds, and for a bare function, whose label order is unknown.
    """
    if isinstance(model, NLIEnsemble):
        if len(model) > 1:
            hint = "use measures.inference.probe_seeds(view.members)"
            raise UsageError(f"{model.name}: {len(model)} training seeds, expected one model", hint=hint)
        return model.members[0]
    if isinstance(model, (NLIModel, RecordedModel)):
        return model
    hint = "a model has a name and predict(premises, hypotheses); load one with models.nli"
    if callable(model):
        hint = 'name its columns: CallableModel(function, ("entailment", "neutral", "contradiction"))'
    raise UsageError(f"{type(model).__name__} is not an NLI model", hint=hint)


def restrict_to_vocabulary(probe: Probe, model: object, *, force: bool = False) -> tuple[Probe, Coverage]:
    """Return the probe without fillers that are out of the model's vocabulary, and the coverage.

    Raises:
        VocabularyError: If a slot loses all its fillers, or more than a fifth of them without `force`.
    """
    slots = slot_words(probe)
    words = tuple(dict.fromkeys(word for fillers in slots.values() for word in fillers))
    if not isinstance(model, FixedVocabulary):
        return probe, Coverage(words)
    missing = {slot: _missing(model, fillers, probe.surface.articles) for slot, fillers in slots.items()}
    for slot, fillers in slots.items():
        share = len(missing[slot]) / len(fillers)
        if share == 1 or (share > MAX_MISSING and not force):
            listing = ", ".join(sorted(missing[slot])[:8])
            raise VocabularyError(
                f"{probe.name}: {len(missing[slot])} of {len(fillers)} {slot} fillers are out of vocabulary: {listing}",
                hint="use a model or vectors that contain them"
                + ("" if share == 1 else ", or pass force=True (--force)"),
            )
    left = {slot: [word for word in fillers if word not in missing[slot]] for slot, fillers in slots.items()}
    coverage = Coverage(
        tuple(dict.fromkeys(word for fillers in left.values() for word in fillers)),
        tuple(dict.fromkeys(word for slot, fillers in slots.items() for word in fillers if word in missing[slot])),
    )
    return (probe.without(missing) if any(missing.values()) else probe), coverage


def _missing(model: FixedVocabulary, fillers: Iterable[str], rule: str) -> set[str]:
    """Return the fillers that are out of vocabulary; one that agrees with the subject needs all of its forms."""
    genders = genders_of(rule)
    forms = {filler: {agree(filler, gender, rule) for gender in genders} or {filler} for filler in fillers}
    unknown = set(model.out_of_vocabulary(dict.fromkeys(form for both in forms.values() for form in sorted(both))))
    return {filler for filler, both in forms.items() if both & unknown}


def slot_words(probe: Probe) -> dict[str, tuple[str, ...]]:
    """Return the distinct fillers of both sides and of every slot of the templates."""
    slots: dict[str, dict[str, None]] = {
        "premise": dict.fromkeys(filler.word for filler in probe.premise),
        "hypothesis": dict.fromkeys(filler.word for filler in probe.hypothesis),
    }
    for template in probe.templates:
        for slot, words in template.fillers.items():
            slots.setdefault(slot, {}).update(dict.fromkeys(words))
    return {slot: tuple(words) for slot, words in slots.items()}


def _evaluate(
    model: NLIModel | RecordedModel,
    probe: Probe,
    columns: Columns,
    *,
    sample: int | None,
    draws: int,
    seed: int,
    engine: Engine,
    progress: Progress | None = None,
) -> Accumulator:
    sums = Accumulator(probe, columns, draws=draws, seed=seed)
    if sample is None:
        evaluate_all(sums, model, progress, engine)
    else:
        evaluate_sample(sums, model, stratified(probe, sample, seed=seed), progress, engine)
    return sums


def _controls(
    model: NLIModel | RecordedModel, probe: Probe, *, force: bool, seed: int, engine: Engine
) -> dict[str, float]:
    """Return the accuracy on each control in the surface form of the probe; recorded predictions have none."""
    accuracies: dict[str, float] = {}
    for name in () if isinstance(model, RecordedModel) else probe.controls:
        try:
            control, _ = restrict_to_vocabulary(find_probe(name).with_surface(probe.surface), model, force=force)
        except VocabularyError as error:
            if not force:
                raise
            warnings.warn(f"control skipped: {error.message}", EvenhandWarning, stacklevel=4)
            continue
        sample = CONTROL_PAIRS if control.n_pairs > CONTROL_PAIRS else None
        sums = _evaluate(model, control, Columns(()), sample=sample, draws=0, seed=seed, engine=engine)
        accuracies[name] = accuracy(sums)
    return accuracies


def _strata(sums: Accumulator) -> dict[str, object]:
    if sums.sample is None:
        return {}
    sample = sums.sample.sample
    return {"strata": sample.by, "per_stratum": sample.per_stratum}
