"""An audit as Markdown: the findings, the score card and the tables; and as the section on bias of a model card."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evenhand.audit import Audit
from evenhand.audit.record import rows
from evenhand.errors import printable
from evenhand.measures import numbers
from evenhand.report import run_comparison
from evenhand.report.findings import (
    CORRECTION,
    HEADINGS,
    Finding,
    FindingKind,
    capital,
    findings,
    headline,
    under_headings,
)
from evenhand.report.run_comparison import RunComparison, described
from evenhand.report.scorecard import MEANINGS, SIGNS, score_card, side_by_side
from evenhand.report.tables import by_family

ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
COVERAGE = (
    "A mitigated subject is not free of bias: a method removes what its own measure sees, and other measures still "
    "find what is left."
)


def markdown(audit: Audit) -> str:
    """Return the whole report."""
    names = ", ".join(audit.subjects)
    lines = [f"# Bias audit of {plain(names)}", "", f"Concept {plain(audit.concept)}, seed {audit.seed}.", ""]
    lines += ["## Findings", "", *finding_lines(audit)]
    lines += [f"> {plain(str(audit.manifest['concept'].get('limits', '')))} {COVERAGE}".replace(">  ", "> "), ""]
    lines += beside_lines(audit)
    for subject in audit.subjects:
        suffix = f": {plain(subject)}" if len(audit.subjects) > 1 else ""
        lines += [f"## Score card{suffix}", "", *card_lines(audit, subject)]
        lines += row_tables(audit, subject, suffix)
    lines += [f"Written by evenhand {audit.manifest['evenhand']} on {audit.manifest['created']}.", ""]
    return "\n".join(lines)


def runs_markdown(comparison: RunComparison) -> str:
    """Return the report of several runs side by side."""
    record = comparison.record
    lines = [f"# Comparison of {plain(', '.join(comparison.names))}", ""]
    lines += [f"Concept {plain(record.concept)}. The others are compared with {plain(comparison.names[0])}.", ""]
    lines += ["## Findings", ""]
    lines += _grouped(comparison.findings(), run_comparison.HEADINGS, several=len(record.subjects) > 1)
    lines += ["", f"{capital(run_comparison.CORRECTION)}.", "", "## Runs", ""]
    columns = ["run", "subject", "written", "evenhand", "seed"]
    runs = [described(name, audit) for name, audit in comparison.runs.items()]
    lines += [*table(columns, ([run[column] for column in columns] for run in runs)), ""]
    for subject in record.subjects:
        suffix = f": {plain(subject)}" if len(record.subjects) > 1 else ""
        lines += [f"## Score card{suffix}", "", *card_lines(record, subject), *row_tables(record, subject, suffix)]
    return "\n".join(lines)


def row_tables(audit: Audit, subject: str, suffix: str = "") -> list[str]:
    """Return the tables of one subject under the headings of their families, and the notes."""
    lines: list[str] = []
    for title, group in by_family(audit, subject).items():
        stages = list(group[0].cells)
        body = (
            [row.label, row.arrow, *(numbers.cell(cell) for cell in row.cells.values()), numbers.words(row.original)]
            for row in group
        )
        lines += [f"## {title}{suffix}", "", *table(["measure", "better", *stages, "words"], body), ""]
    reasons = dict.fromkeys(
        f"{label}, {stage}: {cell.reason or cell.note}"
        for label, cells in audit.rows(subject).items()
        for stage, cell in cells.items()
        if cell.reason or cell.note
    )
    return [*lines, "## Notes" + suffix, "", *(f"- {plain(reason)}" for reason in reasons), ""] if reasons else lines


def finding_lines(audit: Audit) -> Iterator[str]:
    """Yield the headline, and the findings as lists under their headings."""
    yield from (f"**{plain(headline(audit))}**", "")
    yield from _grouped(findings(audit), HEADINGS, several=len(audit.subjects) > 1)
    yield from ("", f"{capital(CORRECTION)}.", "")


def _grouped(found: Iterable[Finding], headings: Mapping[FindingKind, str], *, several: bool) -> Iterator[str]:
    """Yield findings as lists under their headings, each with its numbers in smaller type."""
    for number, (title, group) in enumerate(under_headings(found, headings, several=several)):
        yield from (*([""] if number else []), f"### {plain(title)}", "")
        for finding in group:
            yield f"- {plain(finding.text)}"
            yield from [f"  <br><sub>{plain(finding.evidence)}</sub>"] if finding.evidence else []


def card_lines(audit: Audit, subject: str) -> list[str]:
    """Return the score card with the meaning of its signs."""
    card = score_card(audit, subject)
    stages = list(card[0].cells) if card else []
    body = (
        [line.row.label, line.row.arrow, *(_shown(cell.sign, cell.measurement.value) for cell in line.cells.values())]
        for line in card
    )
    used = {cell.state for line in card for cell in line.cells.values()}
    key = ", ".join(f"{SIGNS[state]} {MEANINGS[state]}" for state in SIGNS if state in used)
    return [*table(["measure", "better", *stages], body), "", f"{key}.", ""]


def beside_lines(audit: Audit) -> list[str]:
    """Return the table of several subjects side by side; nothing for one."""
    lines = side_by_side(audit)
    if not lines:
        return []
    body = (
        [
            line.row.label,
            line.row.arrow,
            *("" if cell is None else _shown(cell.sign, cell.measurement.value) for cell in line.cells.values()),
        ]
        for line in lines
    )
    return ["## Side by side", "", *table(["measure", "better", *map(plain, audit.subjects)], body), ""]


def _shown(sign: str, value: float | None) -> str:
    return sign if value is None else f"{sign} {numbers.number(value)}"


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return a table; the first column is on the left, the others on the right."""
    head = list(columns)
    lines = [_line(head), _line([":--", *("--:" for _ in head[1:])])]
    return lines + [_line(map(plain, row)) for row in rows]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def plain(text: str) -> str:
    """Return a text on one line whose characters Markdown and HTML do not interpret."""
    line = " ".join(printable(text).split())
    return re.sub(r"[\\`*_\[\]|#<>&]", lambda match: ENTITIES.get(match[0], f"\\{match[0]}"), line)


# Task ids of the Hub, by the first view that a subject offers of these.
TASKS = {
    "inference": "text-classification",
    "labels": "text-classification",
    "text": "text-generation",
    "likelihood": "fill-mask",
    "sentences": "sentence-similarity",
    "vectors": "feature-extraction",
}


def model_card(audit: Audit) -> str:
    """Return YAML metadata between dashes, and the section on bias."""
    lines = ["---", "model-index:"]
    for record in audit.manifest["subjects"]:
        lines += _index(audit, record)
    lines += ["---", "", "## Bias, risks and limitations", ""]
    lines.append(
        f"Audited with evenhand {audit.manifest['evenhand']} on {audit.manifest['created'][:10]} for the concept"
    )
    lines += [f"{plain(audit.concept)}, seed {audit.seed}.", "", *finding_lines(audit)]
    for subject in audit.subjects:
        lines += [f"### Score card{': ' + plain(subject) if len(audit.subjects) > 1 else ''}", ""]
        lines += card_lines(audit, subject)
    limits = str(audit.manifest["concept"].get("limits", ""))
    return "\n".join([*lines, "### What these numbers do not cover", "", f"{plain(limits)} {COVERAGE}".strip(), ""])


def _index(audit: Audit, record: dict[str, Any]) -> list[str]:
    """Return the `model-index` entry of one subject: a result for each data set, with the numbers of its original."""
    offers = [record["kind"]] if record["kind"] == "vectors" else record["offers"]
    task = next((task for view, task in TASKS.items() if view in offers), "other")
    kind = _text(f"evenhand/{audit.concept}")
    lines = [f"- name: {_text(record['name'])}", "  results:"]
    by_dataset: dict[str, list[str]] = {}
    for row in rows(audit, record["name"]):
        if (value := row.original.value) is not None:
            metric = f"    - {{type: {_text(row.label)}, name: {_text(row.info.title)}, value: {value!r}}}"
            by_dataset.setdefault(row.original.query or row.label, []).append(metric)
    for dataset, metrics in by_dataset.items():
        lines += [
            f"  - task: {{type: {task}}}",
            f"    dataset: {{name: {_text(dataset)}, type: {kind}}}",
            "    metrics:",
        ]
        lines += metrics
    return lines


def _text(text: str) -> str:
    """Return a string as YAML, of which JSON strings are a part."""
    return json.dumps(text)
