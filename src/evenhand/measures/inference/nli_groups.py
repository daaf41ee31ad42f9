"""Differences between any number of groups of an inference model: each against the rest, and every two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

import numpy as np

from evenhand.arrays import Vector64
from evenhand.measures.call import Call, measure
from evenhand.measures.group_tables import REST, GroupComparison, GroupTable, adjust_rows
from evenhand.measures.inference.ensemble_probe import SAMPLE, InferenceView, ask_ensemble, probe_details
from evenhand.measures.inference.nli_gap import GapLabel
from evenhand.measures.inference.pair_statistics import Tables, divided
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.nli import LABELS
from evenhand.stats import contrast_interval
from evenhand.stats.permutation import permutation_test
from evenhand.words.probes import Probe

FEWEST = 2  # words of a group; one word has no spread
INFO = Info(
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


@measure(INFO)
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
    return GroupTable(INFO.id, how, tuple(values), adjust_rows(rows), call.query)
