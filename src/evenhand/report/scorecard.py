"""Score card: every row of an audit on every stage as one word, at a glance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evenhand.audit import Audit
from evenhand.audit.record import Row
from evenhand.audit.significance import LEVEL, Changed, is_changeable, run_change_tests
from evenhand.measures import Measurement
from evenhand.report.subject_tests import SubjectTests
from evenhand.report.tables import prominence, subject_record

ScoreState = Literal[
    "bias", "not significant", "value", "better", "worse", "other sign", "changed", "unclear", "same", "undefined",
    "not interpretable",
]  # fmt: skip
# A sign beside the colour: the card must be readable in grey and by those who do not see colours.
SIGNS: dict[ScoreState, str] = {
    "bias": "●",
    "not significant": "○",
    "value": "·",
    "better": "▲",
    "worse": "▼",
    "other sign": "⇄",
    "changed": "≠",
    "unclear": "≈",
    "same": "=",
    "undefined": "–",
    "not interpretable": "?",
}
MEANINGS: dict[ScoreState, str] = {
    "bias": "significantly different from no bias",
    "not significant": "not significantly different from no bias",
    "value": "not tested",
    "better": "significantly nearer to the ideal than before",
    "worse": "significantly further from the ideal than before",
    "other sign": "significant with the other sign",
    "changed": "a control that changed significantly",
    "unclear": "no significant change",
    "same": "no change",
    "undefined": "no number",
    "not interpretable": "controls failed",
}


@dataclass(frozen=True)
class ScoreCell:
    """The state of one row on one stage, and the measurement it rests on."""

    state: ScoreState
    measurement: Measurement

    @property
    def sign(self) -> str:
        """A sign for the state."""
        return SIGNS[self.state]


@dataclass(frozen=True)
class ScoreRow:
    """One row of the card."""

    row: Row
    cells: dict[str, ScoreCell]
    is_control: bool = False
    """Whether the row is not about the concept of the audit, so a method should not change it."""


def score_card(audit: Audit, subject: str = "") -> list[ScoreRow]:
    """Return the card of one subject; tests are corrected over its rows, with controls and quality apart."""
    tests = SubjectTests(audit, subject or audit.subjects[0])
    states: dict[tuple[str, str], ScoreState] = {}
    for test in (*tests.found, *tests.left):
        # After a method, measures of what is left say whether the words can still be told apart; others are compared.
        if test.stage == tests.first or test.row.info.role == "left":
            states[test.row.label, test.stage] = "bias" if test.sure else "not significant"
    for stage, changes in run_change_tests(tests.controls, tests.later).items():
        for change in changes:
            states[change.row.label, stage] = "changed" if change.p_moved < LEVEL else _unsure(change)
    for by_stage in (tests.changes, tests.quality_changes):
        for stage, changes in by_stage.items():
            for change in changes:
                label = change.row.label
                state: ScoreState = change.verdict
                if state == "other sign" and (label, stage) not in tests.reversals:
                    state = _unsure(change)
                states[label, stage] = state
    return [
        ScoreRow(
            row,
            {stage: ScoreCell(_state(states, row, stage), cell) for stage, cell in row.cells.items()},
            row in tests.controls,
        )
        for row in tests.rows
    ]


def _unsure(change: Changed) -> ScoreState:
    return "same" if change.is_same else "unclear"


def _state(states: dict[tuple[str, str], ScoreState], row: Row, stage: str) -> ScoreState:
    measurement = row.cells[stage]
    if measurement.value is None:
        return "undefined"
    if measurement.not_interpretable:
        return "not interpretable"
    return states.get((row.label, stage), "value")


@dataclass(frozen=True)
class SideBySideRow:
    """One row of several subjects on the first stage; None for a subject that was not asked."""

    row: Row
    cells: dict[str, ScoreCell | None]


def side_by_side(audit: Audit) -> list[SideBySideRow]:
    """Return the rows that two subjects or more have, those that a reader understands first; quality comes last.

    Rows without a test or a plain reading are left to the tables, and so are those that are at their maximum on every
    original by construction.
    """
    if len(audit.subjects) < 2:
        return []
    cards = {subject: score_card(audit, subject) for subject in audit.subjects}
    kinds = [str(subject_record(audit, subject).get("kind", "")) for subject in audit.subjects]
    by_label: dict[str, SideBySideRow] = {}
    for subject, card in cards.items():
        for line in card:
            state = next(iter(line.cells.values())).state
            told = line.row.info.plain or state in ("bias", "not significant")
            bias = not line.is_control and line.row.info.family != "quality" and is_changeable(line.row)
            if line.row.info.role == "cost" or (bias and told):
                made = by_label.setdefault(line.row.label, SideBySideRow(line.row, dict.fromkeys(audit.subjects)))
                made.cells[subject] = next(iter(line.cells.values()))
    shared = [each for each in by_label.values() if sum(cell is not None for cell in each.cells.values()) > 1]
    return sorted(
        shared,
        key=lambda each: (each.row.info.family == "quality", min(prominence(each.row, kind) for kind in kinds)),
    )
