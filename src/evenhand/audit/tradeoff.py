"""Bias left against quality kept: how each method of an audit compares, and which are beaten on both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenhand import measures, words
from evenhand.audit.plan import Question
from evenhand.audit.record import ORIGINAL, Audit, Result
from evenhand.measures import Info, Measurement

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
        share = _share(cells[ORIGINAL], cells[stage])
        if share is None:
            undefined.append(label)
        else:
            (kept if is_cost else left).append(share)
    return Tradeoff(stage, _mean(left), _mean(kept), len(left) + len(kept), tuple(undefined))


def _is_bias(question: Question, concept: str) -> bool:
    """Return whether a method should lower the value: not that of a control, nor one that it lowers by construction."""
    info = question.info
    is_control = info.takes == "query" and not is_about_concept(question, concept)
    return info.in_tradeoff and question.variant not in info.by_construction and not is_control


def is_about_concept(question: Question, concept: str) -> bool:
    """Return whether a query asks about the concept; controls without one say nothing about its removal."""
    info = question.info
    asked = info.query_concepts.get(question.query)
    if asked is None and info.find_query and (found := info.find_query(question.query)):
        asked = found.concept
    if asked is None and question.query in words.ids("query"):
        asked = words.query(question.query).concept
    return asked is None or asked == concept


def _share(before: Measurement, after: Measurement) -> float | None:
    """Return how much is left of what there was; None where either is undefined or there was nothing."""
    if before.value is None or after.value is None:
        return None
    info = measures.info(before.measure)
    null = info.null.get(before.score) if isinstance(info.null, Mapping) else info.null
    ideal = 0.0 if null is None else null
    old, new = abs(before.value - ideal), abs(after.value - ideal)
    if (
        info.family == "quality" and info.better_score(before.score) == "lower"
    ):  # perplexity: the lower, the more is kept
        old, new = new, old
    return new / old if old > 1e-9 else None


def _mean(shares: list[float]) -> float:
    return float(np.mean(shares)) if shares else 1.0
