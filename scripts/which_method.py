"""Compare the methods on several kinds of subject, for the tutorial "Which method should I use?".

    python scripts/which_method.py [VIEW[:CONCEPT]...] [--seeds-only] [--work FOLDER]

Runs the audits of reproductions/which-method.toml (all, or those that are named) and writes what they found into
reproductions/which-method.json. A method with random steps is fitted again with each of the `seeds` of its entry, and
the row that is shown and what is left are measured again; `--seeds-only` does this alone, for audits that the file has.
Finished cells are kept in the folder, so that an interrupted run goes on. Then it writes the table between
`<!-- table -->` and `<!-- end -->` and the chart of docs/tutorials/which-method.md from that file alone.

An entry with `glove` trains its vectors first; the manifest says how. One with `recorded` measures nothing: its model
was trained and audited on a GPU, and its rows are taken from another file of reproductions.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import vl_convert

import evenhand as eh
from evenhand.audit import Audit
from evenhand.audit.plan import Plan, Question, check_chain, step_parts
from evenhand.audit.record import ORIGINAL, rows
from evenhand.audit.significance import LEVEL, is_changeable, role, run_change_tests
from evenhand.corpus import Cooccurrence, cooccurrence
from evenhand.data import fetch
from evenhand.files import sha256_of, write_text
from evenhand.measures.numbers import number
from evenhand.measures.registry import IDEALS
from evenhand.mitigations import GNGloVe, glove
from evenhand.mitigations.maps import VectorMap, WordTable
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.report.charts.style import GREY, PALETTE, RULE, chart
from evenhand.words import Concept
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


# GN-GloVe trains vectors: an audit compares it with GloVe from the same counts --------------------------------------


@cache
def counts_of(text: str, window: int, min_count: int) -> Cooccurrence:
    """Return the co-occurrence counts of a text."""
    return cooccurrence([text], window, weighting="harmonic", min_count=min_count)


TRAINING: dict[str, Any] = {}  # `glove` of the entry that is run, with the text


@dataclass(frozen=True)
class TrainedAgain(VectorMethod):
    """Put the vectors of GN-GloVe in place of those that GloVe trained on the same counts, with the same settings."""

    id: ClassVar[str] = "gn-glove-of-the-plan"
    title: ClassVar[str] = "GN-GloVe, trained on the counts of the plan"
    limits: ClassVar[str] = "For scripts/which_method.py."

    seed: int = 0
    without_gender: bool = False
    """Set the coordinate of gender to 0, which leaves the vectors published as w_a."""

    def _fit(self, v: eh.Vectors, concept: Concept) -> VectorMap:
        counts = counts_of(TRAINING["text"], TRAINING["window"], TRAINING["min_count"])
        trained = trained_gn_glove(concept.name, self.seed)
        matrix = np.array(trained.matrix)
        if self.without_gender:
            matrix[:, -1] = 0
        table = WordTable(dict(zip(counts.words, matrix, strict=True)))
        return self._reported(table, v, v.locate(v.words)[1])


@cache
def trained_gn_glove(concept: str, seed: int) -> eh.Vectors:
    """Return the vectors of GN-GloVe."""
    counts = counts_of(TRAINING["text"], TRAINING["window"], TRAINING["min_count"])
    return GNGloVe(dim=TRAINING["dim"], epochs=TRAINING["epochs"], seed=seed).train(counts, concept)


def trained_vectors(settings: Mapping[str, Any], seed: int, work: Path) -> tuple[str, Row]:
    """Train GloVe, and return the file of its vectors with what the manifest says of it."""
    TRAINING.update(settings, text=filled(settings["text"], "", work))
    if TrainedAgain.id not in MITIGATIONS.ids():
        MITIGATIONS.register(TrainedAgain.id)(TrainedAgain)
    counts = counts_of(TRAINING["text"], settings["window"], settings["min_count"])
    vectors = glove(counts, settings["dim"], epochs=settings["epochs"], seed=seed)
    out = work / "models" / "glove-of-the-plan.safetensors"
    out.parent.mkdir(parents=True, exist_ok=True)
    vectors.save(out)
    about = {"text_sha256": sha256_of(Path(TRAINING["text"])), "words": len(counts.words), "counts": counts.matrix.nnz}
    return str(out), {**settings, **about, "seed": seed}


# -------------------------------------------------------------------------------------------------------------------


def opened_subject(entry: Mapping[str, Any], seed: int, work: Path) -> tuple[Any, Row]:
    """Return the subject of an entry, and how it was trained if this script did."""
    labels = entry.get("labels", "")
    if "glove" in entry:
        address, about = trained_vectors(entry["glove"], seed, work)
    else:
        address, about = filled(entry["subject"], labels, work), {}
    return eh.open(address), about


def plan_of(entry: Mapping[str, Any], opened: Any, methods: Sequence[str], concept: str, seed: int) -> Plan:
    """Return the plan of one audit."""
    plan = Plan.default(
        [opened], methods=methods, only=entry["measures"], concept=concept, seed=seed, skip_failing=True
    )
    questions = tuple(
        replace(q, options={**q.options, **entry.get("options", {}).get(q.measure, {})})
        for q in plan.questions
        if q.query in entry.get("queries", {}).get(q.measure, [q.query]) and q.asks_about(concept)
    )
    return replace(plan, questions=questions)


def folder_for(entry: Mapping[str, Any], concept: str, work: Path) -> Path:
    """Return the folder of an audit."""
    return work / f"{entry['view'].replace(' ', '-')}-{concept}"


def seeded(chain: str, seed: int) -> str:
    """Return a chain with a seed of its own, or nothing if the method has no random steps."""
    id, given = step_parts(chain)
    if not eh.mitigations.get(id).is_seeded():
        return ""
    params = ";".join(f"{name}={value}" for name, value in (given | {"seed": seed}).items() if name != "site")
    return f"{id}({params})" + (f"@{given['site']}" if "site" in given else "")


def named(entry: Mapping[str, Any], stage: str) -> str:
    """Return the name of a stage on the page."""
    names: Mapping[str, str] = entry.get("names", {})
    return names.get(stage, stage)


def run_seeds(entry: Mapping[str, Any], concept: str, found: Row, seed: int, work: Path) -> list[Row]:
    """Fit the random methods again with other seeds; return the row that is shown and what is left after each."""
    seeds = entry.get("seeds", {}).get(concept, [])
    if not seeds:
        return []
    opened, _ = opened_subject(entry, seed, work)
    again = [c for c in entry["methods"] if c not in found["failed"] and c not in entry.get("once", [])]
    chains = {seeded(chain, other): (chain, other) for chain in again for other in seeds}
    chains.pop("", None)
    if not chains:
        return []
    plan = plan_of(entry, opened, list(chains), concept, seed)
    measure = next(cell["measure"] for cell in found["cells"] if cell["row"] == found["shown"])
    same = [q for q in plan.questions if q.measure == measure]
    asked: list[Question] = [q for q in same if q.query in found["shown"]] or same
    asked += [q for q in plan.questions if q.info.role == "left"]
    folder = folder_for(entry, f"{concept}-seeds", work)
    audit = Audit.run(opened, plan=replace(plan, questions=tuple(asked)), folder=folder)
    values: dict[str, Row] = {
        chain: {"stage": named(entry, stage), "seed": other, "value": None, "left": None}
        for chain, (stage, other) in chains.items()
    }
    for row in rows(audit):
        for chain, m in row.cells.items():
            if chain in values and m.value is not None:
                if row.label == found["shown"]:
                    values[chain]["value"] = float(f"{m.value:.5g}")
                elif role(row.question, concept) == "left":
                    values[chain]["left"] = float(f"{m.value:.5g}")
    return [value for value in values.values() if value["value"] is not None]


def recorded(entry: Mapping[str, Any], concept: str) -> Row:
    """Return the rows of an entry that another file has, with its tests: Holm-adjusted over all rows and methods."""
    source = json.loads((KEPT.parent / entry["recorded"]).read_text())["catalog"][entry["model"]]
    found: list[Row] = []
    for stage in (ORIGINAL, *entry["methods"]):
        for kind, labels in entry["rows"].items():
            for label in labels:
                before, after = (source["stages"][name]["shown"].get(label) for name in (ORIGINAL, stage))
                if not after or after["value"] is None:
                    continue
                cell = {"row": label, "measure": label.split(":")[0], "role": kind, "stage": stage}
                cell |= {"value": after["value"], "interval": after["interval"], "n": after["n"]}
                if stage != ORIGINAL and kind != "moved":
                    cell |= {"verdict": verdict(before, after, source["better"][label]), "p": after["change_p_holm"]}
                found.append(cell)
    manifest = {key: source[key] for key in ("evenhand", "created", "machine", "training", "seed")}
    subjects = [{key: source["subject"][key] for key in ("name", "sha256")}]
    about = {"view": entry["view"], "concept": concept, "shown": entry["shown"][concept]}
    manifest |= {"subjects": subjects, "concept": source["concept_digest"], "recorded": entry["recorded"]}
    return about | {"manifest": manifest, "failed": {}, "cells": [_rounded(cell) for cell in found]}


def verdict(before: Row, after: Row, better: str) -> str:
    """Return the change of a recorded row in a word."""
    if after["change_p_holm"] is None or after["change_p_holm"] >= LEVEL:
        return "unclear"
    if better in ("lower", "higher"):
        return "better" if (after["value"] < before["value"]) == (better == "lower") else "worse"
    (low, high), (new_low, new_high), ideal = before["interval"], after["interval"], IDEALS[better]  # type: ignore[index]
    if (low > ideal and new_high < ideal) or (high < ideal and new_low > ideal):
        return "other sign"
    return "better" if abs(after["value"] - ideal) < abs(before["value"] - ideal) else "worse"


def run(entry: Mapping[str, Any], concept: str, seed: int, work: Path) -> Row:
    """Run one audit of the plan and return what the page needs of it."""
    if "recorded" in entry:
        return recorded(entry, concept)
    opened, trained = opened_subject(entry, seed, work)
    refused = dict(_refused(entry["methods"], concept))
    plan = plan_of(entry, opened, [chain for chain in entry["methods"] if chain not in refused], concept, seed)
    audit = Audit.run(opened, plan=plan, folder=folder_for(entry, concept, work))
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
        "view": entry["view"], "concept": concept, "shown": entry["shown"][concept],
        "manifest": _manifest(audit) | ({"trained": trained} if trained else {}), "failed": failed,
        "cells": [_rounded(cell | {"stage": named(entry, cell["stage"])}) for cell in found],
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
    mark = MARKS.get(cell.get("verdict", ""), "")
    return number(cell["value"]) + ends + mark + spread_text(audit, stage, cell["value"])


def spread_text(audit: Row, stage: str, value: float) -> str:
    """The smallest and the largest value over all seeds of a random method; nothing if all are the same."""
    values = [value, *(s["value"] for s in audit.get("seeds", []) if s["stage"] == stage)]
    low, high = number(min(values)), number(max(values))
    return "" if low == high else f"<br>seeds {low} to {high}"


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
            again = [seed["value"] for seed in audit.get("seeds", []) if seed["stage"] == stage]
            seen = {key: found[-1][key] for key in ("line", "panel", "verdict")}
            found += [seen | {"seed": (value - ideal) / unit} for value in again]
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
        {"mark": {"type": "tick", "thickness": 1.5, "size": 9}, "encoding": {"x": {**x, "field": "seed"}, **both}},
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
    parser.add_argument("--seeds-only", action="store_true", help="keep the audits and run the other seeds alone")
    parser.add_argument("--work", type=Path, default=ROOT / "runs/which-method")
    given = parser.parse_args()
    plan = tomllib.loads(PLAN.read_text(encoding="utf-8"))
    for entry in plan["audit"]:
        for concept in entry["concepts"]:
            if given.views and not {entry["view"], f"{entry['view']}:{concept}"} & set(given.views):
                continue
            work, here = given.work.resolve(), (entry["view"], concept)
            found = recorded_audits()[here] if given.seeds_only else run(entry, concept, plan["seed"], work)
            if seeds := run_seeds(entry, concept, found, plan["seed"], work):
                found["seeds"] = seeds
            kept = recorded_audits() | {here: found}
            order = [(e["view"], about) for e in plan["audit"] for about in e["concepts"]]
            audits = [kept[key] for key in order if key in kept]
            write_text(KEPT, compact({"plan": PLAN.name, "audits": audits}))
            print(entry["view"], concept, len(found["cells"]), "cells", found["failed"], flush=True)
    if PAGE.exists():
        write_page(json.loads(KEPT.read_text()))


def recorded_audits() -> dict[tuple[str, str], Row]:
    """Return what the file has, by view and concept."""
    audits = json.loads(KEPT.read_text())["audits"] if KEPT.exists() else []
    return {(audit["view"], audit["concept"]): audit for audit in audits}


def compact(record: Row) -> str:
    """Return JSON with one cell on each line."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    return re.sub(r"\{[^{}]*\}", lambda found: re.sub(r"\n\s*", " ", found[0]), text) + "\n"


if __name__ == "__main__":
    main()
