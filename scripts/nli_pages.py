"""Keep the NLI experiments' results beside the pages that show them, and fill the tables of these pages.

    python scripts/nli_pages.py [RESULTS...]    # RESULTS: .jsonl files and manifests of scripts/nli_experiment.py

Given files are merged into reproductions/nli.json; then every table between `<!-- table NAME -->` and
`<!-- end -->` in reproductions/dev2019.md and dawkins2021.md is written anew from it.
"""

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parents[1] / "reproductions"
KEPT = PAGES / "nli.json"
PROBES = {"gender": "gender-occupation", "nationality": "nationality-polarity", "religion": "religion-polarity"}
SHOWN = {"decomposable": "decomposable attention", "bilstm": "BiLSTM"}
# NN, FN, T:0.5, T:0.7 of GloVe 840B 300-d and all of SNLI: tables 1, 3, 5, 8 and 9 of Dev et al. 2020.
DEV: dict[tuple[str, str], tuple[float, ...]] = {
    ("gender", "original"): (0.387, 0.394, 0.324, 0.114),
    ("gender", "linear"): (0.480, 0.519, 0.474, 0.297),
    ("gender", "random"): (0.362, 0.405, 0.323, 0.118),
    ("nationality", "original"): (0.713, 0.760, 0.776, 0.654),
    ("nationality", "nationality"): (0.808, 0.887, 0.910, 0.784),
    ("religion", "original"): (0.710, 0.765, 0.785, 0.636),
    ("religion", "religion"): (0.794, 0.894, 0.913, 0.771),
}
DEV_ACCURACY = {"original": 0.8698, "linear": 0.8720, "nationality": 0.8687, "religion": 0.8718}
# d and E of the six nouns (table 1), d and p of occupations (2) and names (4) of Dawkins 2021, GloVe 840B 300-d.
DAWKINS: dict[str, tuple[float, ...]] = {
    "original": (0.225, 0.182, 0.216, 0.0001, 0.415, 0.0),
    "hard": (0.128, 0.155, 0.159, 0.0408, 0.124, 0.0140),
    "gn-glove": (0.408, 0.301, 0.320, 0.0, 0.383, 0.0),
    "gn-glove-wa": (0.115, 0.149, 0.147, 0.0478, 0.098, 0.0241),
    "double-hard": (0.315, 0.247, 0.180, 0.0038, 0.134, 0.0192),
    "gp": (0.385, 0.336, 0.229, 0.0010, 0.288, 0.0),
    "bam": (0.184, 0.175, 0.141, 0.0060, 0.251, 0.0),
    "oscar": (0.168, 0.154, 0.195, 0.0036, 0.163, 0.0001),
    "ran": (0.136, 0.193, 0.112, 0.0477, 0.236, 0.0),
    "inlp": (0.128, 0.167, 0.050, 0.6595, 0.054, 0.4049),
}
Row = dict[str, Any]


def main(given: list[Path]) -> None:
    """Merge what is given, then fill the tables."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"manifests": {}, "runs": []}
    for path in given:
        if path.suffix == ".jsonl":
            new = [_rounded(json.loads(line)) for line in path.read_text().splitlines()]
            known = {_key(row): row for row in kept["runs"]} | {_key(row): row for row in new}
            kept["runs"] = [known[key] for key in sorted(known)]
        else:
            kept["manifests"][path.name.partition(".")[0]] = json.loads(path.read_text())
    KEPT.write_text(
        json.dumps(kept, indent=None, separators=(",", ":")).replace('{"architecture"', '\n{"architecture"')
    )
    for name in ("dev2019.md", "dawkins2021.md"):
        page = PAGES / name
        page.write_text(filled(page.read_text(), kept["runs"]))


def filled(page: str, runs: list[Row]) -> str:
    """The page with its tables computed from the runs."""

    def table(found: re.Match[str]) -> str:
        name, _, argument = found[1].partition(" ")
        return f"<!-- table {found[1]} -->\n{TABLES[name](runs, argument)}\n<!-- end -->"

    return re.sub(r"<!-- table ([^>]+) -->.*?<!-- end -->", table, page, flags=re.DOTALL)


def _key(row: Row) -> tuple[str, str, int]:
    return row["architecture"], row["condition"], row["seed"]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return round(value, 5) if isinstance(value, float) else value


def chosen(runs: Iterable[Row], architecture: str, condition: str) -> list[Row]:
    """The runs of a condition; all random directions are one."""
    wanted = [row for row in runs if row["architecture"] == architecture]
    return [row for row in wanted if re.sub(r"^random-\d$", "random", row["condition"]) == condition]


def mean(values: Iterable[float]) -> str:
    """Mean and standard deviation over models."""
    found = list(values)
    spread = f" ± {statistics.stdev(found):.3f}" if len(found) > 1 else ""
    return f"{statistics.fmean(found):.3f}{spread}"


def neutrality(runs: list[Row], kind: str) -> str:
    """NN, FN, T:0.5, T:0.7 of one probe, published and ours."""
    lines = ["| vectors | model | NN | FN | T:0.5 | T:0.7 | models |", "|---|---|--:|--:|--:|--:|--:|"]
    for (about, condition), published in DEV.items():
        if about != kind:
            continue
        lines.append(f"| {condition} | published | " + " | ".join(f"{value:.3f}" for value in published) + " | 1 |")
        for architecture, shown in SHOWN.items():
            rows = [row[PROBES[kind]] for row in chosen(runs, architecture, condition) if PROBES[kind] in row]
            if rows:
                cells = [mean(r["net_neutral"] for r in rows), mean(r["fraction_neutral"] for r in rows)]
                cells += [mean(r["threshold"][tau] for r in rows) for tau in ("0.5", "0.7")]
                lines.append(f"| {condition} | {shown} | " + " | ".join(cells) + f" | {len(rows)} |")
    return "\n".join(lines)


def gaps(runs: list[Row], architecture: str) -> str:
    """Which way the conclusions lean."""
    head = "| vectors | entailed of men | of women | gap | contradicted of men | of women | gap | models |"
    lines = [head, "|---|--:|--:|--:|--:|--:|--:|--:|"]
    for condition in ("original", "linear", "random"):
        rows = [row["gender-occupation"] for row in chosen(runs, architecture, condition)]
        cells = []
        for label in ("entailment", "contradiction") if rows else ():
            cells += [mean(row["groups"][group][label] for row in rows) for group in ("male", "female")]
            cells.append(mean(row["gap"][label] for row in rows))
        if rows:
            lines.append(f"| {condition} | " + " | ".join(cells) + f" | {len(rows)} |")
    return "\n".join(lines)


def accuracies(runs: list[Row], _: str) -> str:
    """SNLI and HANS."""
    lines = ["| vectors | model | SNLI dev | SNLI test | published | HANS | models |", "|---|---|--:|--:|--:|--:|--:|"]
    for condition in ("original", "linear", "random", "nationality", "religion"):
        for architecture, shown in SHOWN.items():
            if rows := chosen(runs, architecture, condition):
                cells = [mean(row[name] for row in rows) for name in ("dev", "test", "hans")]
                published = f"{DEV_ACCURACY[condition]:.3f}" if condition in DEV_ACCURACY else ""
                shown_cells = f"{cells[0]} | {cells[1]} | {published} | {cells[2]}"
                lines.append(f"| {condition} | {shown} | {shown_cells} | {len(rows)} |")
    return "\n".join(lines)


def marked(runs: list[Row], _: str) -> str:
    """E and d of the explicit probe, d of occupations and names."""
    heads = ("vectors", "E, nouns", "d, nouns", "d, occupations", "p < .05", "d, names", "p < .05", "SNLI test", "gap")
    head = "| " + " | ".join(heads) + " |"
    lines = [head, "|---|" + "--:|" * 8]
    for condition in _conditions(runs):
        rows = chosen(runs, "decomposable", condition)
        published = DAWKINS.get(condition)
        cells = [_beside(rows, "mab-explicit", "error", published and published[1])]
        cells.append(_beside(rows, "mab-explicit", "distance", published and published[0]))
        for probe, place in (("mab-occupations", 2), ("mab-names", 4)):
            cells.append(_beside(rows, probe, "distance", published and published[place]))
            below = sum(row[probe]["marked"]["p_value"] < 0.05 for row in rows)
            cells.append(f"{below} of {len(rows)}")
        cells += [
            mean(row["test"] for row in rows),
            mean(row["gender-occupation"]["gap"]["entailment"] for row in rows),
        ]
        lines.append(f"| {condition} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _beside(rows: list[Row], probe: str, score: str, published: float | None) -> str:
    ours = mean(row[probe]["marked"][score] for row in rows)
    return ours if published is None else f"{ours} ({published:.3f})"


def triples(runs: list[Row], groups: str) -> str:
    """Neutral, entailment, contradiction of two groups of the explicit probe."""
    first, second = groups.split()
    labels = ("neutral", "entailment", "contradiction")
    names = [f"{group}: {label}" for group in (first, second) for label in labels]
    lines = ["| vectors | " + " | ".join(names) + " |", "|---|" + "--:|" * len(names)]
    for condition in _conditions(runs):
        rows = [row["mab-explicit"]["groups"] for row in chosen(runs, "decomposable", condition)]
        cells = [mean(row[group][label] for row in rows) for group in (first, second) for label in labels]
        lines.append(f"| {condition} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def paired(runs: list[Row], _: str) -> str:
    """Differences from the original vectors, model by model of the same seed."""
    head = "| vectors | E, nouns | d, nouns | d, occupations | d, names | gap |"
    lines = [head, "|---|" + "--:|" * 5]
    scores: dict[str, Callable[[Row], float]] = {
        "E": lambda row: float(row["mab-explicit"]["marked"]["error"]),
        **{
            probe: (lambda row, probe=probe: float(row[probe]["marked"]["distance"]))  # type: ignore[misc]
            for probe in ("mab-explicit", "mab-occupations", "mab-names")
        },
        "gap": lambda row: float(row["gender-occupation"]["gap"]["entailment"]),
    }
    for condition in _conditions(runs):
        base = "glove-enwik8" if condition.startswith("gn-glove") else "original"
        before = {row["seed"]: row for row in chosen(runs, "decomposable", base)}
        rows = chosen(runs, "decomposable", condition)
        if condition not in ("original", "glove-enwik8", "random"):
            changes = [mean(score(row) - score(before[row["seed"]]) for row in rows) for score in scores.values()]
            lines.append(f"| {condition} | " + " | ".join(changes) + " |")
    return "\n".join(lines)


def _conditions(runs: list[Row]) -> list[str]:
    """Those that were asked about marked attributes: the paper's first, in its order, then ours."""
    asked = {re.sub(r"^random-\d$", "random", r["condition"]) for r in runs if "mab-explicit" in r}
    first = [name for name in DAWKINS if name in asked]
    return first + sorted(asked - set(first))


TABLES: dict[str, Callable[[list[Row], str], str]] = {
    "neutrality": neutrality,
    "gaps": gaps,
    "accuracies": accuracies,
    "marked": marked,
    "triples": triples,
    "paired": paired,
}

if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
