"""Write the recorded results that `evenhand reproduce` shows, from those in reproductions/.

    python scripts/reproduce_recorded.py [--compute [ID ...]]

Reads reproductions/*.json and writes src/evenhand/reproduce/data/recorded.json: for every table of the papers that
needs training or a fetched text, our numbers by row and column (mean, standard deviation and number of models, or value
and interval), where they come from, and the command that makes them again. Also fills the list of all tables in
reproductions/README.md and table 17 in dev2019.md. tests/docs/test_recorded.py
fails if the two do not agree. With --compute, the tables that need no training are computed first, into
reproductions/computed.json: all of them (some minutes), or those that are named. Those of Bordia & Bowman need
WikiText-2 and CNN/Daily Mail on this disk, table 3 of Dawkins the sets of similarities and analogies.
"""

import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import evenhand
from evenhand.data import locate
from evenhand.errors import counted
from evenhand.measures.inference.scores import error, gender_gap
from evenhand.reproduce import beside, comparison, published
from evenhand.reproduce.bordia2019 import CORPORA, FILES, SUBSET
from evenhand.reproduce.comparison import Estimate, Key, estimates
from evenhand.reproduce.inputs import PaperInputs
from evenhand.reproduce.markdown import counts

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "reproductions"
TARGET = ROOT / "src" / "evenhand" / "reproduce" / "data" / "recorded.json"
Row = dict[str, Any]
Runs = dict[Key, dict[str, float]]
GENDER, NATIONALITY, RELIGION = "gender-occupation", "nationality-polarity", "religion-polarity"
SCORES: dict[str, Callable[[Row], float]] = {
    "NN": lambda found: float(found["net_neutral"]),
    "FN": lambda found: float(found["fraction_neutral"]),
    "T:0.5": lambda found: float(found["threshold"]["0.5"]),
    "T:0.7": lambda found: float(found["threshold"]["0.7"]),
}
ARCHITECTURES = {"decomposable": "decomposable attention over GloVe 6B", "bilstm": "BiLSTM over GloVe 6B"}
BERT_CONDITIONS = {
    "none": "no projection",
    "he-she@test": "he-she at test",
    "random@test": "random at test",
    "he-she": "he-she in training and test",
    "random": "random in training and test",
}
DAWKINS = {
    "original": "GloVe",
    "hard": "GloVe.HD",
    "gn-glove": "GN-GloVe",
    "gn-glove-wa": "GN-GloVe(wa)",
    "double-hard": "GloVe.DHD",
    "gp": "GloVe.GP",
    "bam": "GloVe.BAM",
    "oscar": "GloVe.OSCaR",
    "ran": "GloVe.RAN",
    "inlp": "GloVe.INLP",
}
LABELS = ("neutral", "entailment", "contradiction")
# Tables that the command computes from what comes with the package or can be fetched, and that no training changes.
COMPUTED = (
    *(f"dev2019/table-{number}" for number in (2, 4, 6, 7)),
    *(f"bordia2019/table-{number}" for number in (5, 6, 7, 8)),
    "dawkins2021/table-3",
    "dawkins2021/table-5",
    "ethayarajh2019/table-1",
    "ethayarajh2019/figure-1",
)
SIMILARITY = {
    "Google": "analogy:google-analogies",
    "MSR": "analogy:msr-analogies",
    "RG": "similarity:rg-65",
    "MTurk": "similarity:mturk-287",
    "MEN": "similarity:men",
    "SL999": "similarity:simlex-999",
}


def kept(name: str) -> Any:
    """What a file of results has."""
    return json.loads((PAGES / name).read_text(encoding="utf-8"))


def series(id: str, name: str, runs: Runs, manifest: Row, notes: Iterable[str] = ()) -> Row:
    """One series of a table, from values by run."""
    return given(id, name, estimates(published.item(id), {key: runs[key] for key in runs}), manifest, notes)


def given(id: str, name: str, values: dict[Key, Estimate], manifest: Row, notes: Iterable[str] = ()) -> Row:
    """One series of a table, from estimates; rows and columns in the order of the paper."""
    order = {key: place for place, key in enumerate(published.item(id).published())}
    rows = []
    for row, column in sorted(values, key=lambda key: order.get(key, len(order))):
        one = values[row, column]
        entry = [row, column, rounded(one.value), rounded(one.sd), one.n]
        rows.append([*entry, *map(rounded, one.given)] if one.given else entry)
    if not rows:
        raise ValueError(f"{id}: {name} has no numbers")
    return {"name": name, "values": rows, "manifest": manifest, "notes": list(notes)}


def made(about: Row) -> Row:
    """When and with which version: the date of the run, or that of the commit of its results where a run kept none."""
    date = {"date": about["created"]} if "created" in about else {"date": about["committed"], "date_of": "commit"}
    return {**date, "evenhand": about["evenhand"]}


def rounded(value: float | None) -> float | None:
    """Six significant digits: more than any paper prints."""
    return None if value is None else float(f"{value:.6g}")


def nli(results: dict[str, list[Row]]) -> None:
    """Models over GloVe: Dev 1, 3, 5, 8, 9, 10 and 17, Dawkins 1, 2 and 4."""
    content = kept("nli.json")
    for architecture, shown in ARCHITECTURES.items():
        runs = [run for run in content["runs"] if run["architecture"] == architecture]
        about = content["manifests"][architecture]
        manifest = {
            "file": "reproductions/nli.json",
            **made(about),
            "seeds": sorted({run["seed"] for run in runs}),
            "device": about["gpu"],
            "sha256": {
                "vectors": about["input"]["vectors"]["sha256"],
                **{name: about["input"]["files"][name] for name in ("train.jsonl.gz", "dev.jsonl", "test.jsonl")},
            },
            "command": "python scripts/nli_conditions.py, then nli_experiment.py and nli_pages.py; "
            f"or `evenhand nli train --architecture {architecture}` and `evenhand probe`",
        }
        difference = (
            "GloVe 6B, 100 dimensions, and 125,206 pairs of SNLI; the paper: GloVe 840B, 300 dimensions, 549,367."
        )

        def neutrality(conditions: dict[str, str], probe: str, runs: list[Row] = runs) -> Runs:
            return {
                (row, name): {run_name(run): score(run[probe]) for run in chosen(runs, condition) if probe in run}
                for row, condition in conditions.items()
                for name, score in SCORES.items()
            }

        def add(id: str, values: Runs, notes: Iterable[str], shown: str = shown, manifest: Row = manifest) -> None:
            results.setdefault(id, []).append(series(id, shown, values, manifest, notes))

        add("dev2019/table-1", neutrality({"GloVe": "original"}, GENDER), [difference])
        add("dev2019/table-3", neutrality({"GloVe": "original"}, NATIONALITY), [difference])
        add("dev2019/table-5", neutrality({"GloVe": "original"}, RELIGION), [difference])
        three = {"original": "original", "projected": "linear", "random": "random"}
        add("dev2019/table-8", neutrality(three, GENDER), [difference])
        both = {
            **neutrality({"nationality original": "original", "nationality projected": "nationality"}, NATIONALITY),
            **neutrality({"religion original": "original", "religion projected": "religion"}, RELIGION),
        }
        add("dev2019/table-9", both, [difference])
        conditions = {"original": "original", "gender": "linear", "nationality": "nationality", "religion": "religion"}
        add("dev2019/table-10", accuracies(runs, conditions), [difference])
        best = {"GloVe original": "original", "GloVe": "linear"}
        add("dev2019/table-17", {**neutrality(best, GENDER), **accuracies(runs, best)}, [difference])
    decomposable = [run for run in content["runs"] if run["architecture"] == "decomposable"]
    first = results["dev2019/table-1"][0]
    lists = (
        "Names and occupations are reconstructions, since the paper's lists are not released; GN-GloVe is of enwik8."
    )
    for id, probe in (("table-1", "mab-explicit"), ("table-2", "mab-occupations"), ("table-4", "mab-names")):
        values: Runs = {}
        for condition, row in DAWKINS.items():
            for run in chosen(decomposable, condition):
                for column, value in marked(run[probe], explicit=probe == "mab-explicit").items():
                    values.setdefault((row, column), {})[run_name(run)] = value
        entry = series(
            f"dawkins2021/{id}", ARCHITECTURES["decomposable"], values, first["manifest"], [difference, lists]
        )
        results.setdefault(f"dawkins2021/{id}", []).append(entry)


def accuracies(runs: list[Row], conditions: dict[str, str]) -> Runs:
    """Accuracy on SNLI in per cent."""
    return {
        (row, part): {run_name(run): 100 * run[part] for run in chosen(runs, condition)}
        for row, condition in conditions.items()
        for part in ("dev", "test")
    }


def marked(found: Row, *, explicit: bool) -> dict[str, float]:
    """Mean answers for both groups, their distance and error, and for the explicit words those of the pronouns."""
    groups = found["groups"]
    values = {
        f"{short} {label}": groups[name][label] for short, name in (("M", "male"), ("F", "female")) for label in LABELS
    }
    values["d"] = found["marked"]["distance"]
    if not explicit:
        return {**values, "p": found["marked"]["p_value"]}
    values["E"] = found["marked"]["error"]
    values["M - F entailment"] = groups["male"]["entailment"] - groups["female"]["entailment"]
    values |= {f"{name} {label}": groups[name][label] for name in ("he", "she") for label in LABELS}
    he, she = (
        np.array([groups[name][label] for label in ("entailment", "neutral", "contradiction")])
        for name in ("he", "she")
    )
    return {**values, "pronouns d": float(gender_gap(he, she)), "pronouns E": float(error(he, she))}


def run_name(run: Row) -> str:
    """The seed, and the random direction if there is one."""
    condition = str(run.get("condition", ""))
    return f"{run['seed']}/{condition}" if condition.startswith("random-") else str(run["seed"])


def chosen(runs: Iterable[Row], condition: str) -> list[Row]:
    """The runs of a condition; all random directions are one."""
    return [run for run in runs if re.sub(r"^random-\d$", "random", run["condition"]) == condition]


def elmo(results: dict[str, list[Row]]) -> None:
    """Models over our biLM: Dev 1, 3, 5, 11 to 14, 16 and 17."""
    content = kept("elmo.json")
    about = content["manifest"]
    name = f"ELMo: a biLM of {content['bilm']['weights'] / 1e6:.1f} million weights"
    manifest = {
        "file": "reproductions/elmo.json",
        **made(about),
        "seeds": about["seeds"],
        "device": about["gpu"],
        "sha256": {part: about["input"]["sha256"][part] for part in ("snli.jsonl.gz", "dev.jsonl", "test.jsonl")},
        "command": "python scripts/elmo_texts.py, then elmo_bilm.py, elmo_experiment.py and encoders_page.py --elmo",
    }
    cosine = content["directions"]["stability"]["embeddings"]["cosine"]
    weak = (
        f"The token vectors of this biLM have no direction of gender (cosine {cosine:.2f}, published .60): removing "
        "he-she from them is no test of the paper's claim."
    )
    size = (
        "2 x 2,048 cells, 23 million tokens of text, 124,818 pairs; the paper: 2 x 4,096 cells, 800 million, 549,367."
    )
    rows = [run for run in content["rows"] if run["trained"] == run["tested"]]

    def neutrality(conditions: dict[str, str], probe: str) -> Runs:
        return {
            (row, column): {
                str(run["seed"]): score(run["probes"][probe])
                for run in rows
                if run["trained"] == condition and probe in run["probes"]
            }
            for row, condition in conditions.items()
            for column, score in SCORES.items()
        }

    def accuracy(conditions: dict[str, str]) -> Runs:
        values: Runs = {}
        for row, condition in conditions.items():
            members = [one for one in content["training"]["members"] if one["trained"] == condition]
            values[row, "dev"] = {str(one["seed"]): 100 * one["dev"] for one in members}
            tested = [run for run in rows if run["trained"] == condition]
            values[row, "test"] = {str(run["seed"]): 100 * run["test"]["accuracy"] for run in tested}
        return values

    def add(id: str, values: Runs, *notes: str) -> None:
        results.setdefault(f"dev2019/{id}", []).append(series(f"dev2019/{id}", name, values, manifest, [size, *notes]))

    add("table-1", neutrality({"ELMo": "none"}, GENDER))
    add("table-3", neutrality({"ELMo": "none"}, NATIONALITY))
    add("table-5", neutrality({"ELMo": "none"}, RELIGION))
    add("table-11", neutrality({"original": "none", "projected": "he-she layers", "random": "random layers"}, GENDER))
    first = {"original": "none", "projected": "he-she embeddings", "random": "random embeddings"}
    add("table-13", neutrality(first, GENDER), weak)
    nations = {"nationality original": "none", "nationality projected": "demonyms embeddings"}
    faiths = {"religion original": "none", "religion projected": "adherents embeddings"}
    add("table-14", {**neutrality(nations, NATIONALITY), **neutrality(faiths, RELIGION)})
    removed = {
        "original": "none",
        "gender, all layers": "he-she layers",
        "gender, first layer": "he-she embeddings",
        "nationality": "demonyms embeddings",
        "religion": "adherents embeddings",
    }
    add("table-16", accuracy(removed))
    best = {"ELMo original": "none", "ELMo": "he-she embeddings"}
    add("table-17", {**neutrality(best, GENDER), **accuracy(best)}, weak)
    stability = content["directions"]["stability"]
    lists = {"Gendered": "embeddings", "Demonyms": "embeddings demonyms", "Adherents": "embeddings adherents"}
    values = {
        (row, column): Estimate(value)
        for row, site in lists.items()
        for column, value in zip(
            ("2nd", "3rd", "4th", "cosine"), (*stability[site]["ratios"][:3], stability[site]["cosine"]), strict=True
        )
    }
    layers = "; ".join(
        f"layer {layer}: {stability[f'layer:{layer}']['cosine']:.2f} with the first component, "
        f"{min(pairs):.2f} to {max(pairs):.2f} with man-woman, himself-herself and his-her"
        for layer in (1, 2)
        for pairs in [
            [stability[f"layer:{layer}"]["with_pairs"][pair] for pair in ("man-woman", "himself-herself", "his-her")]
        ]
    )
    notes = [f"he-she in the layers above the token vectors: {layers}."]
    of_bilm = {**manifest, "seeds": [0], "sha256": {"biLM": kept("bilm.json")["weights_sha256"]["weights.json"]}}
    results["dev2019/table-12"] = [given("dev2019/table-12", name, values, of_bilm, notes)]


def bert(results: dict[str, list[Row]]) -> None:
    """Fine-tuned encoders: Dev 1, 15 and 17, one series for each body and set of pairs."""
    for content in kept("encoders.json")["bert"].values():
        about, runs = content["about"], content["runs"]
        pairs = about["pairs"]["train"]
        name = f"{about['body']['name']}, {pairs['pairs']:,} pairs"
        manifest = {
            "file": "reproductions/encoders.json",
            **made(about),
            "seeds": sorted({run["seed"] for run in runs}),
            "device": about["device"],
            "sha256": {"train": pairs["sha256"], "body": about["body"]["sha256_of_original"]},
            "command": "python scripts/bert_carry.py, then bert_experiment.py and encoders_page.py --bert",
        }
        notes = [
            f"{counted(about['settings']['epochs'], 'epoch')}; the paper: bert-base-uncased, 549,367 pairs, 3 epochs."
        ]

        def neutrality(conditions: dict[str, str], runs: list[Row] = runs) -> Runs:
            return {
                (row, column): {
                    str(run["seed"]): score(run[GENDER]) for run in chosen(runs, condition) if GENDER in run
                }
                for condition, row in conditions.items()
                for column, score in SCORES.items()
            }

        def accuracy(conditions: dict[str, str], runs: list[Row] = runs) -> Runs:
            values: Runs = {}
            for condition, row in conditions.items():
                found = chosen(runs, condition)
                values[row, "dev"] = {
                    str(run["seed"]): 100 * run["training"]["dev_accuracy"] for run in found if "training" in run
                }
                values[row, "test"] = {str(run["seed"]): 100 * run["test"] for run in found if "test" in run}
            return values

        best = {"none": "BERT original", "he-she": "BERT"}
        for id, values in (
            ("table-1", neutrality({"none": "BERT"})),
            ("table-15", neutrality(BERT_CONDITIONS)),
            ("table-17", {**neutrality(best), **accuracy(best)}),
        ):
            results.setdefault(f"dev2019/{id}", []).append(series(f"dev2019/{id}", name, values, manifest, notes))


def bordia(results: dict[str, list[Row]]) -> None:
    """Language models with and without the penalty: Bordia 1 to 3."""
    content = kept("bordia2019.json")
    for id, corpus in (("table-1", "ptb"), ("table-2", "wikitext-2"), ("table-3", "cnn-dailymail")):
        for experiment, definition in (("first", "printed"), ("second", "released")):
            about = content["experiments"][experiment]
            wanted = ("none", definition)
            runs = [
                run for run in content["runs"]
                if (run["experiment"], run["corpus"]) == (experiment, corpus) and run["definition"] in wanted
            ]  # fmt: skip
            epochs = sorted({run["epochs"] for run in runs})
            values: Runs = {}
            for run in runs:
                row = "0.0" if run["strength"] == 0 else f"{run['strength']:g}"
                for column, value in text_scores(run):
                    values.setdefault((row, column), {})[str(run["seed"])] = value
                if row == "0.0":
                    for context in ("fixed", "infinite"):
                        for mark, name in (("μ", "mu"), ("σ", "sigma")):
                            known = values.setdefault(("training text", f"{context} {mark}"), {})
                            known[str(run["seed"])] = run[context]["first"][name]
            source = about["corpora"][corpus]
            manifest = {
                "file": "reproductions/bordia2019.json",
                **made(about),
                "seeds": sorted({run["seed"] for run in runs}),
                "device": about["device"],
                "sha256": {source["name"]: source["sha256"]},
                "command": "python scripts/lm_experiment.py, then lm_pages.py; or `evenhand lm train --sweep-lambda`",
            }
            shown = f"term as {definition}, {epochs[0]}" + (f" to {epochs[-1]}" if len(epochs) > 1 else "") + " epochs"
            notes = ["The paper trains for 750 epochs (500 for CNN/Daily Mail)."]
            if corpus == "cnn-dailymail":
                notes.append("Ours is a subset: 800 articles to train on.")
            results.setdefault(f"bordia2019/{id}", []).append(
                series(f"bordia2019/{id}", shown, values, manifest, notes)
            )


def text_scores(run: Row) -> Iterator[tuple[str, float]]:
    """The scores of what a model wrote, and its perplexity."""
    for context in ("fixed", "infinite"):
        for mark, name in (("μ", "mu"), ("σ", "sigma"), ("β", "beta")):
            yield f"{context} {mark}", run[context][name]["value"]
    yield "perplexity", run["test_perplexity"]


def dawkins_vectors(results: dict[str, list[Row]]) -> None:
    """Quality of vectors and intrinsic measures: Dawkins 3 and 6."""
    about = kept("intrinsic.json")["GloVe 6B 100-d"]
    values = {}
    for column, label in SIMILARITY.items():
        row = about["rows"][label]
        low, high = row["interval"]
        values["GloVe", column] = Estimate(100 * row["value"], given=(100 * low, 100 * high))
    notes = ["GloVe 6B, 100 dimensions; the paper: 300 dimensions. MISP was not applied to these vectors here."]
    manifest = vector_manifest(about["manifest"], "intrinsic.json", "python scripts/intrinsic_page.py")
    results["dawkins2021/table-3"] = [given("dawkins2021/table-3", "GloVe 6B 100-d", values, manifest, notes)]
    content = kept("methods.json")
    titles = {"GloVe": "GloVe 6B, 50,000 words, 100 dimensions", "w2v": "GoogleNews, 26,423 words"}
    methods = {condition: row.partition(".")[2] for condition, row in DAWKINS.items() if row.startswith("GloVe.")}
    for base, title in titles.items():
        values = {}
        for method, cells in content[base]["rows"].items():
            row = base if not method else f"{base}.{methods[method]}" if method in methods else ""
            if row in (published.item("dawkins2021/table-6").rows or {}) and "failed" not in cells:
                for column in ("DB", "MIDB", "Clus", "Rec", "SBdef", "SBstereo", "GIPE"):
                    if cells[column] is not None:
                        values[row, column] = Estimate(cells[column])
        manifest = vector_manifest(content[base]["manifest"], "methods.json", "python scripts/methods_page.py")
        entry = given("dawkins2021/table-6", title, values, manifest)
        results.setdefault("dawkins2021/table-6", []).append(entry)


def vector_manifest(about: Row, file: str, command: str) -> Row:
    """Where numbers about vectors come from."""
    subject = about["subjects"][0]
    return {
        "file": f"reproductions/{file}",
        **made(about),
        "seeds": [about["arguments"]["effective"].get("seed", 0)],
        "device": "cpu",
        "sha256": {"vectors": subject["sha256"]},
        "command": command,
    }


def genderedness(results: dict[str, list[Row]]) -> None:
    """Text and vectors: Ethayarajh 2."""
    for corpus, content in kept("ethayarajh2019.json").items():
        values = {}
        for cells in content["table"]["rows"]:
            word = "mean" if cells["word"].startswith("mean of") else cells["word"]
            row = f"{cells['group']}: {word}"
            for column, name in (("corpus", "corpus"), ("embedding", "vectors"), ("change", "change")):
                if cells[name] is not None:
                    bounds = re.findall(r"-?[\d.]+", cells["interval"] or "") if name == "change" else []
                    interval = (float(bounds[0]), float(bounds[1])) if bounds else None
                    values[row, column] = Estimate(cells[name], given=interval)
        about = content["manifest"]
        manifest = {
            "file": "reproductions/ethayarajh2019.json",
            **made(about),
            "seeds": [0],
            "device": "cpu",
            "sha256": {"vectors": about["vectors"]["sha256"]},
            "command": f"evenhand reproduce ethayarajh2019/table-2 --corpus {corpus}",
        }
        notes = ["SGNS vectors of this text; the paper: all of Wikipedia. Word lists stand in for unreleased ones."]
        entry = given("ethayarajh2019/table-2", f"SGNS on {corpus}", values, manifest, notes)
        results.setdefault("ethayarajh2019/table-2", []).append(entry)


def compute(ids: Iterable[str]) -> None:
    """Write tables that need no training to reproductions/computed.json, beside those that are there."""
    path, inputs = PAGES / "computed.json", PaperInputs()
    items = kept("computed.json") if path.exists() else {}
    for id in ids:
        found = beside(id, inputs)
        if found.missing:
            raise SystemExit(f"{id}: {found.missing[0]}")
        (one,) = (one for one in found.series if not one.recorded)
        manifest = {
            "file": "reproductions/computed.json",
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "evenhand": evenhand.__version__,
            "seeds": [0, 1, 2] if one.name == "the embedded models" else [0],
            "device": "cpu",
            "sha256": computed_from(id),
            "command": f"evenhand reproduce {id}",
        }
        items[id] = given(id, one.name, dict(one.values), manifest, one.notes)
    text = json.dumps({id: items[id] for id in COMPUTED if id in items}, ensure_ascii=False, separators=(",", ":"))
    path.write_text(text.replace('{"name"', '\n{"name"') + "\n", encoding="utf-8")


def computed_from(id: str) -> dict[str, str]:
    """Hashes of the text, the printed table or the embedded vectors that a table is computed from."""
    paper, _, name = id.partition("/")
    if paper == "bordia2019":
        corpus = CORPORA[name]
        path = locate(SUBSET if corpus == "cnn-dailymail" else corpus)
        path = path / FILES.get(corpus, "cnn_dailymail_validation_subset.csv") if path.is_dir() else path
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    if id == "dawkins2021/table-5":
        return {f"{paper}.toml": hashlib.sha256((TARGET.parent / f"{paper}.toml").read_bytes()).hexdigest()}
    card = ROOT / "src" / "evenhand" / "data" / "embedded" / "glove.json"
    return {"embedded vectors": json.loads(card.read_text(encoding="utf-8"))["sha256"]}


def computed(results: dict[str, list[Row]]) -> None:
    """What `compute` wrote."""
    for id, one in kept("computed.json").items():
        results.setdefault(id, []).append(one)


def recorded() -> dict[str, Any]:
    """Everything that is recorded, by table."""
    results: dict[str, list[Row]] = {}
    for part in (nli, elmo, bert, bordia, dawkins_vectors, genderedness, computed):
        part(results)
    return {"schema": 1, "items": {id: results[id] for id in published.items() if id in results}}


def listed() -> str:
    """Every table and figure with its place, for reproductions/README.md."""
    lines = ["| id | shows | ours | agree | holds | where |", "|---|---|---|---|---|---|"]
    for id, one in published.items().items():
        if not one.extra:
            found = beside(id)
            file, _, anchor = one.place.partition("#")
            where = f"[{file}](#{anchor})" if file == "README.md" else f"[{file}]({one.place})"
            lines.append(f"| {id} | {one.shows} | {one.how} | {counts(found)} | {found.verdict} | {where} |")
    return "\n".join(lines)


def best() -> str:
    """Table 17 with our kinds of models, for reproductions/dev2019.md."""
    columns = ("NN", "FN", "T:0.5", "T:0.7", "dev", "test")
    lines = [f"| embedding | model | {' | '.join(columns)} | change of NN | models |", "|---|---|" + "--:|" * 8]
    item = published.item("dev2019/table-17")
    for kind in ("GloVe", "ELMo", "BERT"):
        printed = item.published()
        numbers = [f"{printed[kind, column]:.{2 if column in ('dev', 'test') else 3}f}" for column in columns]
        change = printed[f"{kind} - {kind} original", "NN"]
        lines.append(f"| {kind} | published | {' | '.join(numbers)} | {change:+.3f} | 1 |")
        for one in beside("dev2019/table-17").series:
            if (kind, "NN") in one.values:
                ours = [one.values[kind, column] for column in columns]
                cells = [f"{v.value:.{2 if c in ('dev', 'test') else 3}f}" for c, v in zip(columns, ours, strict=True)]
                moved = one.values[f"{kind} - {kind} original", "NN"]
                low, high = moved.interval or (moved.value, moved.value)
                shown = f"{moved.value:+.3f} [{low:+.3f}, {high:+.3f}]"
                lines.append(f"| {kind} | {one.name} | {' | '.join(cells)} | {shown} | {ours[0].n} |")
    return "\n".join(lines)


PAGE_TABLES = {("README.md", "list"): listed, ("dev2019.md", "best"): best}


def filled(page: str, name: str, table: str) -> str:
    """A page with one table written anew."""
    marks = f"<!-- papers {name} -->", "<!-- end papers -->"
    before, _, rest = page.partition(marks[0])
    return f"{before}{marks[0]}\n{table}\n{marks[1]}{rest.partition(marks[1])[2]}"


def written(content: dict[str, Any]) -> str:
    """The file: one line for each series."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compute"]:
        compute(sys.argv[2:] or COMPUTED)
    TARGET.write_text(written(recorded()), encoding="utf-8")
    comparison._content.cache_clear()  # the pages are written from the new records
    for (file, name), make in PAGE_TABLES.items():
        page = PAGES / file
        page.write_text(filled(page.read_text(encoding="utf-8"), name, make()), encoding="utf-8")
