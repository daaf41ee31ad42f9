"""The formats of a report by id."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from evenhand.audit import Audit
from evenhand.errors import unknown_name
from evenhand.files import write_text
from evenhand.report.html import page, runs_page
from evenhand.report.lm_eval_results import lm_eval_results
from evenhand.report.markdown import markdown, model_card, runs_markdown
from evenhand.report.run_comparison import RunComparison


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
    "lm-eval": ReportFormat(lm_eval_results, "lm-eval-results.json"),
}


def write_report(audit: Audit, format: str, path: Path) -> Path:
    """Write a report, replacing an older one only when it is whole."""
    if format not in FORMATS:
        raise unknown_name("report format", format, FORMATS)
    write_text(path, FORMATS[format].render(audit))
    return path


COMPARISON_FORMATS: dict[str, tuple[Callable[[RunComparison], str], str]] = {
    "html": (runs_page, "comparison.html"),
    "markdown": (runs_markdown, "comparison.md"),
}


def write_comparison_report(comparison: RunComparison, format: str, path: Path) -> Path:
    """Write the report of a comparison of runs."""
    if format not in COMPARISON_FORMATS:
        raise unknown_name("format of a comparison", format, COMPARISON_FORMATS)
    write_text(path, COMPARISON_FORMATS[format][0](comparison))
    return path
