"""What changed between two audits, row by row, by the rule of `audit.significance`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from evenhand.audit.plan import Question
from evenhand.audit.record import Audit
from evenhand.audit.rows import Row
from evenhand.audit.significance import Changed, RowRole, Verdict, role, run_change_tests
from evenhand.errors import EvenhandWarning
from evenhand.measures import Measurement

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
            for row in [Row(every[place].label, every[place].question, _cells(every[place]))]
        }
        changes = run_change_tests([row for _, row in rows.values()], [AFTER])[AFTER]
        tested |= {rows[id(change.row)][0]: change for change in changes}
    return [_row_change(pair, tested.get(place)) for place, pair in enumerate(every)]


def _cells(pair: RowPair) -> dict[str, Measurement]:
    return {BEFORE: pair.before, AFTER: pair.after}


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
