"""The tests of one subject of an audit, each made once: findings, headline and score card tell the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from evenhand.audit import Audit
from evenhand.audit.tradeoff import is_about_concept
from evenhand.report.significance import (
    MOVED,
    ONLY_LEFT,
    Changed,
    Tested,
    is_changeable,
    run_change_tests,
    run_tests,
)
from evenhand.report.tables import Row, prominence, rows, subject_record


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

    @cached_property
    def about(self) -> list[Row]:
        """The rows about the concept."""
        return [
            row
            for row in self.rows
            if row.info.family != "quality" and is_about_concept(row.question, self.audit.concept)
        ]

    @cached_property
    def controls(self) -> list[Row]:
        """The rows of bias that are not about the concept, so a method should not change them."""
        return [
            row
            for row in self.rows
            if row.info.family != "quality" and not is_about_concept(row.question, self.audit.concept)
        ]

    @cached_property
    def quality(self) -> list[Row]:
        """The rows of quality whose loss is a cost; how far a method moves the vectors is none."""
        return [row for row in self.rows if row.info.family == "quality" and row.question.measure not in MOVED]

    @cached_property
    def found(self) -> list[Tested]:
        """The tests of the first stage against no bias."""
        return run_tests([row for row in self.about if row.question.measure not in ONLY_LEFT], [self.first])

    @cached_property
    def left(self) -> list[Tested]:
        """The tests of all other stages against no bias."""
        return run_tests(self.about, self.later)

    @cached_property
    def changes(self) -> dict[str, list[Changed]]:
        """The tests of what each stage changed."""
        return run_change_tests([row for row in self.about if is_changeable(row)], self.later)

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
