"""The rows of an audit under the headings of their families, and as a table for notebooks."""

from __future__ import annotations

from evenhand.audit import Audit
from evenhand.audit.rows import Row, rows
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
