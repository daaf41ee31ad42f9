"""Keep the results on encoders beside the page that shows them, and fill the tables of the page.

    python scripts/encoders_page.py [--bert NLI_JSON...] [--mlm MLM_JSON] [--elmo ELMO_JSON] [--audit FOLDER...]
                                    [--catalog MODEL_JSON...]

NLI_JSON and MLM_JSON are of scripts/bert_experiment.py, ELMO_JSON is of scripts/elmo_experiment.py, a FOLDER is that of
`evenhand audit`, MODEL_JSON is of scripts/catalog_audits.py, with its stages beside it. What is given replaces what
reproductions/encoders.json has of the same kind, and ELMO_JSON replaces reproductions/elmo.json. Then every table
between `<!-- table NAME -->` and `<!-- end -->` in reproductions/encoders.md is written anew from them.
"""

import argparse
import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from scipy import stats

sys.path.insert(0, str(Path(__file__).parent))

from catalog_tables import catalog_changes, catalog_models, catalog_results, catalog_table

from evenhand.stats import holm

PAGES = Path(__file__).parents[1] / "reproductions"
PAGE, KEPT, KEPT_ELMO = PAGES / "encoders.md", PAGES / "encoders.json", PAGES / "elmo.json"
Row = dict[str, Any]
PROBE = "gender-occupation"
# Net neutral, fraction neutral, T:0.5 and T:0.7 of BERT-base and all of SNLI: tables 1 and 15 of Dev et al. 2020.
DEV_BERT: dict[str, tuple[float, ...]] = {
    "none": (0.421, 0.397, 0.374, 0.209),
    "he-she@test": (0.396, 0.371, 0.341, 0.167),
    "random@test": (0.398, 0.388, 0.328, 0.201),
    "he-she": (0.516, 0.526, 0.501, 0.354),
    "random": (0.338, 0.296, 0.253, 0.168),
}
DEV_BERT_ACCURACY = {"none": (0.9030, 0.9022), "he-she": (0.9070, 0.9023)}
# The same of ELMo: tables 1, 11 and 13, by what was removed and where.
DEV_ELMO: dict[str, tuple[float, ...]] = {
    "none": (0.417, 0.391, 0.303, 0.063),
    "he-she layers": (0.423, 0.419, 0.363, 0.079),
    "random layers": (0.428, 0.412, 0.372, 0.115),
    "he-she embeddings": (0.488, 0.502, 0.479, 0.364),
    "random embeddings": (0.414, 0.402, 0.309, 0.062),
}
DEV_ELMO_ACCURACY = {"none": 0.8837, "he-she layers": 0.8742, "he-she embeddings": 0.8804}
# Singular values 2 to 4 of the gendered pairs, relative to the first, and the cosine of he - she: table 12.
DEV_ELMO_DIRECTION = (0.46, 0.32, 0.29, 0.60)
ELMO_SITES = {"embeddings": "token vectors", "layer:1": "first biLSTM layer", "layer:2": "second biLSTM layer"}
ELMO_PAIRS = (
    *(((name, name), ("none", "none")) for name in DEV_ELMO if name != "none"),
    *(((f"he-she {place}",) * 2, (f"random {place}",) * 2) for place in ("embeddings", "layers")),
    *((("none", name), ("none", "none")) for name in ("he-she embeddings", "he-she layers", "random embeddings")),
)
TITLES = {
    "none": "no projection",
    "he-she@test": "he-she at test",
    "random@test": "random at test",
    "he-she": "he-she in training and test",
    "random": "random in training and test",
}
SCORES: dict[str, Callable[[Row], float]] = {
    "NN": lambda found: float(found["net_neutral"]),
    "FN": lambda found: float(found["fraction_neutral"]),
    "T:0.5": lambda found: float(found["threshold"]["0.5"]),
    "T:0.7": lambda found: float(found["threshold"]["0.7"]),
}
GAP = "gap of entailment"
PLACES = 5


def mean(values: Iterable[float], places: int = 3) -> str:
    """Mean and standard deviation over models."""
    found = list(values)
    spread = f" ± {statistics.stdev(found):.{places}f}" if len(found) > 1 else ""
    return f"{statistics.fmean(found):.{places}f}{spread}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose columns but the first are numbers."""
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "--:|" * (len(heads) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def runs_of(kept: Row, data: str, condition: str) -> list[Row]:
    """The runs of a condition, by seed."""
    runs = kept.get("bert", {}).get(data, {}).get("runs", [])
    return sorted((run for run in runs if run["condition"] == condition), key=lambda run: int(run["seed"]))


def bert_scores(kept: Row, data: str) -> str:
    """The four scores, published and ours."""

    def rows() -> Iterator[list[str]]:
        for condition, published in DEV_BERT.items():
            yield [TITLES[condition], "published", *(f"{value:.3f}" for value in published), "1"]
            found = [run[PROBE] for run in runs_of(kept, data, condition)]
            if found:
                cells = [mean(score(one) for one in found) for score in SCORES.values()]
                yield [TITLES[condition], "ours", *cells, str(len(found))]

    return table(("removed", "model", *SCORES, "models"), rows())


def gap_size(found: Row) -> float:
    """How much more often one group is entailed, whichever it is."""
    return abs(float(found["gap"]["entailment"]))


def bert_differences(kept: Row, data: str) -> str:
    """Differences of conditions, seed by seed, with a paired t-test; p-values are Holm-adjusted over the table."""
    pairs = [("he-she@test", "none"), ("random@test", "none"), ("he-she", "none"), ("random", "none")]
    pairs.append(("he-she", "random"))
    measured = {**SCORES, f"size of the {GAP}": gap_size}
    found = []
    for condition, base in pairs:
        before = {run["seed"]: run for run in runs_of(kept, data, base)}
        after = [run for run in runs_of(kept, data, condition) if run["seed"] in before]
        if len(after) < 2:
            continue
        title = f"{TITLES[condition]} − {TITLES[base]}"
        for name, score in measured.items():
            found.append((title, name, [score(run[PROBE]) - score(before[run["seed"]][PROBE]) for run in after]))
        found.append((title, "SNLI test", [run["test"] - before[run["seed"]]["test"] for run in after]))
    return differences(found)


def differences(found: Sequence[tuple[str, str, list[float]]]) -> str:
    """A table of paired differences by title and score; p-values are Holm-adjusted over it."""
    p_values = [p_value(changes) for *_, changes in found]
    rows = []
    for (title, name, changes), p, corrected in zip(found, p_values, holm(p_values), strict=True):
        centre = f"{statistics.fmean(changes):+.3f}"
        rows.append([title, name, centre, interval(changes), f"{p:.3f}", f"{corrected:.3f}", str(len(changes))])
    return table(("difference", "score", "mean", "95 % interval", "p", "p, Holm", "pairs"), rows)


def p_value(changes: Sequence[float]) -> float:
    """Two-sided p-value of a paired t-test; 1 if nothing varies."""
    if len(changes) < 2 or not statistics.stdev(changes):
        return 0.0 if changes and any(changes) else 1.0
    return float(stats.ttest_1samp(changes, 0.0).pvalue)


def interval(changes: Sequence[float]) -> str:
    """The t-interval of a mean."""
    if len(changes) < 2:
        return ""
    half = float(stats.t.ppf(0.975, len(changes) - 1)) * statistics.stdev(changes) / math.sqrt(len(changes))
    centre = statistics.fmean(changes)
    return f"{centre - half:+.3f} to {centre + half:+.3f}"


def bert_gaps(kept: Row, data: str) -> str:
    """Which way the conclusions lean."""

    def rows() -> Iterator[list[str]]:
        for condition in TITLES:
            found = [run[PROBE] for run in runs_of(kept, data, condition)]
            cells: list[str] = []
            for label in ("entailment", "contradiction") if found else ():
                cells += [mean(one["groups"][group][label] for one in found) for group in ("male", "female")]
                cells.append(mean(one["gap"][label] for one in found))
            if found:
                yield [TITLES[condition], *cells, str(len(found))]

    heads = ("removed", "entailed of men", "of women", "gap", "contradicted of men", "of women", "gap", "models")
    return table(heads, rows())


def bert_accuracy(kept: Row, data: str) -> str:
    """Accuracy on SNLI, on HANS, and on the control pairs of the probe."""

    def rows() -> Iterator[list[str]]:
        for condition in TITLES:
            found = runs_of(kept, data, condition)
            if not found:
                continue
            dev = mean(run["training"]["dev_accuracy"] for run in found) if "training" in found[0] else ""
            published = DEV_BERT_ACCURACY.get(condition)
            cells = [dev, mean(run["test"] for run in found), f"{published[1]:.3f}" if published else ""]
            cells.append(mean(run["hans"] for run in found))
            cells += [
                mean(run[PROBE]["controls"][name] for run in found)
                for name in ("control-entailment", "control-contradiction")
            ]
            yield [TITLES[condition], *cells, str(len(found))]

    heads = ("removed", "SNLI dev", "SNLI test", "published", "HANS", "controls E", "controls C", "models")
    return table(heads, rows())


def bert_other_probes(kept: Row, data: str) -> str:
    """Nationality and religion, of models without a projection."""
    found = runs_of(kept, data, "other-probes")
    rows = [
        [probe, *(mean(score(run[probe]) for run in found) for score in SCORES.values()), str(len(found))]
        for probe in ("nationality-polarity", "religion-polarity")
        if found
    ]
    return table(("probe", *SCORES, "models"), rows)


def masked_model(kept: Row, _: str) -> str:
    """The masked language model before and after its training."""
    mlm = kept.get("mlm")
    if not mlm:
        return table(("head", "loss", "perplexity", "accuracy"), ())
    rows = [
        [name, f"{mlm[key]['loss']:.3f}", f"{math.exp(mlm[key]['loss']):.1f}", f"{mlm[key]['accuracy']:.3f}"]
        for name, key in (("untrained", "before"), ("trained", "after"))
    ]
    return table(("head", "loss", "perplexity", "accuracy"), rows)


def elmo_scores(kept: Row, _: str) -> str:
    """The four scores of NLI models over ELMo, published and ours."""
    runs = kept.get("elmo", {}).get("rows", [])

    def rows() -> Iterator[list[str]]:
        known = [(run["trained"], run["tested"]) for run in runs]
        for trained, tested in dict.fromkeys([*((name, name) for name in DEV_ELMO), *known]):
            title = elmo_title(trained, tested)
            if trained == tested and tested in DEV_ELMO:
                accuracy = f"{DEV_ELMO_ACCURACY[tested]:.3f}" if tested in DEV_ELMO_ACCURACY else ""
                yield [title, "published", *(f"{value:.3f}" for value in DEV_ELMO[tested]), accuracy, "1"]
            found = list(elmo_runs(kept, trained, tested).values())
            if found:
                cells = [mean(score(run["probe"]) for run in found) for score in SCORES.values()]
                yield [title, "ours", *cells, mean(run["test"]["accuracy"] for run in found), str(len(found))]

    return table(("removed", "model", *SCORES, "SNLI test", "models"), rows())


def elmo_runs(kept: Row, trained: str, tested: str) -> dict[int, Row]:
    """The runs of a condition by seed."""
    runs = kept.get("elmo", {}).get("rows", [])
    return {run["seed"]: run for run in runs if (run["trained"], run["tested"]) == (trained, tested)}


def elmo_title(trained: str, tested: str) -> str:
    """What was removed where."""
    return tested if trained == tested else f"{tested}, at test only"


def elmo_gaps(kept: Row, _: str) -> str:
    """Which way the conclusions over ELMo lean, and what the models answer to pairs of known label."""

    def rows() -> Iterator[list[str]]:
        conditions = [(run["trained"], run["tested"]) for run in kept.get("elmo", {}).get("rows", [])]
        for condition in dict.fromkeys(conditions):
            found = [run["probe"] for run in elmo_runs(kept, *condition).values()]
            cells: list[str] = []
            for label in ("entailment", "contradiction"):
                cells += [mean(one["groups"][group][label] for one in found) for group in ("male", "female")]
                cells.append(mean(one["gap"][label] for one in found))
            controls = [
                mean(one["controls"][f"control-{label}"] for one in found) for label in ("entailment", "contradiction")
            ]
            yield [elmo_title(*condition), *cells, *controls, str(len(found))]

    heads = ("removed", "entailed of men", "of women", "gap", "contradicted of men", "of women", "gap")
    return table((*heads, "controls E", "controls C", "models"), rows())


def elmo_differences(kept: Row, _: str) -> str:
    """Differences of conditions over ELMo, seed by seed."""
    found = []
    for condition, base in ELMO_PAIRS:
        after, before = elmo_runs(kept, *condition), elmo_runs(kept, *base)
        seeds = sorted(after.keys() & before.keys())
        if len(seeds) < 2:
            continue
        title = f"{elmo_title(*condition)} − {elmo_title(*base)}"
        for name, score in {"NN": SCORES["NN"], GAP: gap_of_entailment}.items():
            found.append((title, name, [score(after[s]["probe"]) - score(before[s]["probe"]) for s in seeds]))
        found.append(
            (title, "SNLI test", [after[s]["test"]["accuracy"] - before[s]["test"]["accuracy"] for s in seeds])
        )
    return differences(found)


def gap_of_entailment(found: Row) -> float:
    """How much more often women are entailed than men."""
    return float(found["gap"]["entailment"])


def elmo_directions(kept: Row, _: str) -> str:
    """How much of the difference of gendered pairs is one direction, and whether he - she is that one."""
    found = kept.get("elmo", {}).get("directions", {}).get("stability", {})
    rows = [["token vectors", "published", *(f"{value:.2f}" for value in DEV_ELMO_DIRECTION), "", "9"]]
    for site, title in ELMO_SITES.items():
        if one := found.get(site):
            numbers = [*one["ratios"][:3], one["cosine"], one["he_she_cosine"]]
            rows.append([title, "ours", *(f"{value:.2f}" for value in numbers), str(one["pairs"])])
    return table(("site", "model", "2nd", "3rd", "4th", "cosine", "cos(he, she)", "pairs"), rows)


def audit_table(kept: Row, argument: str) -> str:
    """The measurements of one audited subject, one column per stage: "SUBJECT", or "SUBJECT START..." of the labels."""
    subject, *starts = argument.split()
    cells = [row for row in kept.get("audits", []) if row["subject"] == subject]
    cells = [row for row in cells if not starts or row["label"].startswith(tuple(starts))]
    stages = list(dict.fromkeys(row["stage"] for row in cells))
    by_label: dict[str, dict[str, Row]] = {}
    for row in cells:
        by_label.setdefault(row["label"], {})[row["stage"]] = row
    rows = [[label, *(_cell(found.get(stage)) for stage in stages)] for label, found in by_label.items()]
    return table(("measure", *stages), rows)


def _cell(row: Row | None) -> str:
    if row is None or row["value"] is None:
        return ""
    bounds = f" [{row['interval'][0]:.3g}, {row['interval'][1]:.3g}]" if row["interval"] else ""
    return f"{row['value']:.3g}{bounds}"


def audited(folders: Iterable[Path]) -> list[Row]:
    """The measurements of audit folders, without their items."""
    from evenhand.audit.record import Audit

    rows = []
    for folder in folders:
        audit = Audit.load(folder)
        for subject in audit.subjects:
            for label, stages in audit.rows(subject).items():
                for stage, found in stages.items():
                    row = {"subject": subject, "stage": stage, "label": label, "value": found.value}
                    interval_ = list(found.interval) if found.interval else None
                    rows.append({**row, "interval": interval_, "p_value": found.p_value, "n": found.n})
    return rows


def rounded(value: Any) -> Any:
    """Plain data with fewer digits."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.{PLACES}g}") if isinstance(value, float) else value


def merged(kept: Row, given: argparse.Namespace) -> Row:
    """What is kept, with what is given in its place."""
    result = dict(kept)
    for path in given.bert:
        new = json.loads(path.read_text())
        data = new["runs"][0]["data"]
        result["bert"] = {**result.get("bert", {}), data: rounded(new)}
    if given.mlm:
        result["mlm"] = rounded(json.loads(given.mlm.read_text()))
    if given.elmo:
        result["elmo"] = json.loads(given.elmo.read_text())
    if given.audit:
        new = rounded(audited(given.audit))
        subjects = {row["subject"] for row in new}
        result["audits"] = [row for row in result.get("audits", []) if row["subject"] not in subjects] + new
    if given.catalog:
        result["catalog"] = {**result.get("catalog", {}), **catalog_results(given.catalog)}
    return result


TABLES: dict[str, Callable[[Row, str], str]] = {
    "bert-scores": bert_scores,
    "bert-differences": bert_differences,
    "bert-gaps": bert_gaps,
    "bert-accuracy": bert_accuracy,
    "bert-other-probes": bert_other_probes,
    "masked-model": masked_model,
    "elmo": elmo_scores,
    "elmo-differences": elmo_differences,
    "elmo-gaps": elmo_gaps,
    "elmo-directions": elmo_directions,
    "audit": audit_table,
    "catalog-models": catalog_models,
    "catalog": catalog_table,
    "catalog-changes": catalog_changes,
}


def filled(page: str, kept: Row) -> str:
    """The page with its tables computed from the results."""

    def write(found: re.Match[str]) -> str:
        name, _, argument = found[1].partition(" ")
        return f"<!-- table {found[1]} -->\n{TABLES[name](kept, argument)}\n<!-- end -->"

    return re.sub(r"<!-- table ([^>]+) -->.*?<!-- end -->", write, page, flags=re.DOTALL)


def skeleton(kept: Row) -> str:
    """A page of tables alone, for the first results."""
    names = [f"{name} {data}" for data in kept.get("bert", {}) for name in TABLES if name.startswith("bert-")]
    names += ["masked-model"] if "mlm" in kept else []
    names += [name for name in TABLES if name.startswith("elmo")] if "elmo" in kept else []
    names += [f"{name} {model}" for model in kept.get("catalog", {}) for name in ("catalog", "catalog-changes")]
    names += [f"audit {subject}" for subject in dict.fromkeys(row["subject"] for row in kept.get("audits", []))]
    return "# Encoders\n\n" + "\n\n".join(f"<!-- table {name} -->\n<!-- end -->" for name in names) + "\n"


def kept_results() -> Row:
    """What is in the two files of results."""
    kept: Row = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return {**kept, "elmo": json.loads(KEPT_ELMO.read_text())} if KEPT_ELMO.exists() else kept


def main(given: argparse.Namespace) -> None:
    """Merge what is given, then fill the tables."""
    kept = merged(kept_results(), given)
    others = {name: part for name, part in kept.items() if name != "elmo"}
    if others:
        KEPT.write_text(json.dumps(others, separators=(",", ":")).replace('{"condition"', '\n{"condition"') + "\n")
    if given.elmo:
        KEPT_ELMO.write_text(given.elmo.read_text())
    PAGE.write_text(filled(PAGE.read_text() if PAGE.exists() else skeleton(kept), kept))


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bert", type=Path, nargs="+", default=[])
    parser.add_argument("--mlm", type=Path)
    parser.add_argument("--elmo", type=Path)
    parser.add_argument("--audit", type=Path, nargs="+", default=[])
    parser.add_argument("--catalog", type=Path, nargs="+", default=[])
    return parser.parse_args(given)


if __name__ == "__main__":
    main(arguments())
