"""An audit as a section of a Hugging Face model card, with `model-index` metadata for its head."""

from __future__ import annotations

import json
from typing import Any

from evenhand.audit import Audit
from evenhand.audit.record import rows
from evenhand.report.markdown import COVERAGE, card_lines, finding_lines, plain

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
    lines += [f"{plain(audit.concept)}, seed {audit.seed}.", "", *finding_lines(audit, level=3)]
    for subject in audit.subjects:
        lines += [f"### Score card{': ' + plain(subject) if len(audit.subjects) > 1 else ''}", ""]
        lines += card_lines(audit, subject)
    limits = str(audit.manifest["concept"].get("limits", ""))
    return "\n".join([*lines, "### What these numbers do not cover", "", f"{plain(limits)} {COVERAGE}".strip(), ""])


def _index(audit: Audit, record: dict[str, Any]) -> list[str]:
    """Return the `model-index` entry of one subject: a result for each number of its original."""
    offers = [record["kind"]] if record["kind"] == "vectors" else record["offers"]
    task = next((task for view, task in TASKS.items() if view in offers), "other")
    kind = _text(f"evenhand/{audit.concept}")
    lines = [f"- name: {_text(record['name'])}", "  results:"]
    for row in rows(audit, record["name"]):
        value = row.original.value
        if value is None:
            continue
        lines += [
            f"  - task: {{type: {task}}}",
            f"    dataset: {{name: {_text(row.original.query or row.label)}, type: {kind}}}",
            "    metrics:",
            f"    - {{type: {_text(row.label)}, name: {_text(row.info.title)}, value: {value!r}}}",
        ]
    return lines


def _text(text: str) -> str:
    """Return a string as YAML, of which JSON strings are a part."""
    return json.dumps(text)
