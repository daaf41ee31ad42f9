"""What changed between two audits, and whether by more than their intervals."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

from evenhand import measures
from evenhand.audit.record import Audit
from evenhand.errors import EvenhandWarning
from evenhand.measures import Measurement
from evenhand.measures.registry import IDEALS

Verdict = Literal["better", "worse", "unclear", "same", "undefined"]
SAME = 1e-12  # of rounding: a smaller change is none


@dataclass(frozen=True)
class RowChange:
    """One row of both audits on the same stage."""

    label: str
    subject: str
    stage: str
    before: Measurement
    after: Measurement
    change: float | None
    beyond: bool
    """Whether the distance from the ideal changes by more than the root of the summed squares of the two intervals'
    half-widths, and both values are interpretable."""
    verdict: Verdict

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "label": self.label,
            "subject": self.subject,
            "stage": self.stage,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "change": self.change,
            "beyond_intervals": self.beyond,
            "verdict": self.verdict,
        }


def compare(before: Audit, after: Audit) -> list[RowChange]:
    """Compare every row that both audits have on the same stage.

    Subjects are matched by name, or one with the other where each audit has one only.
    """
    if _differ(before, after):
        concepts = f"{before.concept} and {after.concept}"
        warnings.warn(f"the audits measure different concepts: {concepts}", EvenhandWarning, stacklevel=2)
    single = len(before.subjects) == 1 and len(after.subjects) == 1
    names = [(before.subjects[0], after.subjects[0])] if single else [(n, n) for n in after.subjects]
    changes = []
    for old_name, new_name in names:
        old = before.rows(old_name) if old_name in before.subjects else {}
        for label, stages in after.rows(new_name).items():
            for stage, measurement in stages.items():
                if stage in old.get(label, {}):
                    changes.append(change(label, new_name, stage, old[label][stage], measurement))
    return changes


def _differ(before: Audit, after: Audit) -> bool:
    """Return whether two audits are about different words; records of version 0.1 have a name only."""
    digests = {audit.manifest["concept"].get("digest", "") for audit in (before, after)} - {""}
    return before.concept != after.concept or len(digests) > 1


def change(label: str, subject: str, stage: str, before: Measurement, after: Measurement) -> RowChange:
    """Compare two measurements of one row."""
    if before.value is None or after.value is None:
        verdict: Verdict = "undefined"
        return RowChange(label, subject, stage, before, after, None, False, verdict)
    difference = after.value - before.value
    if abs(difference) <= SAME * max(1.0, abs(before.value)):
        return RowChange(label, subject, stage, before, after, difference, False, "same")
    beyond = _is_beyond_intervals(before, after) and not (before.not_interpretable or after.not_interpretable)
    closer = distance_from_ideal(after) < distance_from_ideal(before)
    return RowChange(
        label, subject, stage, before, after, difference, beyond,
        ("better" if closer else "worse") if beyond else "unclear",
    )  # fmt: skip


def _is_beyond_intervals(before: Measurement, after: Measurement) -> bool:
    """Return whether the distances from the ideal differ by more than the two intervals allow.

    Distances, because a value that passes the ideal and ends as far from it on the other side is neither better nor
    worse. Without an interval nothing is sure.
    """
    if not before.interval or not after.interval:
        return False
    near, far = sorted((_distances(before), _distances(after)))
    return far[0] - near[0] > math.hypot(max(near[2] - near[0], 0.0), max(far[0] - far[1], 0.0))


def _distances(measurement: Measurement) -> tuple[float, float, float]:
    """Return the distance from the ideal, with the interval on the value's side of the ideal."""
    low, high = measurement.interval or (0.0, 0.0)
    value = measurement.value or 0.0
    ideal = IDEALS.get(measures.info(measurement.measure).better_score(measurement.score), -math.inf)
    shift = 0.0 if math.isinf(ideal) else ideal
    if value < ideal:
        return shift - value, shift - high, shift - low
    return value - shift, low - shift, high - shift


def distance_from_ideal(measurement: Measurement) -> float:
    """Distance from the ideal value: smaller is better."""
    better = measures.info(measurement.measure).better_score(measurement.score)
    value = measurement.value or 0.0
    if better in IDEALS:
        return abs(value - IDEALS[better])
    return value if better == "lower" else -value
