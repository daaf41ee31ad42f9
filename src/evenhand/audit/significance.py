"""One rule for what an audit shows: which scores differ from no bias, and which scores changed.

Score card, findings, `compare`, `check` and the web pages all ask here.

**Bias.** A score is tested by its own p-value. A score with an interval alone is known to differ at the level of that
interval and no further.

**Change.** Before and after come from the same words, so they are compared on the same units: if nothing changed, the
two values of a unit could be exchanged (`stats.units.exchange_test`). Two records without common units are compared as
independent values by their intervals, and `paired` says so. A score is better when its *distance* from the ideal falls
significantly: from 1.2 to -0.8 is a change of the value, and not clearly nearer to 0.

**Correction.** A question is often asked in several ways: WEAT and its generalisation on the same words. The p-values
of one question are combined by their harmonic mean (Wilson 2019), which nearly equal p-values do not weaken, and Holm's
correction is made over questions. A test has the corrected p-value of its question, or its own if that is larger. A
family is the scores of one kind (bias, left, control, quality) on one stage, so a further method does not change what
is said about the others.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from evenhand.arrays import Vector64
from evenhand.audit.plan import Question
from evenhand.audit.record import Audit, Row
from evenhand.errors import EvenhandWarning
from evenhand.measures import Measurement, info
from evenhand.measures.registry import IDEALS, Better
from evenhand.stats.multiplicity import NORMAL_95, harmonic_mean_p, holm, two_sided_p
from evenhand.stats.units import PairedTest, exchange_test

LEVEL = 0.05
ENOUGH_IN_COMMON = 0.5  # share of the units of each record that both must have to be compared on them

RowRole = Literal["bias", "left", "by construction", "control", "cost", "moved"]
Verdict = Literal["better", "worse", "other sign", "unclear", "same"]


def role(question: Question, concept: str) -> RowRole:
    """Return what a row is for in an audit of a concept."""
    info = question.info
    if info.role in ("cost", "moved"):
        return info.role
    if not question.asks_about(concept):
        return "control"
    return "by construction" if question.variant in info.by_construction else info.role


def is_changeable(row: Row) -> bool:
    """Return whether a change of the score says something: not if a method brings it down by construction."""
    return row.question.variant not in row.info.by_construction and row.info.role != "left"


# Against no bias ----------------------------------------------------------------------------------------------------


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


def null_value(question: Question, measurement: Measurement) -> float | None:
    """Return the value expected without bias, or None if the measure is above its ideal by construction."""
    null = question.info.null
    return null.get(measurement.score) if isinstance(null, Mapping) else null


def run_tests(about: Iterable[Row], stages: Iterable[str]) -> list[Tested]:
    """Test every interpretable score against "no bias", and correct the p-values over the questions of each stage."""
    every = list(about)
    tested: list[Tested] = []
    for stage in stages:
        pending: list[tuple[Row, Measurement, float, float]] = []
        for row in every:
            measurement = row.cells.get(stage)
            if measurement is None or measurement.value is None or measurement.not_interpretable:
                continue
            test = _test(row.question, measurement)
            if test is not None:
                pending.append((row, measurement, *test))
        asked = [_asked(row.question, measurement.score) for row, measurement, *_ in pending]
        adjusted = corrected(asked, [p for *_, p, _ in pending])
        tested += [
            Tested(row, stage, measurement, p, strength)
            for (row, measurement, _, strength), p in zip(pending, adjusted, strict=True)
        ]
    return tested


def _test(question: Question, measurement: Measurement) -> tuple[float, float] | None:
    """Return the p-value of a score and its distance from the null in standard errors; None where it has no test."""
    null = null_value(question, measurement)
    distance = abs((measurement.value or 0.0) - (null or 0.0))
    error = standard_error(measurement)
    strength = distance / error if error else float("inf") if error == 0.0 and distance else 0.0
    if measurement.p_value is not None:
        return measurement.p_value, strength
    if null is None or not measurement.interval or measurement.interval[0] == measurement.interval[1]:
        return None
    # A 95 % interval that leaves the null out says p < .05, and nothing about how much smaller p is.
    low, high = measurement.interval
    return (1.0 if low <= null <= high else math.nextafter(LEVEL, 0.0)), strength


def standard_error(measurement: Measurement) -> float | None:
    """Return the standard error that a 95 % interval implies; None without an interval."""
    if not measurement.interval:
        return None
    low, high = measurement.interval
    return (high - low) / (2 * NORMAL_95)


def _asked(question: Question, score: str) -> tuple[str, str, str]:
    """Return what a score is about: two measures of one view with one query ask the same in two ways.

    A measure whose scores ask different questions says so, see `Info.criteria`.
    """
    return question.info.view, question.query, question.info.criteria.get(score, "")


def corrected(questions: Sequence[Hashable], p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected over questions: Holm's method over the harmonic mean p-value of each question.

    >>> [round(p, 3) for p in corrected(["a", "a", "b"], [0.01, 0.01, 0.04])]
    [0.02, 0.02, 0.04]
    """
    ways: dict[Hashable, list[float]] = {}
    for question, p in zip(questions, p_values, strict=True):
        ways.setdefault(question, []).append(p)
    adjusted = dict(zip(ways, holm([harmonic_mean_p(some) for some in ways.values()]), strict=True))
    return [max(float(adjusted[question]), p) for question, p in zip(questions, p_values, strict=True)]


# Before against after -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Changed:
    """A score before and after, with the corrected p-values of the two tests of the change."""

    row: Row
    before: Measurement
    after: Measurement
    p: float
    """Of the change of the distance from the ideal."""
    strength: float
    """That change in standard errors."""
    p_moved: float
    """Of the change of the value."""
    paired: bool
    """Whether both values were compared on the same units, and not as independent values by their intervals."""
    lost: int = 0
    """Units that only one of the two values has; the test leaves them out."""

    @property
    def sure(self) -> bool:
        """Whether the value is significantly nearer to its ideal, or further from it, after correction.

        A value that ends significantly on the other side is not called nearer.
        """
        return self.p < LEVEL and not (self.changes_sign and self.closer)

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
        """Whether both values lie significantly on different sides of the ideal, 0 or 50."""
        better = self.row.info.better_score(self.before.score)
        moved = self.p_moved < LEVEL
        if better not in ("zero", "fifty") or not self.before.interval or not self.after.interval or not moved:
            return False
        ideal = IDEALS[better]
        (low, high), (new_low, new_high) = self.before.interval, self.after.interval
        return (low > ideal and new_high < ideal) or (high < ideal and new_low > ideal)

    @property
    def verdict(self) -> Verdict:
        """The change in a word."""
        if self.sure:
            return "better" if self.closer else "worse"
        if self.changes_sign:
            return "other sign"
        return "same" if self.is_same else "unclear"


def run_change_tests(about: Iterable[Row], stages: Iterable[str]) -> dict[str, list[Changed]]:
    """Test the change of every score from the first stage to each other; correct over the questions of each stage."""
    every = list(about)
    return {stage: _changes(every, stage) for stage in stages}


def _changes(about: Sequence[Row], stage: str) -> list[Changed]:
    pending: list[tuple[Row, Measurement, Measurement, PairedTest, bool]] = []
    for row in about:
        before, after = row.original, row.cells.get(stage)
        if after is None or before.not_interpretable or after.not_interpretable:
            continue
        if before.value is None or after.value is None:
            continue
        paired = paired_test(before, after)
        test = paired or _unpaired_test(before, after)
        if test is not None:
            pending.append((row, before, after, test, paired is not None))
    questions = [_asked(row.question, before.score) for row, before, *_ in pending]
    nearer = corrected(questions, [test.p_distance for *_, test, _ in pending])
    moved = corrected(questions, [test.p_moved for *_, test, _ in pending])
    return [
        Changed(row, before, after, p, test.strength, p_moved, is_paired, test.lost)
        for (row, before, after, test, is_paired), p, p_moved in zip(pending, nearer, moved, strict=True)
    ]


def paired_test(before: Measurement, after: Measurement) -> PairedTest | None:
    """Compare two measurements on the units that both have; None if they have too few in common.

    Values that rest on two kinds of units, such as words and templates, are compared on each, and the larger p-values
    count.
    """
    distance = DISTANCES[info(before.measure).better_score(before.score)]
    tests: list[PairedTest] = []
    for first in before.units:
        for second in after.units:
            if first.unit != second.unit:
                continue
            test = exchange_test(first, second, distance)
            if test is not None and test.common >= ENOUGH_IN_COMMON * max(first.count, second.count):
                tests.append(test)
    if not tests or len(tests) < max(len(before.units), len(after.units)):
        return None
    return PairedTest(
        max(test.p_moved for test in tests),
        max(test.p_distance for test in tests),
        min(test.strength for test in tests),
        min(test.common for test in tests),
        max(test.lost for test in tests),
    )


def _unpaired_test(before: Measurement, after: Measurement) -> PairedTest | None:
    """Compare two measurements as independent values by the standard errors that their intervals imply."""
    errors = standard_error(before), standard_error(after)
    if errors[0] is None or errors[1] is None:
        return None
    spread = math.hypot(errors[0], errors[1])
    nearer = abs(distance_from_ideal(after) - distance_from_ideal(before))
    p_distance, strength = _difference_test(nearer, spread)
    p_moved, _ = _difference_test(abs((after.value or 0.0) - (before.value or 0.0)), spread)
    return PairedTest(p_moved, p_distance, strength, 0, 0)


def _difference_test(difference: float, spread: float) -> tuple[float, float]:
    """Return the p-value of a difference and its size in standard errors; an exact interval tests nothing."""
    if not spread:
        return 1.0, 0.0
    return two_sided_p(difference / spread), difference / spread


def distance_from_ideal(measurement: Measurement) -> float:
    """Distance from the ideal value: smaller is better."""
    better = info(measurement.measure).better_score(measurement.score)
    return float(DISTANCES[better](np.array([measurement.value or 0.0]))[0])


def _distance_to(ideal: float) -> Callable[[Vector64], Vector64]:
    return lambda values: np.abs(values - ideal)


DISTANCES: dict[Better, Callable[[Vector64], Vector64]] = {
    "zero": _distance_to(IDEALS["zero"]),
    "one": _distance_to(IDEALS["one"]),
    "fifty": _distance_to(IDEALS["fifty"]),
    "lower": np.positive,
    "higher": np.negative,
}


BEFORE, AFTER = "before", "after"
RowVerdict = Verdict | Literal["undefined", "not interpretable", "not tested"]


class RowPair(NamedTuple):
    """One row of two audits on the same stage."""

    subject: str
    stage: str
    label: str
    question: Question
    before: Measurement
    after: Measurement


@dataclass(frozen=True)
class RowChange:
    """One row of both audits on the same stage, with the test of its change."""

    label: str
    subject: str
    stage: str
    before: Measurement
    after: Measurement
    change: float | None
    verdict: RowVerdict
    p: float | None = None
    """Corrected p-value of the change of the distance from the ideal; None where it was not tested."""
    paired: bool = False
    """Whether both values were compared on the same units."""
    lost: int = 0
    """Units that only one of the two values has; the test leaves them out."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "label": self.label,
            "subject": self.subject,
            "stage": self.stage,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "change": self.change,
            "verdict": self.verdict,
            "p_value": self.p,
            "paired": self.paired,
            "units_lost": self.lost,
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
    pairs = []
    for old_name, new_name in names:
        old = before.rows(old_name) if old_name in before.subjects else {}
        for label, stages in after.rows(new_name).items():
            for stage, measurement in stages.items():
                if stage in old.get(label, {}):
                    pairs.append(RowPair(new_name, stage, label, after.question(label), old[label][stage], measurement))
    return compare_rows(pairs, after.concept)


def _differ(before: Audit, after: Audit) -> bool:
    """Return whether two audits are about different words; records of version 0.1 have a name only."""
    digests = {audit.manifest["concept"].get("digest", "") for audit in (before, after)} - {""}
    return before.concept != after.concept or len(digests) > 1


def compare_rows(pairs: Iterable[RowPair], concept: str) -> list[RowChange]:
    """Test the change of rows, corrected over the rows of one subject, stage and kind, as in a report."""
    every = list(pairs)
    families: dict[tuple[str, str, RowRole], list[int]] = {}
    for place, pair in enumerate(every):
        families.setdefault((pair.subject, pair.stage, role(pair.question, concept)), []).append(place)
    tested: dict[int, Changed] = {}
    for places in families.values():
        rows = {
            id(row): (place, row)
            for place in places
            for pair in [every[place]]
            for row in [Row(pair.label, pair.question, {BEFORE: pair.before, AFTER: pair.after})]
        }
        changes = run_change_tests([row for _, row in rows.values()], [AFTER])[AFTER]
        tested |= {rows[id(change.row)][0]: change for change in changes}
    return [_row_change(pair, tested.get(place)) for place, pair in enumerate(every)]


def _row_change(pair: RowPair, change: Changed | None) -> RowChange:
    before, after = pair.before, pair.after
    shown = pair.label, pair.subject, pair.stage, before, after
    if before.value is None or after.value is None:
        return RowChange(*shown, None, "undefined")
    difference = after.value - before.value
    if before.not_interpretable or after.not_interpretable:
        return RowChange(*shown, difference, "not interpretable")
    if change is None:
        return RowChange(*shown, difference, "same" if difference == 0 else "not tested")
    return RowChange(*shown, difference, change.verdict, change.p, change.paired, change.lost)
