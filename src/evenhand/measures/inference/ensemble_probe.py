"""A probe put to an inference view: what the measures of this family have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import UsageError
from evenhand.measures.call import Call
from evenhand.measures.inference.pair_statistics import NEUTRAL
from evenhand.measures.inference.resampling import ENOUGH
from evenhand.measures.inference.seeds import SeedsResult, probe_seeds
from evenhand.models.nli import NLIEnsemble, NLIModel
from evenhand.models.nli.protocol import RecordedModel
from evenhand.models.vectors import Vectors
from evenhand.stats.units import Units, mean_units, null_p, units
from evenhand.words.probes import Probe
from evenhand.words.probes import probe as find_probe

# Words and seeds move a score by several hundredths, the choice of so many pairs by less than one.
SAMPLE = 6_000
DRAWS = 1_000
ROUNDING = 1e-12
Side: TypeAlias = Literal["premise", "hypothesis"]
InferenceView: TypeAlias = NLIModel | RecordedModel | NLIEnsemble


def probe_details(answers: SeedsResult) -> dict[str, Any]:
    """Return every score with its spread over the seeds, and the controls."""
    spreads = {name: spread.to_dict() for name, spread in answers.scores.items()}
    details = {"scores": spreads, "controls": answers.controls}
    alarm = {"not_interpretable": answers.warning} if answers.warning else {}
    return details | {"interval_over": list(answers.interval_over)} | alarm


def neutral_units(found: SeedsResult) -> tuple[Units, ...]:
    """Return the fillers of each side that has enough of them to be resampled, with the probability of neutral."""
    asked, (sums, counts) = found.first.asked, _seed_means(found)
    columns = np.stack([counts, sums[..., NEUTRAL]], axis=-1)
    sides: tuple[Side, ...] = ("premise", "hypothesis")
    return tuple(
        units("ratios", side, _names(asked, side), *columns.sum(axis=1 - axis).T)
        for axis, side in enumerate(sides)
        if columns.shape[axis] >= ENOUGH
    )


def gap_units(found: SeedsResult, label: int, groups: tuple[str, str]) -> tuple[Units, ...]:
    """Return the fillers of each side that has enough of them, with the probability of the label for both groups."""
    asked = found.first.asked
    columns = _group_columns(found, label, groups)
    grouped: Side = "premise" if asked.grouped == "premise" else "hypothesis"
    other: Side = "hypothesis" if asked.grouped == "premise" else "premise"
    members = [index for name in groups for index in asked.groups[name]]
    names = _names(asked, grouped)
    every = []
    if columns.shape[0] >= ENOUGH:
        every.append(units("ratios", other, _names(asked, other), *columns.sum(axis=1).T))
    if min(len(asked.groups[name]) for name in groups) >= ENOUGH:
        every.append(units("ratios", grouped, [names[i] for i in members], *columns.sum(axis=0)[members].T))
    return tuple(every)


def gap_p(found: SeedsResult, label: int, groups: tuple[str, str]) -> float | None:
    """Return the p-value of a gap: over the words of the groups, and over the fillers of the other side.

    All pairs share the few words of the two groups, so a gap that stands for the groups must be large beside the
    differences between the words of a group: Student's test of the word means, which few words do not limit as they
    limit a permutation test (three against three have 20 assignments). And the fillers of the other side must agree:
    their gaps change signs at random. The larger p-value counts. None for a single word in a group, and where the probe
    fixes no contrast, so the groups were chosen for their difference.
    """
    if any(result.gap is None or result.gap.chosen for result in found.results):
        return None
    columns = _group_columns(found, label, groups)
    by_word = columns.sum(axis=0)
    means = []
    for place, name in enumerate(groups):
        counts, sums = by_word[list(found.first.asked.groups[name]), 2 * place : 2 * place + 2].T
        means.append(sums[counts > 0] / counts[counts > 0])
    if min(map(len, means)) < 2:
        return None
    over_words = _student_p(means[0], -means[1])
    by_filler = columns.sum(axis=1)
    kept = by_filler[(by_filler[:, 0] > 0) & (by_filler[:, 2] > 0)]
    gaps = kept[:, 1] / kept[:, 0] + kept[:, 3] / kept[:, 2]
    over_fillers = null_p(mean_units("filler", range(len(gaps)), gaps)) if len(gaps) else None
    return over_words if over_fillers is None else max(over_words, over_fillers)


def _student_p(first: Vector64, second: Vector64) -> float:
    from scipy.special import stdtr

    freedom = len(first) + len(second) - 2
    squares = float(((first - first.mean()) ** 2).sum() + ((second - second.mean()) ** 2).sum())
    error = (squares / freedom * (1 / len(first) + 1 / len(second))) ** 0.5
    difference = abs(float(first.mean() - second.mean()))
    if error <= ROUNDING:
        return 1.0 if difference <= ROUNDING else 0.0
    return float(2 * stdtr(freedom, -difference / error))


def _seed_means(found: SeedsResult) -> tuple[NDArray[np.float64], Matrix64]:
    """Return sums (premises, hypotheses, columns) and counts of pairs, as means over the seeds."""
    tables = [result.tables for result in found.results]
    return np.mean([table.words for table in tables], axis=0), np.mean([table.word_counts for table in tables], axis=0)


def _group_columns(found: SeedsResult, label: int, groups: tuple[str, str]) -> NDArray[np.float64]:
    """Return (other fillers, grouped fillers, 4): count and sum of the first group, count and -sum of the second."""
    asked, (sums, counts) = found.first.asked, _seed_means(found)
    table = np.stack([counts, sums[..., label]], axis=-1)
    if asked.grouped == "premise":
        table = table.swapaxes(0, 1)
    columns = np.zeros((*table.shape[:2], 4))
    for place, (name, sign) in enumerate(zip(groups, (1.0, -1.0), strict=True)):
        members = list(asked.groups[name])
        columns[:, members, 2 * place : 2 * place + 2] = table[:, members] * [1.0, sign]
    return columns


def _names(asked: Probe, side: Side) -> list[str]:
    return [filler.word for filler in asked.side(side)]


def as_ensemble(model: InferenceView) -> NLIEnsemble:
    """Return an inference view as an ensemble; a single model is an ensemble of one."""
    if isinstance(model, NLIEnsemble):
        return model
    if isinstance(model, Vectors):
        raise UsageError(
            "this measure takes an inference model, not vectors",
            hint='for the embedded vectors, pass eh.open(vectors).view("inference")',
        )
    return NLIEnsemble((model,))


def ask_ensemble(
    call: Call,
    model: InferenceView,
    probe: Probe | str | Path,
    *,
    scores: str | Sequence[str],
    sample: int | None,
    seed: int,
    controls: bool = True,
) -> SeedsResult:
    """Ask every member of the view, and say so in the call; the same question to the same view runs once.

    Raises:
        VocabularyError: If too many fillers are out of vocabulary.
    """
    ensemble, asked = as_ensemble(model), find_probe(probe)
    size = None if sample is None or sample >= asked.n_pairs else sample
    call.model = ensemble.name
    call.describe(asked.name, scores=scores, params={"sample": size})

    def run() -> SeedsResult:
        where = ensemble.engine or "local"
        return probe_seeds(
            ensemble.members, asked, sample=size, seed=seed, draws=DRAWS, controls=controls, engine=where
        )

    answers = ensemble.remember((asked, size, seed, controls), run)
    call.coverage, call.note = answers.coverage, "; ".join(filter(None, (answers.warning, ensemble.note)))
    models = [result.model for result in answers.results]
    call.params |= {"draws": DRAWS, "models": models, "surface": asdict(asked.surface)}
    return answers
