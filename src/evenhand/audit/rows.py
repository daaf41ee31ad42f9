"""An audit as rows: one for each question and score, one cell for each stage. Tests and views are made from these."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand.audit.plan import Question
from evenhand.audit.record import Audit
from evenhand.measures import Info, Measurement
from evenhand.measures.registry import ARROWS


@dataclass(frozen=True)
class Row:
    """One question and score on every stage of one subject."""

    label: str
    question: Question
    cells: dict[str, Measurement]

    @property
    def info(self) -> Info:
        """The description of the measure."""
        return self.question.info

    @property
    def arrow(self) -> str:
        """Which way is better."""
        return ARROWS[self.info.better_score(self.original.score)]

    @property
    def original(self) -> Measurement:
        """The measurement before any method."""
        return next(iter(self.cells.values()))


def rows(audit: Audit, subject: str = "") -> list[Row]:
    """Return the rows of one subject, in the order they were measured."""
    return [Row(label, audit.question(label), cells) for label, cells in audit.rows(subject).items()]
