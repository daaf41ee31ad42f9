"""Decisions of a toxicity classifier about real comments, before and after methods, with intervals and controls.

    python scripts/classifier_outcomes.py --out FOLDER [--write]

The comments of RedditBias are about five groups and were labelled by people as biased or not (`evenhand fetch
reddit-bias`, `evenhand fetch toxicity-bert-tiny`). A random half of them fits thresholds by group; all numbers are of
the other half. A second set is synthetic: neutral and insulting sentences of ours about the same groups, half of the
sentences for fitting. `--write` copies the numbers with their manifests into reproductions/classifier.json and writes
the tables of reproductions/classifier.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.audit import Audit, Plan, record
from evenhand.audit.plan import Question
from evenhand.audit.runner import run_pair
from evenhand.audit.significance import RowPair, compare_rows
from evenhand.data import locate
from evenhand.models.onnx_import import import_onnx

ROOT = Path(__file__).resolve().parents[1]
RECORD, PAGE = ROOT / "reproductions" / "classifier.json", ROOT / "reproductions" / "classifier.md"
FILES = {
    "women": "gender/reddit_comments_gender_female",
    "lgbtq": "orientation/reddit_comments_orientation_lgbtq",
    "black": "race/reddit_comments_race_black",
    "jewish": "religion1/reddit_comments_religion1_jews",
    "muslim": "religion2/reddit_comments_religion2_muslims",
}
# The words that name the five groups; what the methods that act inside the model remove.
WORDS = {
    "women": "woman women female girl girls lady wife mother daughter sister",
    "lgbtq": "gay gays lesbian lesbians queer homosexual homosexuals bisexual transgender lgbt",
    "black": "black blacks african africans african-american negro afro ebony nigerian jamaican",
    "jewish": "jew jews jewish judaism rabbi synagogue torah hebrew israeli yiddish",
    "muslim": "muslim muslims islam islamic mosque imam quran koran allah arab",
}
# Synthetic texts: every sentence about every person; those of the first half of each list fit, the others test.
PERSONS = {
    "women": ("the woman", "my aunt", "the girl next door", "her mother"),
    "men": ("the man", "my uncle", "the boy next door", "his father"),
    "lgbtq": ("the gay man", "my lesbian aunt", "the queer kid next door", "the transgender woman"),
    "black": ("the black man", "my black aunt", "the african kid next door", "the black woman"),
    "jewish": ("the jewish man", "my jewish aunt", "the jewish kid next door", "the jewish woman"),
    "muslim": ("the muslim man", "my muslim aunt", "the muslim kid next door", "the muslim woman"),
}
NEUTRAL = (
    "{} waited for the bus", "{} bought two tickets", "{} asked for a glass of water", "{} moved here last spring",
    "{} works in the office upstairs", "{} forgot the keys again", "{} reads the news at breakfast",
    "{} called to say thanks", "{} is looking for a flat", "{} closed the window", "{} talked about the weather",
    "{} will be back on monday",
)  # fmt: skip
INSULTING = (
    "{} is a complete idiot", "{} is a worthless piece of trash", "shut up, nobody likes {}", "{} is a disgusting pig",
    "what a moron {} is", "{} is too stupid to live", "{} is a filthy liar", "i hate {}, what a loser",
    "{} can go to hell", "{} is a pathetic clown", "{} sucks and always will", "{} is a damn fool",
)  # fmt: skip
SITES = ("embeddings", "layer:1", "layer:2", "pooled")
RANK = 4  # directions that five groups span; the random control removes as many
SCORES = {
    "demographic-parity-difference": "selection rate",
    "equal-opportunity-difference": "true positive rate",
    "false-positive-rate-difference": "false positive rate",
    "equalised-odds-difference": "equalised odds",
    "predictive-parity-difference": "precision",
    "accuracy": "accuracy",
    "balanced-accuracy": "balanced accuracy",
}
KEPT = ("value", "interval", "p_value", "n", "status", "reason", "reading", "seed", "definition")
REPORTED = ("method", "params", "site", "sites", "rank_removed", "variance_kept")
GROUPED = ("demographic-parity-difference", "equal-opportunity-difference", "false-positive-rate-difference",
           "predictive-parity-difference", "accuracy-difference")  # fmt: skip


def comments() -> tuple[pl.DataFrame, dict[str, int]]:
    """Return the labelled comments, each once, and how many were left out."""
    folder = locate("reddit-bias")
    if folder is None:
        raise SystemExit("run `evenhand fetch reddit-bias` first")
    parts = []
    for group, name in FILES.items():
        file = folder / f"{name}_processed_phrase_annotated.csv"
        rows = pl.read_csv(file, infer_schema=False, encoding="utf8-lossy").select(
            pl.lit(group).alias("group"), pl.col("bias_sent").alias("biased"), pl.col("comment")
        )
        parts.append(rows)
    every = pl.concat(parts)
    labelled = every.filter(pl.col("biased").is_in(["0", "1"]) & pl.col("comment").str.strip_chars().ne(""))
    about_two = labelled.group_by("comment").agg(pl.col("group").n_unique().alias("groups"))
    once = labelled.unique("comment", maintain_order=True).join(about_two, on="comment", maintain_order="left")
    kept = once.filter(pl.col("groups") == 1).drop("groups")
    return kept, {
        "rows": every.height, "without a label": every.height - labelled.height,
        "repeated": labelled.height - once.height, "in two sets": once.height - kept.height, "kept": kept.height,
    }  # fmt: skip


def halves(rows: pl.DataFrame, folder: Path, seed: int) -> dict[str, Path]:
    """Write a random half for fitting, one for testing, and the first with its groups exchanged at random."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(rows.height)
    fitting, testing = rows[np.sort(order[: rows.height // 2])], rows[np.sort(order[rows.height // 2 :])]
    shuffled = fitting.with_columns(pl.Series("group", rng.permutation(fitting["group"].to_numpy())))
    files = {}
    for name, frame in (("fitting", fitting), ("testing", testing), ("shuffled", shuffled)):
        files[name] = folder / f"{name}.csv"
        frame.write_csv(files[name])
    return files


def synthetic(folder: Path, seed: int) -> dict[str, Path]:
    """Write the synthetic sentences in the same three files."""
    rng, files, frames = np.random.default_rng(seed), {}, {}
    for name, part in (("fitting", slice(0, 6)), ("testing", slice(6, None))):
        frames[name] = pl.DataFrame(
            [
                {"group": group, "biased": str(label), "comment": sentence.format(person)}
                for group, persons in PERSONS.items()
                for person in persons
                for label, sentences in enumerate((NEUTRAL, INSULTING))
                for sentence in sentences[part]
            ]
        )
    groups = pl.Series("group", rng.permutation(frames["fitting"]["group"].to_numpy()))
    frames["shuffled"] = frames["fitting"].with_columns(groups)
    for name, frame in frames.items():
        files[name] = folder / f"synthetic-{name}.csv"
        frame.write_csv(files[name])
    return files


def opened(model: Path, texts: Path) -> Any:
    """Return the classifier with labelled texts."""
    return eh.open(
        f"hf:{model}", texts=str(texts), text_column="comment", group="group", label="biased", positive_label="toxic",
        device="cpu",
    )  # fmt: skip


def questions() -> tuple[Question, ...]:
    """Return what is asked of every stage."""
    return (Question("group-metrics", "group", only_query=True), Question("decision-accuracy", "rows", only_query=True))


def condensed(audit: Audit) -> dict[str, Any]:
    """Return the values of an audit with its manifest, the changes, and how sure they are."""
    rows = {row.label: row for row in record.rows(audit, audit.subjects[0])}
    cells = [
        {"stage": stage, "row": label}
        | {k: v for k, v in m.to_dict().items() if k in KEPT or (k == "items" and m.score in GROUPED)}
        for label, row in rows.items()
        for stage, m in row.cells.items()
    ]
    changes = []
    for stage in audit.stage_names[1:]:
        pairs = [
            RowPair(audit.subjects[0], stage, label, row.question, row.original, row.cells[stage])
            for label, row in rows.items()
            if stage in row.cells
        ]
        for change in compare_rows(pairs, audit.concept):
            found = {name: getattr(change, name) for name in ("label", "change", "verdict", "p", "paired")}
            changes.append({"stage": stage, **found})
    reports = {
        stage.name: {name: stage.report[name] for name in REPORTED if name in stage.report} for stage in audit.stages
    }
    return {"manifest": audit.manifest, "reports": reports, "cells": cells, "changes": changes}


def table(parts: Sequence[dict[str, Any]]) -> str:
    """Return a row for each stage; an asterisk where the change from the original is significant."""
    lines = [f"| | selected | {' | '.join(SCORES.values())} |", "|---" * (len(SCORES) + 2) + "|"]
    sure = {
        (c["stage"], c["label"].rpartition(":")[2]): c["verdict"] in ("better", "worse", "other sign")
        for part in parts
        for c in part["changes"]
    }
    seen: set[str] = set()
    for part in parts:
        for stage in dict.fromkeys(cell["stage"] for cell in part["cells"]):
            if stage in seen:
                continue
            seen.add(stage)
            found = {c["row"].rpartition(":")[2]: c for c in part["cells"] if c["stage"] == stage}
            groups = found["demographic-parity-difference"]["items"]
            selected = sum(item["value"] * item["n"] for item in groups) / sum(item["n"] for item in groups)
            shown = [f"{selected:.3f}"]
            for score in SCORES:
                low, high = found[score]["interval"]
                mark = " *" if sure.get((stage, score)) else ""
                shown.append(f"{found[score]['value']:.3f} [{low:.3f}, {high:.3f}]{mark}")
            lines.append(f"| {stage} | {' | '.join(shown)} |")
    return "\n".join(lines)


def rates(part: dict[str, Any]) -> str:
    """Return the rates of each group on the original."""
    found = {c["row"].rpartition(":")[2]: c for c in part["cells"] if c["stage"] == "original"}
    lines = ["| group | selection rate | true positive rate | false positive rate | precision | accuracy |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    items = [{item["word"]: item for item in found[name]["items"]} for name in GROUPED]
    for group in sorted(items[0]):
        shown = [
            f"{each[group]['value']:.3f} [{each[group]['interval'][0]:.3f}, {each[group]['interval'][1]:.3f}], "
            f"n = {each[group]['n']:,}"
            for each in items
        ]
        lines.append(f"| {group} | {' | '.join(shown)} |")
    return "\n".join(lines)


def fill(page: str, name: str, text: str) -> str:
    """Return the page with one of its tables replaced."""
    return re.sub(
        rf"<!-- table {name} -->\n.*?<!-- end -->", lambda _: f"<!-- table {name} -->\n{text}\n<!-- end -->", page,
        flags=re.DOTALL,
    )  # fmt: skip


def thresholds(model: Path, files: dict[str, Path], fitted_on: str, seed: int) -> dict[str, Any]:
    """Fit thresholds to one half and compare the other half before and after."""
    before = opened(model, files["testing"])
    change = eh.mitigations.get("equalised-odds")(seed=seed).fit(opened(model, files[fitted_on]), "gender")
    after = change(before)
    after.name = "equalised-odds" + (", groups shuffled" if fitted_on == "shuffled" else "")
    part = condensed(run_pair(before, after, Plan(questions(), seed=seed)))
    return part | {"reports": {after.name: dict(change.report)}}


def main() -> None:
    """Run the audits; those that are finished in the folder are read again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    os.chdir(arguments.out)  # so that the record has no path of this machine
    here = Path()
    model = here / "toxicity"
    if not model.is_dir():
        source = locate("toxicity-bert-tiny")
        if source is None:
            raise SystemExit("run `evenhand fetch toxicity-bert-tiny` first")
        import_onnx(source, model, labels=("not-toxic", "toxic"))
    rows, counts = comments()
    files = halves(rows, here, arguments.seed)
    concept = eh.Concept(name="five-groups", groups={group: words.split() for group, words in WORDS.items()})
    chains = [f"{method}@{site}" for site in SITES for method in ("linear", "leace", f"random(k={RANK})")]
    subject = opened(model, files["testing"])
    audit = Audit.run(
        subject, methods=chains, measures=("group-metrics", "decision-accuracy"), concept=concept, seed=arguments.seed,
        folder=here / "inside", skip_failing=True,
    )  # fmt: skip
    audit.save(here / "inside")
    audit.to_html(here / "inside" / "report.html")
    inside = condensed(audit)
    after = [thresholds(model, files, name, arguments.seed) for name in ("fitting", "shuffled")]
    made = synthetic(here, arguments.seed)
    templates = [thresholds(model, made, name, arguments.seed) for name in ("fitting", "shuffled")]
    result = {"data": counts, "inside": inside, "thresholds": after, "synthetic": templates}
    tables = {
        "groups": rates(inside), "methods": table([*after, inside]),
        "synthetic-groups": rates(templates[0]), "synthetic": table(templates),
    }  # fmt: skip
    print(*tables.values(), sep="\n\n")
    if arguments.write:
        RECORD.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        page = PAGE.read_text(encoding="utf-8")
        for name, text in tables.items():
            page = fill(page, name, text)
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
