"""Score card: every row of an audit on every stage as one word, at a glance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evenhand.audit import Audit
from evenhand.audit.record import Row
from evenhand.audit.significance import LEVEL, ONLY_LEFT, Changed, run_change_tests
from evenhand.measures import Measurement
from evenhand.report.subject_tests import SubjectTests

State = Literal[
    "bias", "not significant", "value", "better", "worse", "other sign", "changed", "unclear", "same", "undefined",
    "not interpretable",
]  # fmt: skip
# A sign beside the colour: the card must be readable in grey and by those who do not see colours.
SIGNS: dict[State, str] = {
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
MEANINGS: dict[State, str] = {
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

    state: State
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
    """Whether the row is not about the concept of the audit, so that a method should not change it."""


def score_card(audit: Audit, subject: str = "") -> list[ScoreRow]:
    """Return the card of one subject; tests are corrected over its rows, with controls and quality apart."""
    tests = SubjectTests(audit, subject or audit.subjects[0])
    states: dict[tuple[str, str], State] = {}
    for test in (*tests.found, *tests.left):
        # After a method, measures of what is left say whether the words can still be told apart; others are compared.
        if test.stage == tests.first or test.row.question.measure in ONLY_LEFT:
            states[test.row.label, test.stage] = "bias" if test.sure else "not significant"
    for stage, changes in run_change_tests(tests.controls, tests.later).items():
        for change in changes:
            states[change.row.label, stage] = "changed" if change.p_moved < LEVEL else _unsure(change)
    for by_stage in (tests.changes, tests.quality_changes):
        for stage, changes in by_stage.items():
            for change in changes:
                label = change.row.label
                state: State = change.verdict
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


def _unsure(change: Changed) -> State:
    return "same" if change.is_same else "unclear"


def _state(states: dict[tuple[str, str], State], row: Row, stage: str) -> State:
    measurement = row.cells[stage]
    if measurement.value is None:
        return "undefined"
    if measurement.not_interpretable:
        return "not interpretable"
    return states.get((row.label, stage), "value")
