"""The formats of a report, by id."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from evenhand.audit import Audit
from evenhand.errors import unknown_name
from evenhand.files import write_text
from evenhand.report.html import page
from evenhand.report.markdown import markdown
from evenhand.report.model_card import model_card


class ReportFormat(NamedTuple):
    """How a report is written, and the name of its file in the folder of a run."""

    render: Callable[[Audit], str]
    file: str


def _record(audit: Audit) -> str:
    return json.dumps(audit.to_dict(), indent=1, allow_nan=False) + "\n"


FORMATS: dict[str, ReportFormat] = {
    "html": ReportFormat(page, "report.html"),
    "markdown": ReportFormat(markdown, "report.md"),
    "model-card": ReportFormat(model_card, "model-card.md"),
    "json": ReportFormat(_record, "report.json"),
}


def write_report(audit: Audit, format: str, path: Path) -> Path:
    """Write a report, replacing an older one only when it is whole."""
    if format not in FORMATS:
        raise unknown_name("report format", format, FORMATS)
    write_text(path, FORMATS[format].render(audit))
    return path
