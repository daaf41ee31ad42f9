"""Audit a language model before and after steering, ablation and a system prompt, with their random controls.

    python scripts/steering_experiment.py MODEL --pairs 40 --out FOLDER [--write]

The audits are small, so that a model of 135 million parameters takes minutes on a CPU. `--write` copies the numbers
with their manifest into reproductions/steering.json and writes the tables of reproductions/steering.md.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import evenhand as eh
from evenhand.audit import Audit, Plan
from evenhand.audit.plan import Question
from evenhand.measures import numbers

ROOT = Path(__file__).resolve().parents[1]
RECORD, PAGE = ROOT / "reproductions" / "steering.json", ROOT / "reproductions" / "steering.md"
KEPT = ("value", "interval", "p_value", "n", "status", "reason", "params", "seed", "definition")
TITLES = {
    "pronoun-share:slope": "pronouns, slope",
    "crows-pairs-gender": "CrowS-Pairs, gender (%)",
    "perplexity": "perplexity",
}


def methods(strengths: list[str], site: str) -> tuple[str, ...]:
    """Return the methods with their controls."""
    controls = ("", ";direction=random")
    swept = tuple(f"steering(strength={value}{more})@{site}" for more in controls for value in strengths)
    return (*swept, f"directional-ablation@{site}", f"directional-ablation(direction=random)@{site}")


def likelihood_plan(arguments: argparse.Namespace) -> Plan:
    """Return the plan of the audit of likelihoods."""
    questions = [Question("perplexity", "neutral-text", only_query=True)]
    if arguments.pairs:
        questions.append(Question("crows-pairs", "crows-pairs-gender", {"sample": arguments.pairs}))
    if arguments.pronouns:
        questions.append(Question("pronoun-share", "occupations-share-of-women", only_query=True))
    return Plan(tuple(questions), methods(arguments.strengths, arguments.site))


def site_plan(arguments: argparse.Namespace) -> Plan:
    """Return the plan that asks where in the model the difference is."""
    return Plan((Question("bias-by-site", "person-sentences", {"sample": arguments.sites, "parts": "layers"}),))


def chat_plan(arguments: argparse.Namespace) -> Plan:
    """Return the plan of the audit of answers."""
    asked = Question("bbq-chat", arguments.chat, {"sample": arguments.items})
    return Plan((asked,), ("system-prompt", "system-prompt(control=true)"))


def condensed(audit: Audit) -> dict[str, Any]:
    """Return the values of an audit with its manifest, without items and units."""
    cells = []
    for result in audit.results:
        measured = result.measurement.to_dict()
        about = {"stage": result.stage, "row": result.question.label(result.measurement.score)}
        items = {"items": measured["items"]} if result.question.measure == "bias-by-site" else {}
        cells.append(about | {name: measured[name] for name in KEPT if name in measured} | items)
    stages = [{"stage": stage.name, "report": dict(stage.report)} for stage in audit.stages if stage.report]
    return {"manifest": audit.manifest, "stages": stages, "cells": cells}


def table(audit: Audit) -> str:
    """Return the rows of an audit as a table, a stage in each line."""
    rows = {row.label: row for row in eh.audit.record.rows(audit, audit.subjects[0])}
    shown = [label for label in rows if not label.endswith((":pearson", ":spearman")) and ":none" not in label]
    lines = [f"| stage | {' | '.join(TITLES.get(label, label) for label in shown)} |", "|---" * (len(shown) + 1) + "|"]
    for stage in audit.stage_names:
        cells = [numbers.cell(rows[label].cells[stage]) for label in shown]
        lines.append(f"| {stage} | {' | '.join(cells)} |")
    return "\n".join(lines)


def site_table(audit: Audit) -> str:
    """Return the share of every layer as a table."""
    (result,) = audit.results
    lines = ["| layer | share | 95 % interval |", "|--:|--:|---|"]
    for item in result.measurement.items:
        low, high = item["interval"] or (float("nan"),) * 2  # type: ignore[misc]
        lines.append(f"| {str(item['word']).partition(':')[2]} | {item['value']:.2f} | {low:.2f} to {high:.2f} |")
    return "\n".join(lines)


def fill(page: str, name: str, text: str) -> str:
    """Return the page with one of its tables replaced."""
    return re.sub(
        rf"<!-- table {name} -->\n.*?<!-- end -->", lambda _: f"<!-- table {name} -->\n{text}\n<!-- end -->", page,
        flags=re.DOTALL,
    )  # fmt: skip


def main() -> None:
    """Run the audits; those that are finished in the folder are read again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--site", default="layer:15")
    parser.add_argument("--strengths", nargs="+", default=["-4", "-2", "2", "4"])
    parser.add_argument("--pairs", type=int, default=40, help="CrowS-Pairs; 0 where the data set is not there")
    parser.add_argument("--no-pronouns", dest="pronouns", action="store_false", help="leave out 480 sentences a stage")
    parser.add_argument("--sites", type=int, default=16, help="pairs of bias-by-site; 0 leaves it out")
    parser.add_argument("--chat", default="bbq-gender-identity")
    parser.add_argument("--items", type=int, default=12, help="items of BBQ; 0 leaves the chat audit out")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    subject = eh.open(arguments.model, device=arguments.device)
    made = {"likelihood": likelihood_plan(arguments)}
    if arguments.sites:
        made["sites"] = site_plan(arguments)
    if arguments.items and "chat" in subject.offers:
        made["chat"] = chat_plan(arguments)
    found: dict[str, Audit] = {}
    for name, plan in made.items():
        found[name] = Audit.run(subject, plan=plan, folder=arguments.out / name)
        found[name].save(arguments.out / name)
        found[name].to_html(arguments.out / name / "report.html")
        print(f"\n## {name}\n\n{site_table(found[name]) if name == 'sites' else table(found[name])}", flush=True)
    if arguments.write:
        RECORD.write_text(json.dumps({name: condensed(audit) for name, audit in found.items()}, indent=1) + "\n")
        page = PAGE.read_text(encoding="utf-8")
        for name, audit in found.items():
            page = fill(page, name, site_table(audit) if name == "sites" else table(audit))
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
