"""Bias left against quality kept: where each method of an audit stands, and which are beaten on both."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenhand import measures
from evenhand.audit.record import Audit
from evenhand.measures import Measurement

# What a value would be without bias, where that is neither 0 nor 1: half of two even classes are guessed right.
CHANCE = {"clustering": 0.5, "recoverability": 0.5}
# Measures of bias that a mitigation should lower. Direct bias along the removed direction is left out: a projection
# makes it 0 by construction, which says nothing.
BIAS = ("weat", "direct-bias", "clustering", "recoverability", "neighbours", "gipe")
SKIPPED_VARIANTS = ("old direction",)
GENDER_TESTS = ("weat-6", "weat-7", "weat-8")


@dataclass(frozen=True)
class Tradeoff:
    """One method: shares of the original's bias and quality, and whether no other method is better on both."""

    method: str
    bias_left: float
    quality_kept: float
    measures_used: int
    undefined: tuple[str, ...]
    on_the_front: bool = False


def tradeoffs(audit: Audit) -> list[Tradeoff]:
    """Every stage of an audit, least bias left first. The original stands at (1, 1)."""
    places = [_place(audit, stage.name) for stage in audit.stages]
    fronted = [replace(place, on_the_front=not any(_beats(other, place) for other in places)) for place in places]
    return sorted(fronted, key=lambda place: (place.bias_left, -place.quality_kept))


def _beats(one: Tradeoff, other: Tradeoff) -> bool:
    as_good = one.bias_left <= other.bias_left and one.quality_kept >= other.quality_kept
    return as_good and (one.bias_left < other.bias_left or one.quality_kept > other.quality_kept)


def _place(audit: Audit, stage: str) -> Tradeoff:
    left: list[float] = []
    kept: list[float] = []
    undefined: list[str] = []
    for case in audit.cases:
        before, after = audit.get(case.label), audit.get(case.label, stage)
        is_cost = measures.info(case.measure).family == "quality"
        if not is_cost and (case.measure not in BIAS or case.variant in SKIPPED_VARIANTS):
            continue
        if case.measure == "weat" and case.query not in GENDER_TESTS:
            continue
        share = _share(before, after)
        if share is None:
            undefined.append(case.label)
        else:
            (kept if is_cost else left).append(share)
    return Tradeoff(stage, _mean(left), _mean(kept), len(left) + len(kept), tuple(undefined))


def _share(before: Measurement, after: Measurement) -> float | None:
    """How much is left of what there was; None where either is undefined or there was nothing."""
    if before.value is None or after.value is None:
        return None
    ideal = CHANCE.get(before.measure, 0.0)
    distance = abs(before.value - ideal)
    return abs(after.value - ideal) / distance if distance > 1e-9 else None


def _mean(shares: list[float]) -> float:
    return float(np.mean(shares)) if shares else 1.0
