"""The formats of a report by id."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from evenhand.audit import Audit
from evenhand.audit.record import ORIGINAL
from evenhand.audit.significance import standard_error
from evenhand.errors import UsageError, unknown_name
from evenhand.files import write_text
from evenhand.measures.registry import Better
from evenhand.report.html import page, runs_page
from evenhand.report.markdown import markdown, model_card, runs_markdown
from evenhand.report.run_comparison import RunComparison

Content = TypeVar("Content")


@dataclass(frozen=True)
class ReportFormat(Generic[Content]):
    """How a report is written, and the usual name of its file."""

    render: Callable[[Content], str]
    file: str

    def write(self, content: Content, path: Path) -> Path:
        """Write the report, replacing an older one only when it is whole."""
        write_text(path, self.render(content))
        return path


def _record(audit: Audit) -> str:
    return json.dumps(audit.to_dict(), indent=1, allow_nan=False) + "\n"


VALUE = "value"  # the metric of a measure with one score
HIGHER: dict[Better, bool | None] = {"higher": True, "lower": False}  # None where the ideal is a number in between


def lm_eval_results(audit: Audit) -> str:
    """Return the results file of lm-eval: a question is a task, and a score a metric.

    lm-eval names a metric with the filter that the answers went through, "acc,none". Here the filter is the stage: none
    for the original, the name of a method after it.

    Raises:
        UsageError: If the audit has several subjects: a results file is about one model.
    """
    if len(audit.subjects) > 1:
        raise UsageError(
            f"a results file of lm-eval is about one model, and the audit has {len(audit.subjects)} subjects",
            hint="audit one of them",
        )
    results: dict[str, dict[str, object]] = {}
    sizes: dict[str, int] = {}
    versions: dict[str, int] = {}
    higher: dict[str, dict[str, bool | None]] = {}
    for result in audit.results:
        found, task = result.measurement, result.question.label()
        metric = found.score.replace(",", " ") or VALUE
        stage = "none" if result.stage == ORIGINAL else result.stage
        error = standard_error(found)
        row = results.setdefault(task, {"alias": task})
        row[f"{metric},{stage}"] = found.value if found.value is not None else "N/A"
        row[f"{metric}_stderr,{stage}"] = error if error is not None else "N/A"
        sizes[task] = max(sizes.get(task, 0), found.n)
        versions[task] = found.definition
        higher.setdefault(task, {})[metric] = HIGHER.get(result.question.info.better_score(found.score))
    content = {
        "results": results,
        "group_subtasks": {task: [] for task in results},
        "configs": {task: {"task": task, "metadata": {"version": versions[task]}} for task in results},
        "versions": versions,
        "n-shot": dict.fromkeys(results, 0),
        "higher_is_better": higher,
        "n-samples": {task: {"original": size, "effective": size} for task, size in sizes.items()},
        "config": {
            "model": "evenhand",
            "model_args": {"pretrained": audit.subjects[0]},
            "random_seed": audit.seed,
            "limit": None,
        },
        "model_name": audit.subjects[0],
        "date": audit.manifest["created"],
        "evenhand_version": audit.manifest["evenhand"],
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


FORMATS: dict[str, ReportFormat[Audit]] = {
    "html": ReportFormat(page, "report.html"),
    "markdown": ReportFormat(markdown, "report.md"),
    "model-card": ReportFormat(model_card, "model-card.md"),
    "json": ReportFormat(_record, "report.json"),
    "lm-eval": ReportFormat(lm_eval_results, "lm-eval-results.json"),
}
COMPARISON_FORMATS: dict[str, ReportFormat[RunComparison]] = {
    "html": ReportFormat(runs_page, "comparison.html"),
    "markdown": ReportFormat(runs_markdown, "comparison.md"),
}


def report_format(id: str) -> ReportFormat[Audit]:
    """Return a format of the report of a run."""
    if id not in FORMATS:
        raise unknown_name("report format", id, FORMATS)
    return FORMATS[id]


def comparison_format(id: str) -> ReportFormat[RunComparison]:
    """Return a format of a comparison of runs."""
    if id not in COMPARISON_FORMATS:
        raise unknown_name("format of a comparison", id, COMPARISON_FORMATS)
    return COMPARISON_FORMATS[id]
