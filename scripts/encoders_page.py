"""Keep the results on encoders beside the page that shows them, and fill the tables of the page.

    python scripts/encoders_page.py [--bert NLI_JSON...] [--mlm MLM_JSON] [--elmo ELMO_JSON] [--bilm BILM_JSON]
                                    [--audit FOLDER...] [--catalog MODEL_JSON...]

NLI_JSON and MLM_JSON are of scripts/bert_experiment.py, ELMO_JSON is of scripts/elmo_experiment.py, BILM_JSON of
scripts/elmo_bilm.py, a FOLDER is that of `evenhand audit`, MODEL_JSON is of scripts/catalog_audits.py, with its stages
beside it. What is given replaces what reproductions/encoders.json has of the same kind; ELMO_JSON and BILM_JSON replace
elmo.json and bilm.json there. Then every table between `<!-- table NAME -->` and `<!-- end -->` in
reproductions/encoders.md is written anew from them.
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
PAGE, KEPT = PAGES / "encoders.md", PAGES / "encoders.json"
APART = {"elmo": PAGES / "elmo.json", "bilm": PAGES / "bilm.json"}
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
# The same of ELMo, by probe and by what was removed where: tables 1, 11 and 13; 3 and 14; 5 and 14.
DEV_ELMO: dict[str, dict[str, tuple[float, ...]]] = {
    PROBE: {
        "none": (0.417, 0.391, 0.303, 0.063),
        "he-she layers": (0.423, 0.419, 0.363, 0.079),
        "random layers": (0.428, 0.412, 0.372, 0.115),
        "he-she embeddings": (0.488, 0.502, 0.479, 0.364),
        "random embeddings": (0.414, 0.402, 0.309, 0.062),
    },
    "nationality-polarity": {
        "none": (0.698, 0.776, 0.757, 0.597),
        "demonyms embeddings": (0.624, 0.745, 0.697, 0.484),
    },
    "religion-polarity": {
        "none": (0.635, 0.651, 0.700, 0.524),
        "adherents embeddings": (0.551, 0.572, 0.590, 0.391),
    },
}
# SNLI dev and test: table 16.
DEV_ELMO_ACCURACY = {
    "none": (0.8903, 0.8837),
    "he-she layers": (0.8836, 0.8742),
    "he-she embeddings": (0.8877, 0.8804),
    "demonyms embeddings": (0.8901, 0.8799),
    "adherents embeddings": (0.8904, 0.8830),
}
# Singular values 2 to 4 of a list, relative to the first, and the cosine with what is removed: table 12.
DEV_ELMO_DIRECTIONS = {
    "embeddings": (0.46, 0.32, 0.29, 0.60),
    "embeddings demonyms": (0.72, 0.61, 0.59, 0.67),
    "embeddings adherents": (0.63, 0.61, 0.58, 0.41),
}
ELMO_SITES = {
    "embeddings": "gendered pairs, token vectors",
    "layer:1": "gendered pairs, first biLSTM layer",
    "layer:2": "gendered pairs, second biLSTM layer",
    "embeddings demonyms": "demonyms, token vectors",
    "embeddings adherents": "adherents, token vectors",
}
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
FIRST_BODY = "all-minilm-l6-v2"  # its runs are kept under the name of the data alone
GAP = "gap of entailment"
SPREAD = "spread of entailment over groups"
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


def differences(found: Sequence[tuple[str, str, list[float]]], published: Sequence[float | None] | None = None) -> str:
    """A table of paired differences by title and score; p-values are Holm-adjusted over it."""
    p_values = [p_value(changes) for *_, changes in found]
    rows = []
    for number, ((title, name, changes), p, corrected) in enumerate(zip(found, p_values, holm(p_values), strict=True)):
        centre = f"{statistics.fmean(changes):+.3f}"
        row = [title, name, centre, interval(changes), f"{p:.3f}", f"{corrected:.3f}", str(len(changes))]
        if published is not None:
            row.append(f"{value:+.3f}" if (value := published[number]) is not None else "")
        rows.append(row)
    heads = ("difference", "score", "mean", "95 % interval", "p", "p, Holm", "pairs")
    return table((*heads, "published") if published is not None else heads, rows)


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


def elmo_scores(kept: Row, probe: str) -> str:
    """The four scores of NLI models over ELMo, published and ours."""

    def rows() -> Iterator[list[str]]:
        published = DEV_ELMO[probe]
        for trained, tested in dict.fromkeys([*((name, name) for name in published), *elmo_conditions(kept, probe)]):
            title = elmo_title(trained, tested)
            if trained == tested and tested in published:
                yield [title, "published", *(f"{value:.3f}" for value in published[tested]), "1"]
            found = [run["probes"][probe] for run in elmo_runs(kept, trained, tested).values()]
            if found:
                yield [title, "ours", *(mean(map(score, found)) for score in SCORES.values()), str(len(found))]

    return table(("removed", "model", *SCORES, "models"), rows())


def elmo_conditions(kept: Row, probe: str) -> list[tuple[str, str]]:
    """What models over ELMo were trained and tested with, of those that answered a probe."""
    runs = [run for run in kept.get("elmo", {}).get("rows", []) if probe in run["probes"]]
    return list(dict.fromkeys((run["trained"], run["tested"]) for run in runs))


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
        for condition in elmo_conditions(kept, PROBE):
            found = [run["probes"][PROBE] for run in elmo_runs(kept, *condition).values()]
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


def elmo_groups(kept: Row, probe: str) -> str:
    """How differently the groups of a probe are answered: means over models of what each says of each group."""

    def rows() -> Iterator[list[str]]:
        for condition in elmo_conditions(kept, probe):
            found = [run["probes"][probe]["groups"] for run in elmo_runs(kept, *condition).values()]
            by_group = {name: statistics.fmean(groups[name]["entailment"] for groups in found) for name in found[0]}
            ends = [
                f"{name} {by_group[name]:.2f}"
                for name in (min(by_group, key=by_group.__getitem__), max(by_group, key=by_group.__getitem__))
            ]
            cells = [
                mean(statistics.fmean(g[label] for g in groups.values()) for groups in found)
                for label in ("entailment", "contradiction")
            ]
            yield [elmo_title(*condition), *cells, mean(map(spread, found)), *ends, str(len(found))]

    heads = ("removed", "entailed", "contradicted", "spread", "least entailed", "most entailed", "models")
    return table(heads, rows())


def spread(groups: Row) -> float:
    """The standard deviation over groups of the mean probability of entailment."""
    return statistics.pstdev(group["entailment"] for group in groups.values())


def elmo_differences(kept: Row, probe: str) -> str:
    """Differences of conditions over ELMo, seed by seed, beside the published ones."""
    published, known = DEV_ELMO[probe], elmo_conditions(kept, probe)
    none = ("none", "none")
    pairs = [(condition, none) for condition in known if condition != none]
    for place in ("embeddings", "layers"):
        control = (f"random {place}",) * 2
        pairs += [((name, name), control) for name in published if name.endswith(place) and name != control[0]]
    found, theirs = [], list[float | None]()
    for condition, base in pairs:
        after, before = elmo_runs(kept, *condition), elmo_runs(kept, *base)
        seeds = sorted(after.keys() & before.keys())
        if len(seeds) < 2:
            continue
        title = f"{elmo_title(*condition)} − {elmo_title(*base)}"
        alike = condition[0] == condition[1] and condition[0] in published and base[0] in published
        between: Callable[[Row], float] = gap_size if probe == PROBE else lambda one: spread(one["groups"])
        named = f"size of the {GAP}" if probe == PROBE else SPREAD
        for place, (name, score) in enumerate({**SCORES, named: between}.items()):
            values = [[score(runs[seed]["probes"][probe]) for seed in seeds] for runs in (after, before)]
            found.append((title, name, [a - b for a, b in zip(*values, strict=True)]))
            compared = alike and name in SCORES
            theirs.append(published[condition[0]][place] - published[base[0]][place] if compared else None)
        tests = [after[seed]["test"]["accuracy"] - before[seed]["test"]["accuracy"] for seed in seeds]
        found.append((title, "SNLI test", tests))
        accuracies = [DEV_ELMO_ACCURACY.get(name) for name in (condition[0], base[0])]
        compared = alike and all(accuracies)
        theirs.append(accuracies[0][1] - accuracies[1][1] if compared else None)  # type: ignore[index]
    return differences(found, theirs)


def elmo_accuracy(kept: Row, _: str) -> str:
    """Accuracy on SNLI, published and ours."""
    dev: dict[str, list[float]] = {}
    for member in kept.get("elmo", {}).get("training", {}).get("members", []):
        dev.setdefault(member["trained"], []).append(member["dev"])

    def rows() -> Iterator[list[str]]:
        for condition, values in dev.items():
            tests = [run["test"]["accuracy"] for run in elmo_runs(kept, condition, condition).values()]
            theirs = [f"{value:.3f}" for value in DEV_ELMO_ACCURACY.get(condition, ())] or ["", ""]
            yield [condition, mean(values), theirs[0], mean(tests), theirs[1], str(len(tests))]

    return table(("removed", "SNLI dev", "published", "SNLI test", "published", "models"), rows())


def elmo_accuracy_differences(kept: Row, _: str) -> str:
    """What each projection does to the accuracy on SNLI, seed by seed, beside the published change."""
    parts: dict[str, dict[str, dict[int, float]]] = {"SNLI dev": {}, "SNLI test": {}}
    for member in kept.get("elmo", {}).get("training", {}).get("members", []):
        parts["SNLI dev"].setdefault(member["trained"], {})[member["seed"]] = member["dev"]
    for condition in parts["SNLI dev"]:
        runs = elmo_runs(kept, condition, condition)
        parts["SNLI test"][condition] = {seed: run["test"]["accuracy"] for seed, run in runs.items()}
    found, theirs = [], list[float | None]()
    for condition in [name for name in parts["SNLI dev"] if name != "none"]:
        known = DEV_ELMO_ACCURACY.get(condition)
        for place, (part, by_condition) in enumerate(parts.items()):
            after, before = by_condition[condition], by_condition["none"]
            changes = [after[seed] - before[seed] for seed in sorted(after.keys() & before.keys())]
            found.append((f"{condition} − none", part, changes))
            theirs.append(known[place] - DEV_ELMO_ACCURACY["none"][place] if known else None)
    return differences(found, theirs)


def elmo_directions(kept: Row, _: str) -> str:
    """How much of a list is one direction, and whether what is removed is that one."""
    found = kept.get("elmo", {}).get("directions", {}).get("stability", {})
    rows = []
    for site, title in ELMO_SITES.items():
        if site in DEV_ELMO_DIRECTIONS:
            rows.append([title, "published", *(f"{value:.2f}" for value in DEV_ELMO_DIRECTIONS[site])])
        if one := found.get(site):
            rows.append([title, "ours", *(f"{value:.2f}" for value in (*one["ratios"][:3], one["cosine"]))])
    return table(("list and site", "model", "2nd", "3rd", "4th", "cosine"), rows)


def bilm_training(kept: Row, _: str) -> str:
    """The biLM while it was trained: perplexities, and the cosine of he - she with the gendered pairs by layer."""

    def rows() -> Iterator[list[str]]:
        for line in kept.get("bilm", {}).get("log", []):
            if "rate" in line or line.get("what") in ("start", "packed"):
                softmax = "CNN" if line["tie"] else "free"
                texts = [f"{line['perplexity'][f'valid-{name}']:,.0f}" for name in ("wikitext", "ptb", "snli")]
                cosines = [f"{line['directions'][layer]['cosine']:.2f}" for layer in ("0", "1", "2")]
                tokens = f"{line['tokens'] / 1e6:.0f}"
                yield [line.get("what", ""), softmax, f"{line['seconds']:.0f}", tokens, *texts, *cosines]

    heads = ("line", "softmax", "seconds", "million tokens", "WikiText-2", "PTB", "SNLI dev")
    return table((*heads, "cosine, tokens", "layer 1", "layer 2"), rows())


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
        body, data = new["about"]["body"]["name"], new["runs"][0]["data"]
        key = data if body == FIRST_BODY else f"{body} {data}"
        result["bert"] = {**result.get("bert", {}), key: rounded(new)}
    if given.mlm:
        result["mlm"] = rounded(json.loads(given.mlm.read_text()))
    for name, path in (("elmo", given.elmo), ("bilm", given.bilm)):
        if path:
            result[name] = json.loads(path.read_text())
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
    "elmo-groups": elmo_groups,
    "elmo-accuracy": elmo_accuracy,
    "elmo-accuracy-differences": elmo_accuracy_differences,
    "elmo-directions": elmo_directions,
    "bilm-training": bilm_training,
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
    if "elmo" in kept:
        by_probe = ("elmo", "elmo-groups", "elmo-differences")
        names += [f"{name} {probe}" for probe in DEV_ELMO for name in by_probe]
        names += ["elmo-gaps", "elmo-accuracy", "elmo-accuracy-differences", "elmo-directions"]
    names += ["bilm-training"] if "bilm" in kept else []
    names += [f"{name} {model}" for model in kept.get("catalog", {}) for name in ("catalog", "catalog-changes")]
    names += [f"audit {subject}" for subject in dict.fromkeys(row["subject"] for row in kept.get("audits", []))]
    return "# Encoders\n\n" + "\n\n".join(f"<!-- table {name} -->\n<!-- end -->" for name in names) + "\n"


def kept_results() -> Row:
    """What is in the files of results."""
    kept: Row = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return {**kept, **{name: json.loads(path.read_text()) for name, path in APART.items() if path.exists()}}


def main(given: argparse.Namespace) -> None:
    """Merge what is given, then fill the tables."""
    kept = merged(kept_results(), given)
    others = {name: part for name, part in kept.items() if name not in APART}
    if others:
        KEPT.write_text(json.dumps(others, separators=(",", ":")).replace('{"condition"', '\n{"condition"') + "\n")
    for name, path in APART.items():
        if source := getattr(given, name):
            path.write_text(source.read_text())
    PAGE.write_text(filled(PAGE.read_text() if PAGE.exists() else skeleton(kept), kept))


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bert", type=Path, nargs="+", default=[])
    parser.add_argument("--mlm", type=Path)
    parser.add_argument("--elmo", type=Path)
    parser.add_argument("--bilm", type=Path)
    parser.add_argument("--audit", type=Path, nargs="+", default=[])
    parser.add_argument("--catalog", type=Path, nargs="+", default=[])
    return parser.parse_args(given)


if __name__ == "__main__":
    main(arguments())
