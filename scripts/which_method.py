"""Compare the methods on several kinds of subject, for the tutorial "Which method should I use?".

    python scripts/which_method.py [VIEW[:CONCEPT]...] [--work FOLDER]

Runs the audits of reproductions/which-method.toml (all, or those that are named) and writes what they found into
reproductions/which-method.json. Finished cells are kept in the folder, so that an interrupted run goes on. Then it
writes the table between `<!-- table -->` and `<!-- end -->` and the chart of docs/tutorials/which-method.md from
that file alone.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import vl_convert

import evenhand as eh
from evenhand.audit import Audit
from evenhand.audit.plan import Plan, check_chain
from evenhand.audit.record import ORIGINAL, rows
from evenhand.audit.significance import is_changeable, role, run_change_tests
from evenhand.data import fetch
from evenhand.files import write_text
from evenhand.measures.numbers import number
from evenhand.report.charts.style import GREY, PALETTE, RULE, chart
from evenhand.words import concept as find_concept

ROOT = Path(__file__).resolve().parents[1]
PLAN, KEPT = ROOT / "reproductions/which-method.toml", ROOT / "reproductions/which-method.json"
PAGE, PICTURE = ROOT / "docs/tutorials/which-method.md", ROOT / "docs/tutorials/which-method.svg"
REPEATS = 1000
Row = dict[str, Any]


# Running -------------------------------------------------------------------------------------------------------------


def folder_of(name: str, labels: str, work: Path) -> str:
    """Return the Hugging Face folder of a catalog entry that is an ONNX or GGUF file."""
    out = work / "models" / name
    if not (out / "config.json").is_file():
        command = [sys.executable, "-m", "evenhand", "convert", name, str(out)]
        subprocess.run([*command, *(["--labels", labels] if labels else [])], check=True)
    return str(out)


def filled(text: str, labels: str, work: Path) -> str:
    """Return an address of the plan with the folders of catalog entries in it."""
    text = re.sub(r"\{folder:([\w.-]+)\}", lambda found: folder_of(found[1], labels, work), text)
    return re.sub(r"\{([\w.-]+)\}", lambda found: str(fetch(found[1])), text)


def run(entry: Mapping[str, Any], concept: str, seed: int, work: Path) -> Row:
    """Run one audit of the plan and return what the page needs of it."""
    subject = filled(entry["subject"], entry.get("labels", ""), work)
    opened = eh.open(subject)
    refused = dict(_refused(entry["methods"], concept))
    plan = Plan.default(
        [opened],
        methods=[chain for chain in entry["methods"] if chain not in refused],
        only=entry["measures"],
        concept=concept,
        seed=seed,
        skip_failing=True,
    )
    questions = tuple(
        replace(q, options={**q.options, **entry.get("options", {}).get(q.measure, {})})
        for q in plan.questions
        if q.query in entry.get("queries", {}).get(q.measure, [q.query]) and q.asks_about(concept)
    )
    folder = work / f"{entry['view'].replace(' ', '-')}-{concept}"
    audit = Audit.run(opened, plan=replace(plan, questions=questions), folder=folder)
    every = rows(audit)
    found: list[Row] = []
    for row in every:
        if (kind := role(row.question, concept)) == "control":
            continue
        about = {"row": row.label, "measure": row.question.measure, "role": kind}
        for stage, m in row.cells.items():
            cell = about | {"stage": stage, "value": m.value, "interval": m.interval and list(m.interval), "n": m.n}
            found.append(cell | ({} if m.value is not None else {"reason": m.reason}))
    tested = run_change_tests([row for row in every if _is_tested(row, concept)], audit.mitigated)
    verdicts = {(c.row.label, stage): (c.verdict, c.p) for stage, changes in tested.items() for c in changes}
    for cell in found:
        if verdict := verdicts.get((cell["row"], cell["stage"])):
            cell |= {"verdict": verdict[0], "p": round(verdict[1], 6)}
    if given := entry.get("toxicity"):
        found += _toxicity(filled(given, "", work), audit, opened, concept, seed)
    failed = refused | dict(audit.manifest.get("skipped") or {})
    return {
        "view": entry["view"], "concept": concept, "shown": entry["shown"][concept], "manifest": _manifest(audit),
        "failed": failed, "cells": [_rounded(cell) for cell in found],
    }  # fmt: skip


def _refused(chains: Sequence[str], concept: str) -> Iterator[tuple[str, str]]:
    """Methods that cannot work with the concept, and why."""
    for chain in chains:
        try:
            check_chain(chain, find_concept(concept))
        except eh.EvenhandError as error:
            yield chain, error.message


def _is_tested(row: Any, concept: str) -> bool:
    return role(row.question, concept) in ("bias", "cost") and is_changeable(row)


def _rounded(cell: Row) -> Row:
    short = {key: None if cell[key] is None else float(f"{cell[key]:.5g}") for key in ("value",)}
    return cell | short | {"interval": cell["interval"] and [float(f"{end:.5g}") for end in cell["interval"]]}


def _manifest(audit: Audit) -> Row:
    kept = {key: audit.manifest[key] for key in ("evenhand", "created", "packages", "python") if key in audit.manifest}
    subjects = [{key: s[key] for key in ("name", "sha256") if key in s} for s in audit.manifest["subjects"]]
    return kept | {"subjects": subjects, "concept": audit.manifest["concept"]["digest"], "seed": audit.seed}


def _toxicity(file: str, audit: Audit, opened: Any, concept: str, seed: int) -> Iterator[Row]:
    """How far a classifier of toxicity agrees with the ratings of prompts (Spearman): no measure has this cost."""
    from evenhand.audit.runner import apply_chain

    entries = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
    rated = [entry for entry in entries if entry["toxicity"] is not None]
    texts, ratings = [entry["text"] for entry in rated], np.array([entry["toxicity"] for entry in rated])
    draws = np.random.default_rng(seed).integers(0, len(texts), (REPEATS, len(texts)))
    before: np.ndarray | None = None
    for stage in audit.stage_names:
        changed, _ = apply_chain("" if stage == ORIGINAL else stage, opened, find_concept(concept), seed=seed)
        scores = np.asarray(changed.view("labels").predict(texts))[:, 1]
        drawn = np.array([_agreement(scores[draw], ratings[draw]) for draw in draws])
        row: Row = {"row": "toxic-prompts", "measure": "toxic-prompts", "role": "cost", "stage": stage}
        row |= {
            "value": _agreement(scores, ratings),
            "interval": list(np.quantile(drawn, (0.025, 0.975))),
            "n": len(texts),
        }
        if before is None:
            before = drawn
        else:  # paired: the same prompts were drawn
            low, high = np.quantile(drawn - before, (0.025, 0.975))
            row["verdict"] = "worse" if high < 0 else "better" if low > 0 else "unclear"
        yield row


def _agreement(scores: np.ndarray, ratings: np.ndarray) -> float:
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(scores), rankdata(ratings))[0, 1])


# Showing -------------------------------------------------------------------------------------------------------------


def cells(audit: Row, stage: str, kind: str) -> list[Row]:
    """Return the cells of a stage with a role that have a value."""
    return [
        cell for cell in audit["cells"] if cell["stage"] == stage and cell["role"] == kind and cell["value"] is not None
    ]


def stages(audits: Sequence[Row]) -> list[tuple[str, str]]:
    """Return view and stage of every line of the table."""
    return list(dict.fromkeys((a["view"], cell["stage"]) for a in audits for cell in a["cells"]))


def shown_cell(audit: Row, stage: str) -> Row | None:
    """Return the cell that stands for the bias of a concept."""
    return next(
        (c for c in audit["cells"] if c["row"] == audit["shown"] and c["stage"] == stage and c["value"] is not None),
        None,
    )


MARKS = {"better": " ↓", "worse": " ↑", "other sign": " ±"}


def bias_text(audit: Row, stage: str) -> str:
    """The value of the shown row with its interval, and a mark if its distance from no bias changed."""
    cell = shown_cell(audit, stage)
    if cell is None:
        return "–"
    ends = f" [{', '.join(number(end) for end in cell['interval'])}]" if cell["interval"] else ""
    return number(cell["value"]) + ends + MARKS.get(cell.get("verdict", ""), "")


def mean_over(audits: Sequence[Row], stage: str, kind: str, measure: str = "") -> float | None:
    """Return the mean over all rows of a role and all concepts."""
    found = [c["value"] for a in audits for c in cells(a, stage, kind) if not measure or c["measure"] == measure]
    return float(np.mean(found)) if found else None


def counts(audits: Sequence[Row], stage: str, kind: str) -> str:
    """How many rows changed for the better and for the worse, of those that were tested."""
    verdicts = [c["verdict"] for a in audits for c in cells(a, stage, kind) if "verdict" in c]
    nearer, further = verdicts.count("better"), verdicts.count("worse")
    return f"{nearer} / {further} / {len(verdicts)}" if verdicts else ""


COSTS = {"similarity": "similarity", "toxic-prompts": "toxicity", "perplexity": "perplexity"}


def cost_text(audits: Sequence[Row], stage: str) -> str:
    """The mean of each cost, and how many of its rows became worse."""
    parts = []
    for measure, title in COSTS.items():
        value = mean_over(audits, stage, "cost", measure)
        if value is not None:
            worse = sum(
                c.get("verdict") == "worse" for a in audits for c in cells(a, stage, "cost") if c["measure"] == measure
            )
            parts.append(f"{title} {number(value)}" + (f" (worse in {worse})" if worse else ""))
    return "; ".join(parts)


def shown(value: float | None) -> str:
    """A number, or nothing."""
    return "" if value is None else number(value)


def table(audits: Sequence[Row]) -> str:
    """The one table of the page."""
    concepts = list(dict.fromkeys(a["concept"] for a in audits))
    heads = ["view", "method", *concepts, "nearer / further / rows", "left", "cost", "moved"]
    lines = ["| " + " | ".join(heads) + " |", "|---|---|" + "---|" * (len(heads) - 2)]
    for view, stage in stages(audits):
        of = [a for a in audits if a["view"] == view and any(c["stage"] == stage for c in a["cells"])]
        by = {a["concept"]: a for a in reversed(of)}
        left, moved = mean_over(of, stage, "left"), mean_over(of, stage, "moved")
        line = [view, stage, *(bias_text(by[c], stage) if c in by else "" for c in concepts), counts(of, stage, "bias")]
        line += [
            number(left) if left is not None else "",
            cost_text(of, stage),
            number(moved) if moved is not None else "",
        ]
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines)


def points(audits: Sequence[Row]) -> list[Row]:
    """The marks of the chart: every value as a share of the original's distance from the ideal."""
    found: list[Row] = []
    for audit in audits:
        ideal = 50.0 if audit["shown"].startswith("crows-pairs") else 0.0
        before = shown_cell(audit, ORIGINAL)
        for stage in dict.fromkeys(c["stage"] for c in audit["cells"]):
            after = shown_cell(audit, stage)
            if before is None or after is None or stage == ORIGINAL:
                continue
            unit = before["value"] - ideal
            low, high = after["interval"] or (after["value"], after["value"])
            ends = sorted(((low - ideal) / unit, (high - ideal) / unit))
            point = {
                "line": f"{audit['view']}: {stage}",
                "panel": audit["concept"],
                "share": (after["value"] - ideal) / unit,
            }
            found.append(
                point
                | {"low": max(ends[0], -1.5), "high": min(ends[1], 2.5), "verdict": after.get("verdict", "not tested")}
            )
    return found


def left_points(audits: Sequence[Row]) -> list[Row]:
    """What a classifier still finds, and the quality that is kept, in the same unit."""
    found = []
    for view, stage in stages(audits):
        of = [a for a in audits if a["view"] == view and any(c["stage"] == stage for c in a["cells"])]
        line = {"line": f"{view}: {stage}", "verdict": "not tested"}
        before, after = mean_over(of, ORIGINAL, "left"), mean_over(of, stage, "left")
        if stage != ORIGINAL and before and after:
            share = (after - 0.5) / (before - 0.5)
            found.append(line | {"panel": "left", "share": share, "low": share, "high": share})
        before, after = (mean_over(of, at, "cost") for at in (ORIGINAL, stage))
        if stage != ORIGINAL and before and after:
            share = (
                before / after if any(c["measure"] == "perplexity" for a in of for c in a["cells"]) else after / before
            )
            found.append(line | {"panel": "quality kept", "share": share, "low": share, "high": share})
    return found


COLOURS = {
    "better": PALETTE[1], "worse": PALETTE[2], "other sign": PALETTE[3], "unclear": GREY, "same": GREY,
    "not tested": PALETTE[0],
}  # fmt: skip


def picture(audits: Sequence[Row]) -> dict[str, Any]:
    """The one chart: a line for each method, a panel for each concept, then what is left and what it cost."""
    values = points(audits) + left_points(audits)
    order = [f"{view}: {stage}" for view, stage in stages(audits) if stage != ORIGINAL]
    panels = [*dict.fromkeys(a["concept"] for a in audits), "left", "quality kept"]
    scale = {"domain": list(COLOURS), "range": list(COLOURS.values())}
    y = {"field": "line", "type": "nominal", "sort": order, "title": None, "axis": {"grid": True}}
    axis = {"values": [0, 1], "format": "%"}
    x = {"type": "quantitative", "title": None, "scale": {"domain": [-1.5, 2.5], "clamp": True}, "axis": axis}
    both = {"y": y, "color": {"field": "verdict", "type": "nominal", "scale": scale, "title": "distance from no bias"}}
    interval = {"x": {**x, "field": "low"}, "x2": {"field": "high"}, **both}
    mark = {"type": "point", "filled": True, "size": 40, "opacity": 1}
    layer = [
        {"mark": {"type": "rule"}, "encoding": interval},
        {"mark": mark, "encoding": {"x": {**x, "field": "share"}, **both}},
        {"mark": {"type": "rule", "color": RULE, "strokeDash": [3, 3]}, "encoding": {"x": {"datum": 1}}},
        {"mark": {"type": "rule", "color": RULE}, "encoding": {"x": {"datum": 0}}},
    ]
    facet = {"field": "panel", "type": "nominal", "sort": panels, "title": None, "header": {"labelFontWeight": 600}}
    return chart(
        "Bias after each method as a share of that before, by concept, with what is left and the quality kept",
        data={"values": values}, facet={"column": facet}, spec={"width": 120, "height": {"step": 17}, "layer": layer},
    )  # fmt: skip


def write_page(record: Row) -> None:
    """Write the table and the chart of the page from the record."""
    audits = record["audits"]
    text = PAGE.read_text(encoding="utf-8")
    text = re.sub(r"(<!-- table -->\n\n).*?(\n\n<!-- end -->)", lambda m: m[1] + table(audits) + m[2], text, flags=re.S)
    write_text(PAGE, text)
    write_text(PICTURE, str(vl_convert.vegalite_to_svg({**picture(audits), "background": "white"})))


def main() -> None:
    """Run what is asked for, keep it, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("views", nargs="*", help="VIEW or VIEW:CONCEPT; all if none is named; none: only the page")
    parser.add_argument("--work", type=Path, default=ROOT / "runs/which-method")
    given = parser.parse_args()
    plan = tomllib.loads(PLAN.read_text(encoding="utf-8"))
    for entry in plan["audit"]:
        for concept in entry["concepts"]:
            if given.views and not {entry["view"], f"{entry['view']}:{concept}"} & set(given.views):
                continue
            found = run(entry, concept, plan["seed"], given.work.resolve())
            record = json.loads(KEPT.read_text()) if KEPT.exists() else {"plan": PLAN.name, "audits": []}
            order = [(e["view"], about) for e in plan["audit"] for about in e["concepts"]]
            kept = {(a["view"], a["concept"]): a for a in record["audits"]} | {(entry["view"], concept): found}
            record["audits"] = [kept[key] for key in order if key in kept]
            write_text(KEPT, compact(record))
            print(entry["view"], concept, len(found["cells"]), "cells", found["failed"], flush=True)
    if PAGE.exists():
        write_page(json.loads(KEPT.read_text()))


def compact(record: Row) -> str:
    """Return JSON with one cell on each line."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    return re.sub(r"\{[^{}]*\}", lambda found: re.sub(r"\n\s*", " ", found[0]), text) + "\n"


if __name__ == "__main__":
    main()
