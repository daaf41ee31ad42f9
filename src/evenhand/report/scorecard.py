"""Score card: every row of an audit on every stage as one word, at a glance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evenhand.audit import Audit
from evenhand.audit.tradeoff import is_about_concept
from evenhand.measures import Measurement
from evenhand.report.significance import BY_CONSTRUCTION, ONLY_LEFT, run_change_tests, run_tests
from evenhand.report.tables import Row, rows

SAME = 1e-6  # standard errors: a smaller change is rounding
State = Literal[
    "bias", "no sure bias", "value", "better", "worse", "reversed", "unclear", "same", "undefined", "not interpretable"
]
# A sign beside the colour: the card must be readable in grey and by those who do not see colours.
SIGNS: dict[State, str] = {
    "bias": "●",
    "no sure bias": "○",
    "value": "·",
    "better": "▲",
    "worse": "▼",
    "reversed": "⇄",
    "unclear": "≈",
    "same": "=",
    "undefined": "–",
    "not interpretable": "?",
}
MEANINGS: dict[State, str] = {
    "bias": "differs from no bias",
    "no sure bias": "does not surely differ from no bias",
    "value": "has no test against no bias",
    "better": "surely nearer to the ideal than before",
    "worse": "surely further from the ideal than before",
    "reversed": "surely changed sides",
    "unclear": "no sure change",
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


def score_card(audit: Audit, subject: str = "") -> list[ScoreRow]:
    """Return the card of one subject; tests are corrected over its rows, with controls and quality apart."""
    every = rows(audit, subject)
    quality = [row for row in every if row.info.family == "quality"]
    bias = [row for row in every if row.info.family != "quality"]
    about = [  # the others are controls, or scores that a method brings to 0 by construction
        row
        for row in bias
        if is_about_concept(row.question, audit.concept) and row.question.variant not in BY_CONSTRUCTION
    ]
    states: dict[tuple[str, str], State] = {}
    first, *later = audit.stage_names
    for test in run_tests([row for row in about if row.question.measure not in ONLY_LEFT], [first]):
        states[test.row.label, first] = "bias" if test.sure else "no sure bias"
    others = [row for row in bias if row not in about]
    for group in (about, others, quality):
        for stage, changes in run_change_tests(group, later).items():
            for change in changes:
                sure: State = "reversed" if change.reverses else "better" if change.closer else "worse"
                unsure: State = "same" if change.strength < SAME else "unclear"
                states[change.row.label, stage] = sure if change.sure else unsure
    return [
        ScoreRow(row, {stage: ScoreCell(_state(states, row, stage), cell) for stage, cell in row.cells.items()})
        for row in every
    ]


def _state(states: dict[tuple[str, str], State], row: Row, stage: str) -> State:
    measurement = row.cells[stage]
    if measurement.value is None:
        return "undefined"
    if measurement.not_interpretable:
        return "not interpretable"
    unsure: State = "same" if measurement.value == row.original.value else "unclear"
    return states.get((row.label, stage), "value" if stage == next(iter(row.cells)) else unsure)
