"""Measures of an inference model on a probe: net neutral (Dev et al. 2020), the gap of two groups, and all groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import UsageError
from evenhand.measures.call import Call, measure
from evenhand.measures.groups import REST, GroupComparison, GroupTable, adjust_rows
from evenhand.measures.inference.pair_statistics import ENOUGH, NEUTRAL, Tables, divided
from evenhand.measures.inference.seeds import SeedsResult, probe_seeds
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.nli import LABELS, NLIEnsemble, NLIModel
from evenhand.models.nli.protocol import RecordedModel
from evenhand.models.vectors import Vectors
from evenhand.stats import contrast_interval
from evenhand.stats.permutation import permutation_test
from evenhand.stats.units import Units, mean_units, null_p, units
from evenhand.words.probes import Probe
from evenhand.words.probes import probe as find_probe

# Words and seeds move a score by several hundredths, the choice of so many pairs by less than one.
SAMPLE = 6_000
DRAWS = 1_000
ROUNDING = 1e-12
Side: TypeAlias = Literal["premise", "hypothesis"]
InferenceView: TypeAlias = NLIModel | RecordedModel | NLIEnsemble


NLI_NEUTRALITY_INFO = Info(
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
    ticked=("inference",),
)


@measure(NLI_NEUTRALITY_INFO)
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


def _reading(answers: SeedsResult) -> str:
    values = answers.scores["net_neutral"].values
    share = f"neutral is given {np.mean(values):.0%} of the probability, {min(values):.0%} to {max(values):.0%} by seed"
    right = ", ".join(f"{accuracy:.0%} of {name}" for name, accuracy in answers.controls.items())
    return f"{share}; right on {right}" if right else share


def _items(answers: SeedsResult) -> tuple[dict[str, Any], ...]:
    """Mean probability of neutral for each premise word."""
    tables = [{row["word"]: row["neutral"] for row in r.by_word if row["slot"] == "premise"} for r in answers.results]
    shared = [word for word in tables[0] if all(word in table for table in tables)]
    return tuple({"word": word, "value": float(np.mean([table[word] for table in tables]))} for word in shared)


WIDE = "the interval of a gap is wider than it needs to be: it covered the true gap in all samples of a simulation"
GapLabel: TypeAlias = Literal["entailment", "contradiction"]
NLI_GAP_INFO = Info(
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
    ticked=("inference",),
)


@measure(NLI_GAP_INFO)
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
        items=_gap_items(answers, index, first, second),
        details={**probe_details(answers), "groups": [first, second]},
        params=params,
    )


def _gap_items(answers: SeedsResult, label: int, first: str, second: str) -> tuple[dict[str, Any], ...]:
    """The gap of each filler of the side without groups, and P(label) of both groups, where the sample has pairs."""
    asked = answers.first.asked
    words = [filler.word for filler in asked.side("hypothesis" if asked.grouped == "premise" else "premise")]
    means = np.mean([_means(result.tables, asked, label, first, second) for result in answers.results], axis=0)
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


FEWEST = 2  # words of a group; one word has no spread
NLI_GROUPS_INFO = Info(
    id="nli-groups",
    title="Differences between groups of an inference model",
    takes="probe",
    better="zero",
    formula="mean over the words of a group of P(label), minus the same over the words of the other groups, or another",
    reading=(
        "Above 0: the model concludes the label more often for the words of the group. The value is the largest "
        "difference of the table, without its sign; the p-value is adjusted for all comparisons (Holm)."
    ),
    limits=(
        "The words of a group are few, and only they are tested: nothing follows for other words. An average over the "
        "other side of the probe hides opposite leanings. See the controls: a model that is not sure of anything "
        "differs between groups for reasons of its own."
    ),
    cites=("dev2019", "holm1979"),
    queries=("gender-diverse-occupation", "ethnicity-polarity", "religion-adherents-polarity", "disability-polarity"),
    view="inference",
    family="inference",
    null=None,
    definition=2,
)


@measure(NLI_GROUPS_INFO)
def nli_groups(
    call: Call,
    model: InferenceView,
    probe: Probe | str | Path = "gender-diverse-occupation",
    *,
    sample: int | None = SAMPLE,
    seed: int = 0,
) -> tuple[Measurement, ...]:
    """Compare the groups of a probe by the probability of entailment and of contradiction.

    Each word's probability is its mean over the other side of the probe, the phrases and the training seeds. Words are
    permuted between groups for the p-values and resampled within groups for the intervals.

    Args:
        model: an NLI model or an ensemble of training seeds.
        probe: a probe whose fillers on one side belong to two groups or more.
        sample: number of pairs asked, drawn evenly over pairs of words; None asks all.
        seed: seed of the sample and the permutations.

    Returns:
        For each label the table of every two groups and that of each group against the rest, as one measurement each.

    What it does not tell you: whether the model is right about anything. See `evenhand show nli-groups`.
    """
    hows: tuple[GroupComparison, ...] = get_args(GroupComparison)
    scores = {f"{label}:{how}": (label, how) for label in get_args(GapLabel) for how in hows}
    answers = ask_ensemble(call, model, probe, scores=list(scores), sample=sample, seed=seed)
    asked, tables = answers.first.asked, [result.tables for result in answers.results]
    results = []
    for score, (label, how) in scores.items():
        values = _by_group(asked, tables, LABELS.index(label))
        if len(values) < 2:
            reason = f"{call.query} has fewer than two groups of {FEWEST} words that the model knows"
            results.append(call.undefined(reason, score=score))
            continue
        (summary,) = _table(call, values, how, label, seed).measurements()
        left_out = [name for name in asked.groups if name not in values]
        lost = f"left out, with fewer than {FEWEST} known words: {', '.join(left_out)}" if left_out else ""
        note = "; ".join(filter(None, (call.note, summary.note, lost)))
        details = {**probe_details(answers), **summary.details, "left_out": left_out}
        results.append(replace(summary, note=note, details=details))
    return tuple(results)


def _by_group(asked: Probe, tables: list[Tables], label: int) -> dict[str, Vector64]:
    """Return the mean probability of each word by group, without words that were not asked and groups of one word."""
    means = np.mean([_word_means(asked, table)[:, label] for table in tables], axis=0)
    groups = {name: means[list(members)] for name, members in asked.groups.items()}
    finite = {name: values[np.isfinite(values)] for name, values in groups.items()}
    return {name: values for name, values in finite.items() if len(values) >= FEWEST}


def _word_means(asked: Probe, tables: Tables) -> Any:
    axis = 1 if asked.grouped == "premise" else 0
    return divided(tables.words.sum(axis=axis), tables.word_counts.sum(axis=axis))


def _table(call: Call, values: Mapping[str, Vector64], how: GroupComparison, label: str, seed: int) -> GroupTable:
    rows = []
    if how == "pairwise":
        compared = [(min(pair), max(pair), values[max(pair)]) for pair in combinations(values, 2)]
    else:
        compared = [(name, REST, np.concatenate([v for n, v in values.items() if n != name])) for name in values]
    for first, second, others in compared:
        own = values[first]
        test = permutation_test(own, others, alternative="two-sided", seed=seed)
        difference = float(own.mean() - others.mean())
        bounds = contrast_interval([own, others], [1.0, -1.0])
        measurement = call.measurement(
            difference, len(own) + len(others), interval=bounds, p_value=test.p_value, score=label, positive=first,
            reading="",
        )  # fmt: skip
        rows.append((first, second, measurement))
    return GroupTable(NLI_GROUPS_INFO.id, how, tuple(values), adjust_rows(rows), call.query)


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


def probe_details(answers: SeedsResult) -> dict[str, Any]:
    """Return every score with its spread over the seeds, and the controls."""
    spreads = {name: spread.to_dict() for name, spread in answers.scores.items()}
    details = {"scores": spreads, "controls": answers.controls}
    alarm = {"not_interpretable": answers.warning} if answers.warning else {}
    return details | {"interval_over": list(answers.interval_over)} | alarm


def neutral_units(answers: SeedsResult) -> tuple[Units, ...]:
    """Return the fillers of each side that has enough of them to be resampled, with the probability of neutral."""
    asked, (sums, counts) = answers.first.asked, _seed_means(answers)
    columns = np.stack([counts, sums[..., NEUTRAL]], axis=-1)
    sides: tuple[Side, ...] = ("premise", "hypothesis")
    return tuple(
        units("ratios", side, _names(asked, side), *columns.sum(axis=1 - axis).T)
        for axis, side in enumerate(sides)
        if columns.shape[axis] >= ENOUGH
    )


def gap_units(answers: SeedsResult, label: int, groups: tuple[str, str]) -> tuple[Units, ...]:
    """Return the fillers of each side that has enough of them, with the probability of the label for both groups."""
    asked = answers.first.asked
    columns = _group_columns(answers, label, groups)
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


def gap_p(answers: SeedsResult, label: int, groups: tuple[str, str]) -> float | None:
    """Return the p-value of a gap: over the words of the groups, and over the fillers of the other side.

    All pairs share the few words of the two groups, so a gap that stands for the groups must be large beside the
    differences between the words of a group: Student's test of the word means, which few words do not limit as they
    limit a permutation test (three against three have 20 assignments). And the fillers of the other side must agree:
    their gaps change signs at random. The larger p-value counts. None for a single word in a group, and where the probe
    fixes no contrast, so the groups were chosen for their difference.
    """
    if any(result.gap is None or result.gap.chosen for result in answers.results):
        return None
    columns = _group_columns(answers, label, groups)
    by_word = columns.sum(axis=0)
    means = []
    for place, name in enumerate(groups):
        counts, sums = by_word[list(answers.first.asked.groups[name]), 2 * place : 2 * place + 2].T
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


def _seed_means(answers: SeedsResult) -> tuple[NDArray[np.float64], Matrix64]:
    """Return sums (premises, hypotheses, columns) and counts of pairs, as means over the seeds."""
    tables = [result.tables for result in answers.results]
    return np.mean([table.words for table in tables], axis=0), np.mean([table.word_counts for table in tables], axis=0)


def _group_columns(answers: SeedsResult, label: int, groups: tuple[str, str]) -> NDArray[np.float64]:
    """Return (other fillers, grouped fillers, 4): count and sum of the first group, count and -sum of the second."""
    asked, (sums, counts) = answers.first.asked, _seed_means(answers)
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
