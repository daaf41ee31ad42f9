"""The tests of one subject of an audit, each made once, and its score card: every row on every stage as one word.

Findings, headline and score card rest on the same tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from evenhand.audit import Audit
from evenhand.audit.record import Row, rows
from evenhand.audit.significance import (
    LEVEL,
    Changed,
    RowRole,
    Tested,
    is_changeable,
    role,
    run_change_tests,
    run_tests,
)
from evenhand.measures import Measurement
from evenhand.report.tables import prominence, subject_record


@dataclass(frozen=True)
class SubjectTests:
    """The rows of one subject by what they are about, and the tests of their scores.

    Tests are corrected over the rows about the concept, with controls and quality apart.
    """

    audit: Audit
    subject: str

    @property
    def kind(self) -> str:
        """The kind of subject."""
        return str(subject_record(self.audit, self.subject).get("kind", ""))

    @property
    def first(self) -> str:
        """The stage with which the others are compared."""
        return self.audit.stage_names[0]

    @property
    def later(self) -> tuple[str, ...]:
        """All other stages."""
        return self.audit.stage_names[1:]

    @cached_property
    def rows(self) -> list[Row]:
        """All rows, in the order they were measured."""
        return rows(self.audit, self.subject)

    def _of(self, *roles: RowRole) -> list[Row]:
        return [row for row in self.rows if role(row.question, self.audit.concept) in roles]

    @cached_property
    def about(self) -> list[Row]:
        """The rows about the concept."""
        return self._of("bias", "left", "by construction")

    @cached_property
    def controls(self) -> list[Row]:
        """The rows of bias that are not about the concept, so a method should not change them."""
        return self._of("control")

    @cached_property
    def quality(self) -> list[Row]:
        """The rows of quality whose loss is a cost; how far a method moves the vectors is none."""
        return self._of("cost")

    @cached_property
    def found(self) -> list[Tested]:
        """The tests of the first stage against no bias."""
        return run_tests(self._of("bias", "by construction"), [self.first])

    @cached_property
    def left(self) -> list[Tested]:
        """The tests of all other stages against no bias; measures of what is left are a family of their own."""
        told = run_tests(self._of("bias", "by construction"), self.later)
        return [*told, *run_tests(self._of("left"), self.later)]

    @cached_property
    def changes(self) -> dict[str, list[Changed]]:
        """The tests of what each stage changed."""
        return run_change_tests(self._of("bias"), self.later)

    @cached_property
    def quality_changes(self) -> dict[str, list[Changed]]:
        """The tests of what each stage cost."""
        return run_change_tests(self.quality, self.later)

    @cached_property
    def reversals(self) -> set[tuple[str, str]]:
        """Label and stage of the scores that differ from no bias with the other sign than before.

        A changed sign counts only where the score after it is significant among everything that is left, so no page
        says that a sign changed and that nothing is left.
        """
        left = {(test.row.label, test.stage) for test in self.left if test.sure}
        return {
            (change.row.label, stage)
            for stage, changes in self.changes.items()
            for change in changes
            if change.changes_sign and (change.row.label, stage) in left
        }

    @cached_property
    def lost(self) -> list[tuple[str, Changed]]:
        """Stage and change of every score of quality that is significantly worse than before."""
        return [
            (stage, change)
            for stage, changes in self.quality_changes.items()
            for change in changes
            if change.sure and not change.closer
        ]

    def place(self, row: Row) -> tuple[int, int]:
        """Return the place of a row among what a reader is told."""
        return prominence(row, self.kind)


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
        shared, key=lambda each: (each.row.info.family == "quality", min(prominence(each.row, kind) for kind in kinds))
    )
