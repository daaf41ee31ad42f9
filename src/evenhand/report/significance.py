"""Tests of an audit's scores: which differ from no bias, and which a method has changed.

The p-value of a score is its own, or that of the normal test which its 95 % interval implies. p-values are corrected by
Holm's method over the family of tests. The test of a change treats the two values as independent; they come from the
same words, so it errs on the side of "no sure change". A score is nearer to its ideal when the change of its *distance*
from the ideal is significant: from 1.2 to -0.8 is a sure change of the value, and not surely nearer to 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenhand.audit.comparison import distance_from_ideal
from evenhand.measures import Measurement
from evenhand.measures.registry import IDEALS
from evenhand.report.tables import Row
from evenhand.stats.multiplicity import NORMAL_95, holm, two_sided_p

LEVEL = 0.05
BY_CONSTRUCTION = ("old-direction",)  # a method removes this direction, so the score says nothing about its success
# These take the most biased words of the original and ask whether they can still be told apart. On the original they
# can, by construction, so any method lowers them; what counts is what is left.
ONLY_LEFT = ("clustering", "recoverability", "neighbours")
MOVED = ("retention", "sentence-retention")  # 1 on the original by construction: how far a method moves, not a loss


@dataclass(frozen=True)
class Tested:
    """A score of a row on a stage with the corrected p-value of its test."""

    row: Row
    stage: str
    measurement: Measurement
    p: float
    strength: float
    """Distance from the null in standard errors."""

    @property
    def sure(self) -> bool:
        """Whether the test is significant after correction."""
        return self.p < LEVEL


def null_value(row: Row, measurement: Measurement) -> float | None:
    """Return the value expected without bias, or None if the measure is above its ideal by construction."""
    null = row.info.null
    return null.get(measurement.score) if isinstance(null, Mapping) else null


def run_tests(about: Iterable[Row], stages: Iterable[str]) -> list[Tested]:
    """Test every interpretable score against "no bias", and correct the p-values over all of them."""
    pending: list[tuple[Row, str, Measurement, float, float]] = []
    for row in about:
        for stage in stages:
            measurement = row.cells.get(stage)
            if measurement is None or measurement.value is None or measurement.not_interpretable:
                continue
            test = _test(row, measurement)
            if test is not None:
                pending.append((row, stage, measurement, *test))
    adjusted = holm([p for *_, p, _ in pending])
    return [
        Tested(row, stage, measurement, float(corrected), strength)
        for (row, stage, measurement, _, strength), corrected in zip(pending, adjusted, strict=True)
    ]


def _test(row: Row, measurement: Measurement) -> tuple[float, float] | None:
    """Return the p-value of a score and its distance from the null in standard errors; None where it has no test."""
    null = null_value(row, measurement)
    distance = abs((measurement.value or 0.0) - (null or 0.0))
    error = standard_error(measurement)
    strength = distance / error if error else float("inf") if error == 0.0 and distance else 0.0
    if measurement.p_value is not None:
        return measurement.p_value, strength
    if null is None or error is None:
        return None
    return (two_sided_p(strength) if strength != float("inf") else 0.0), strength


def standard_error(measurement: Measurement) -> float | None:
    """Return the standard error that a 95 % interval implies; None without an interval."""
    if not measurement.interval:
        return None
    low, high = measurement.interval
    return (high - low) / (2 * NORMAL_95)


@dataclass(frozen=True)
class Changed:
    """A score before and after a method, with the corrected p-values of the two tests of the change."""

    row: Row
    before: Measurement
    after: Measurement
    p: float
    """Of the change of the distance from the ideal."""
    strength: float
    """That change in standard errors."""
    p_moved: float
    """Of the change of the value."""

    @property
    def sure(self) -> bool:
        """Whether the value is significantly nearer to its ideal, or further from it, after correction."""
        return self.p < LEVEL and not self.changes_sign

    @property
    def is_same(self) -> bool:
        """Whether the value is the same but for rounding."""
        return math.isclose(self.before.value or 0.0, self.after.value or 0.0, rel_tol=1e-6, abs_tol=1e-9)

    @property
    def closer(self) -> bool:
        """Whether the value is nearer to its ideal than before."""
        return distance_from_ideal(self.after) < distance_from_ideal(self.before)

    @property
    def changes_sign(self) -> bool:
        """Whether both values surely lie on different sides of the ideal, 0 or 50."""
        better = self.row.info.better_score(self.before.score)
        moved = self.p_moved < LEVEL
        if better not in ("zero", "fifty") or not self.before.interval or not self.after.interval or not moved:
            return False
        ideal = IDEALS[better]
        (low, high), (new_low, new_high) = self.before.interval, self.after.interval
        return (low > ideal and new_high < ideal) or (high < ideal and new_low > ideal)


def is_changeable(row: Row) -> bool:
    """Return whether a change of the score says something: not if a method brings it down by construction."""
    return row.question.variant not in BY_CONSTRUCTION and row.question.measure not in ONLY_LEFT


def run_change_tests(about: Iterable[Row], stages: Iterable[str]) -> dict[str, list[Changed]]:
    """Test the change of every score from the first stage to each other, and correct the p-values over all of them."""
    pending: list[tuple[str, Row, Measurement, Measurement, float, float]] = []
    moved: list[float] = []
    for row in about:
        for stage in stages:
            before, after = row.original, row.cells.get(stage)
            if after is None or before.not_interpretable or after.not_interpretable:
                continue
            if before.value is None or after.value is None:
                continue
            errors = (standard_error(before), standard_error(after))
            if errors[0] is None or errors[1] is None:
                continue
            spread = (errors[0] ** 2 + errors[1] ** 2) ** 0.5
            nearer = abs(distance_from_ideal(after) - distance_from_ideal(before))
            p, strength = _difference_test(nearer, spread)
            pending.append((stage, row, before, after, p, strength))
            moved.append(_difference_test(abs(after.value - before.value), spread)[0])
    adjusted, adjusted_moved = holm([change[4] for change in pending]), holm(moved)
    changes: dict[str, list[Changed]] = {stage: [] for stage in stages}
    for (stage, row, before, after, _, strength), p, p_moved in zip(pending, adjusted, adjusted_moved, strict=True):
        changes[stage].append(Changed(row, before, after, float(p), strength, float(p_moved)))
    return changes


def _difference_test(difference: float, spread: float) -> tuple[float, float]:
    """Return the p-value of a difference and its size in standard errors."""
    strength = difference / spread if spread else float("inf") if difference > 1e-12 else 0.0
    return (0.0 if strength == float("inf") else two_sided_p(strength)), strength
