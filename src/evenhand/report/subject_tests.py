"""The tests of one subject of an audit, each made once: findings, headline and score card tell the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from evenhand.audit import Audit
from evenhand.audit.record import Row, rows
from evenhand.audit.significance import (
    Changed,
    RowRole,
    Tested,
    role,
    run_change_tests,
    run_tests,
)
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
