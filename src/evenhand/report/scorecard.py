"""Score card: every row of an audit on every stage as one word, at a glance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evenhand.audit import Audit
from evenhand.audit.rows import Row, rows
from evenhand.audit.significance import LEVEL, MOVED, ONLY_LEFT, Changed, is_changeable, run_change_tests, run_tests
from evenhand.audit.tradeoff import is_about_concept
from evenhand.measures import Measurement

State = Literal[
    "bias", "no sure bias", "value", "better", "worse", "other sign", "changed", "unclear", "same", "undefined",
    "not interpretable",
]  # fmt: skip
# A sign beside the colour: the card must be readable in grey and by those who do not see colours.
SIGNS: dict[State, str] = {
    "bias": "●",
    "no sure bias": "○",
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
    "bias": "differs from no bias",
    "no sure bias": "does not surely differ from no bias",
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
    every = rows(audit, subject)
    quality = [row for row in every if row.info.family == "quality"]
    bias = [row for row in every if row.info.family != "quality"]
    controls = [row for row in bias if not is_about_concept(row.question, audit.concept)]
    about = [row for row in bias if row not in controls]
    changeable = [row for row in about if is_changeable(row)]
    states: dict[tuple[str, str], State] = {}
    first, *later = audit.stage_names
    for test in run_tests(changeable, [first]):
        states[test.row.label, first] = "bias" if test.sure else "no sure bias"
    left = [row for row in about if row.question.measure in ONLY_LEFT]
    for test in run_tests(left, later):  # after a method: can the words still be told apart?
        states[test.row.label, test.stage] = "bias" if test.sure else "no sure bias"
    for stage, changes in run_change_tests(controls, later).items():
        for change in changes:
            states[change.row.label, stage] = "changed" if change.p_moved < LEVEL else _unsure(change)
    for group in (changeable, [row for row in quality if row.question.measure not in MOVED]):
        for stage, changes in run_change_tests(group, later).items():
            for change in changes:
                sure: State = "better" if change.closer else "worse"
                state: State = "other sign" if change.changes_sign else sure if change.sure else _unsure(change)
                states[change.row.label, stage] = state
    return [
        ScoreRow(
            row,
            {stage: ScoreCell(_state(states, row, stage), cell) for stage, cell in row.cells.items()},
            row in controls,
        )
        for row in every
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
