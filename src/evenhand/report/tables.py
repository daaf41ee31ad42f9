"""An audit as rows: one for each question and score, one cell for each stage. Every view is made from these."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand.audit import Audit, Question
from evenhand.measures import Info, Measurement
from evenhand.measures.registry import ARROWS
from evenhand.printable import escape_html
from evenhand.report import numbers

FAMILIES = {
    "association": "Association: which words are near which",
    "geometry": "Geometry: what lies along the concept's direction",
    "sentences": "Sentences: which groups the model's sentence vectors are near to",
    "inference": "Inference: does the model draw conclusions from group words?",
    "likelihood": "Likelihood: what the language model finds probable",
    "labels": "Labels: does the decision change with the group?",
    "text": "Text: which words occur with which group",
    "quality": "Quality: what a method costs",
}


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


def by_family(audit: Audit, subject: str = "") -> dict[str, list[Row]]:
    """Return the rows under the heading of their family; families without rows are left out."""
    every = rows(audit, subject)
    grouped = {title: [row for row in every if row.info.family == name] for name, title in FAMILIES.items()}
    return {title: group for title, group in grouped.items() if group}


def html_table(audit: Audit) -> str:
    """Return a plain HTML table, for notebooks."""
    head = "".join(f"<th>{escape_html(stage)}</th>" for stage in audit.stage_names)
    body = []
    for subject in audit.subjects:
        body.append(f"<tr><th colspan='{len(audit.stage_names) + 1}'>{escape_html(subject)}</th></tr>")
        for row in rows(audit, subject):
            cells = "".join(f"<td>{escape_html(numbers.cell(cell))}</td>" for cell in row.cells.values())
            body.append(f"<tr><td>{escape_html(row.label)} {row.arrow}</td>{cells}</tr>")
    return f"<table><thead><tr><th>measure</th>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
