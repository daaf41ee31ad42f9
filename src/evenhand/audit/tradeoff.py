"""Bias left against quality kept: how methods, and subjects, compare, and how far the measures agree about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand import measures
from evenhand.audit.plan import Question
from evenhand.audit.record import ORIGINAL, Audit, Result
from evenhand.audit.significance import distance_from_ideal, null_value
from evenhand.errors import UsageError
from evenhand.measures import Info, Measurement
from evenhand.stats import mean_ranks

TO_FETCH = "evenhand fetch ws-353 men google-analogies"


@dataclass(frozen=True)
class Tradeoff:
    """One method: shares of the original's bias and quality, and whether no other method is better on both."""

    method: str
    bias_left: float
    quality_kept: float
    measures_used: int
    undefined: tuple[str, ...]
    on_the_front: bool = False


def tradeoffs(audit: Audit, subject: str = "") -> list[Tradeoff]:
    """Return every stage of one subject, least bias left first. The original is at (1, 1)."""
    rows = audit.rows(subject)
    points = [_point(audit, rows, stage) for stage in audit.stage_names]
    fronted = [replace(point, on_the_front=not any(_beats(other, point) for other in points)) for point in points]
    return sorted(fronted, key=lambda point: (point.bias_left, -point.quality_kept))


def cost_note(results: Sequence[Result]) -> str:
    """Return a warning if methods were applied to vectors and no rated set says what they cost; empty otherwise."""
    changed = [result for result in results if result.stage != ORIGINAL]
    if not any(result.question.info.view == "vectors" for result in changed):
        return ""
    rated = [result for result in changed if _is_rated(result.question.info)]
    if not rated:
        known = [id for id in measures.ids() if _is_rated(measures.info(id))]
        return f"cost not measured: no {' or '.join(reversed(known))} was measured; measure {known[-1]} too"
    if any(result.measurement.status == "ok" for result in rated):
        return ""
    reasons = dict.fromkeys(result.measurement.reason for result in rated)
    own = "or measure similarity with a file of your own"
    return f"cost not measured: {'; '.join(reasons)}. Get larger sets with `{TO_FETCH}`, {own}"


def _is_rated(info: Info) -> bool:
    """Return whether a measure of vectors compares with people's answers."""
    return info.role == "cost" and info.view == "vectors"


def _is_bias(question: Question, concept: str) -> bool:
    """Return whether a method should lower the value: not that of a control, nor one that it lowers by construction."""
    info = question.info
    is_control = info.takes == "query" and not question.asks_about(concept)
    return info.in_tradeoff and question.variant not in info.by_construction and not is_control


def _beats(one: Tradeoff, other: Tradeoff) -> bool:
    as_good = one.bias_left <= other.bias_left and one.quality_kept >= other.quality_kept
    return as_good and (one.bias_left < other.bias_left or one.quality_kept > other.quality_kept)


def _point(audit: Audit, rows: dict[str, dict[str, Measurement]], stage: str) -> Tradeoff:
    left: list[float] = []
    kept: list[float] = []
    undefined: list[str] = []
    for label, cells in rows.items():
        question = audit.question(label)
        is_cost = question.info.family == "quality"
        if not is_cost and not _is_bias(question, audit.concept):
            continue
        share = _share(question, cells[ORIGINAL], cells[stage])
        if share is None:
            undefined.append(label)
        else:
            (kept if is_cost else left).append(share)
    return Tradeoff(stage, _mean(left), _mean(kept), len(left) + len(kept), tuple(undefined))


def _share(question: Question, before: Measurement, after: Measurement) -> float | None:
    """Return how much is left of what there was; None where either is undefined or there was nothing."""
    if before.value is None or after.value is None:
        return None
    info, ideal = question.info, null_value(question, before) or 0.0
    old, new = abs(before.value - ideal), abs(after.value - ideal)
    if info.family == "quality" and info.better_score(before.score) == "lower":  # such as perplexity
        old, new = new, old
    return new / old if old > 1e-9 else None


def _mean(shares: list[float]) -> float:
    return float(np.mean(shares)) if shares else 1.0


FEWEST = 3  # subjects: with two, every rank correlation is +1 or -1


@dataclass(frozen=True)
class Ranking:
    """Ranks of the subjects in every row, 1 for the least bias or best quality; ties share the mean rank."""

    subjects: tuple[str, ...]
    stage: str
    ranks: dict[str, tuple[float, ...]]
    undefined: tuple[str, ...]
    """Rows without a number for every subject, which are not ranked."""
    agreement: dict[tuple[str, str], float]
    """Spearman correlation between two rows over the subjects; empty for fewer than three subjects."""

    @property
    def mean_ranks(self) -> dict[str, float]:
        """Mean rank of each subject over the rows."""
        table = np.array(list(self.ranks.values())) if self.ranks else np.zeros((0, len(self.subjects)))
        means = table.mean(axis=0) if len(table) else np.full(len(self.subjects), np.nan)
        return dict(zip(self.subjects, map(float, means), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "subjects": list(self.subjects),
            "stage": self.stage,
            "ranks": {label: list(ranks) for label, ranks in self.ranks.items()},
            "mean_ranks": self.mean_ranks,
            "undefined": list(self.undefined),
            "agreement": [{"rows": list(pair), "spearman": rho} for pair, rho in self.agreement.items()],
        }


def rank(audit: Audit, stage: str = ORIGINAL) -> Ranking:
    """Rank the subjects of an audit in every row that all of them have."""
    if len(audit.subjects) < 2:
        raise UsageError("a ranking needs two subjects or more", hint="audit several: evenhand audit a.vec b.vec")
    tables = [audit.rows(subject) for subject in audit.subjects]
    shared = [label for label in audit.labels if all(stage in table.get(label, {}) for table in tables)]
    values = {label: [table[label][stage] for table in tables] for label in shared}
    undefined = tuple(label for label, row in values.items() if any(m.value is None for m in row))
    ranks = {
        label: tuple(map(float, mean_ranks(np.array([distance_from_ideal(m) for m in row]))))
        for label, row in values.items()
        if label not in undefined
    }
    return Ranking(audit.subjects, stage, ranks, undefined, _agreement(ranks, len(audit.subjects)))


def _agreement(ranks: dict[str, tuple[float, ...]], subjects: int) -> dict[tuple[str, str], float]:
    if subjects < FEWEST:
        return {}
    table = {label: np.array(row) for label, row in ranks.items() if len(set(row)) > 1}
    labels = list(table)
    return {
        (one, other): float(np.corrcoef(table[one], table[other])[0, 1])
        for position, one in enumerate(labels)
        for other in labels[position + 1 :]
    }
