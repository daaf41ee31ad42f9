"""Score what the language models of lm_experiment.py wrote, and fill the tables of reproductions/bordia2019.md.

    python scripts/lm_pages.py                                  # fill the tables from the kept results
    python scripts/lm_pages.py RUNS --name NAME --data DATA     # score a folder of lm_experiment.py first, and keep it
    python scripts/lm_pages.py --step FILE                      # keep what benchmarks/lm.py printed on that device

The scores are those of `evenhand.corpus.comparison.against_training`; the published numbers, means and deviations are
those of `evenhand.reproduce.bordia2019`. Results are kept in reproductions/bordia2019.json under NAME; what was
kept under it before is replaced. Tables stand between `<!-- table NAME -->` and `<!-- end -->`.
"""

import argparse
import io
import json
import math
import re
import statistics
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evenhand.reproduce.bordia2019 import CONTEXTS, PAIRS, PUBLISHED, STATISTICS, format_value, summary

PAGES = Path(__file__).parents[1] / "reproductions"
KEPT, PAGE = PAGES / "bordia2019.json", PAGES / "bordia2019.md"
SHUFFLES = 20  # labellings for the mean |bias| that chance gives
TERMS = {"none": "–", "printed": "as printed", "released": "as released"}
CORPORA = {"ptb": "PTB", "wikitext-2": "WikiText-2", "cnn-dailymail": "CNN/DM subset"}
NULLS = ("single words shuffled", "permuted between blocks")  # the second is kept for the training texts only
HEAD = ("fixed μ", "σ", "β", "infinite μ", "σ", "β")
Row = dict[str, Any]


class Group(NamedTuple):
    """Runs that differ in their seed only."""

    experiment: str
    corpus: str
    definition: str
    strength: float
    runs: list[Row]

    @property
    def epochs(self) -> str:
        """How far they were trained."""
        found = sorted({run["epochs"] for run in self.runs})
        return f"{found[0]}–{found[-1]}" if len(found) > 1 else str(found[0])

    @property
    def label(self) -> list[str]:
        """The first cells of its row in a table."""
        return [f"{self.strength:g}", TERMS[self.definition], self.epochs, str(len(self.runs))]


def main(given: Any) -> None:
    """Score what is given, then fill the page."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"experiments": {}, "runs": []}
    if given.runs:
        about, rows = scored(given.runs, given.data, given.name)
        others = [row for row in kept["runs"] if row["experiment"] != given.name]
        before = kept["experiments"].get(given.name, {})  # scored again, an experiment is still the same
        kept = {
            **kept,
            "experiments": {**kept["experiments"], given.name: {**before, **about}},
            "runs": [*others, *rows],
        }
    if given.step:
        kept["step"] = json.loads(given.step.read_text())
    text = json.dumps(kept, separators=(",", ":"), ensure_ascii=False)
    KEPT.write_text(text.replace('{"experiment":', '\n{"experiment":') + "\n")
    PAGE.write_text(filled(PAGE.read_text(), kept))


def filled(page: str, kept: Row) -> str:
    """The page with its tables computed from the kept results."""

    def table(found: re.Match[str]) -> str:
        name, _, argument = found[1].partition(" ")
        return f"<!-- table {found[1]} -->\n{TABLES[name](kept, argument)}\n<!-- end -->"

    return re.sub(r"<!-- table ([^>]+) -->.*?<!-- end -->", table, page, flags=re.DOTALL)


def scored(folder: Path, data: Path, name: str) -> tuple[Row, list[Row]]:
    """What is kept of a folder: about the experiment, and one row for each run."""
    from lm_texts import corpus_of

    kept = json.loads((folder / "runs.json").read_text())
    samples, rows = samples_of(folder), []
    for corpus in dict.fromkeys(run["corpus"] for run in kept["runs"]):
        text = corpus_of(corpus, data)
        for run in (run for run in kept["runs"] if run["corpus"] == corpus):
            if run["manifest"]["corpus_sha256"] != text.digest():
                raise SystemExit(f"{run['name']}: trained on another text than the one in {data}")
            rows.append({"experiment": name, **_facts(run), **_compared(run, text, samples[run["name"]])})
            print(run["name"], flush=True)
    manifests = {run["corpus"]: run["manifest"] for run in kept["runs"]}
    constant = ("settings", "device", "precision", "parameters", "corpus_sha256")
    about = {**kept["about"], "manifests": {c: {k: m[k] for k in constant} for c, m in manifests.items()}}
    return about, rows


def samples_of(folder: Path) -> dict[str, Any]:
    """The samples of every run, by its name."""
    found = {}
    for path in sorted(folder.glob("samples-*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                content = tar.extractfile(member)
                if content is not None:
                    found[member.name.removesuffix(".npz")] = np.load(io.BytesIO(content.read()))["samples"]
    return found


def _facts(run: Row) -> Row:
    manifest = run["manifest"]
    names = (
        "valid_perplexity",
        "test_perplexity",
        "energy",
        "energies",
        "directions",
        "row_length",
        "gendered_row_length",
        "gradients",
    )
    history = {
        name: [_rounded(epoch[name]) for epoch in manifest["history"]]
        for name in ("train_loss", "valid_perplexity", "regulariser", "unclipped", "tokens_per_second")
        if name in manifest["history"][0]  # the first runs did not record all of them
    }
    return {
        **{name: run[name] for name in ("corpus", "definition", "strength", "seed", "epochs")},
        **{name: _rounded(run[name]) for name in names if name in run},
        **{name: manifest[name] for name in ("best_epoch", "averaging_since", "regulariser", "stopped_by")},
        "history": history,
    }


def _compared(run: Row, text: Any, drawn: Any) -> Row:
    """The product's comparison with the training text, without its lists of words."""
    from lm_texts import NUMBER

    from evenhand.corpus import ENGLISH, Texts
    from evenhand.corpus.comparison import SPECIAL_TOKENS, against_training

    decode = text.vocabulary.decode
    found = against_training(
        Texts([" ".join(decode(text.train))]), [decode(row) for row in drawn], lists=PAIRS[run["corpus"]],
        stop_words=(*ENGLISH, *SPECIAL_TOKENS, NUMBER), permutations=SHUFFLES, seed=run["seed"], ceiling=True,
    )  # fmt: skip
    return {name: _rounded(_compact(one.to_dict(points=False))) for name, one in found.items()}


def _compact(found: Row) -> Row:
    texts = {
        name: {key: found[name][key] for key in ("mu", "sigma", "n", "tokens", "hits", "baseline")}
        for name in ("first", "second")
    }
    return {**{name: found[name] for name in STATISTICS}, **texts}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def groups(kept: Row, corpus: str = "") -> Iterator[Group]:
    """All that was trained, by corpus, strength, experiment and definition."""
    found: dict[tuple[str, float, str, str], list[Row]] = {}
    order = list(kept["experiments"])
    for run in kept["runs"]:
        if run["corpus"] == (corpus or run["corpus"]):
            found.setdefault((run["corpus"], run["strength"], run["experiment"], run["definition"]), []).append(run)
    places = list(PUBLISHED), list(TERMS)
    for key in sorted(found, key=lambda k: (places[0].index(k[0]), k[1], order.index(k[2]), places[1].index(k[3]))):
        yield Group(key[2], key[0], key[3], key[1], sorted(found[key], key=lambda run: run["seed"]))


def results(kept: Row, corpus: str) -> str:
    """One of the paper's tables 1 to 3, every published row followed by ours."""
    ours = list(groups(kept, corpus))
    published = {row[0]: row[1:] for row in PUBLISHED[corpus]}
    body = [["training text", "published", "", "", *map(_plain, published[None])]]
    base = [group for group in ours if not group.strength][-1]
    training = summary(base.runs)[0]["training"]
    body.append(
        ["training text", "ours", "", "", *(format_value(training[c][s]) or "" for c in CONTEXTS for s in STATISTICS)]
    )
    body[-1].append("")
    for strength in sorted({group.strength for group in ours} | {s for s in published if s is not None}):
        if strength in published:
            body.append([f"{strength:g}", "published", "", "1", *map(_plain, published[strength])])
        for group in (group for group in ours if group.strength == strength):
            (row,) = summary(group.runs)
            cells = [format_value(row[c][s]) or "" for c in CONTEXTS for s in STATISTICS]
            body.append([*group.label, *cells, format_value(row["test_perplexity"], 1) or ""])
    return _table(["λ", "term", "epochs", "seeds", *HEAD, "perplexity"], body)


def effects(kept: Row, corpus: str) -> str:
    """Differences from lambda 0, run by run of the same seed, beside the published differences."""
    ours = list(groups(kept, corpus))
    bases = {group.experiment: {run["seed"]: run for run in group.runs} for group in ours if not group.strength}
    published = {row[0]: row[1:] for row in PUBLISHED[corpus]}
    body = []
    for group in (group for group in ours if group.strength):
        before = bases[group.experiment]
        theirs = published.get(group.strength)
        cells = []
        for place, (context, name) in enumerate((c, s) for c in CONTEXTS for s in STATISTICS):
            found = [_value(run, context, name) - _value(before[run["seed"]], context, name) for run in group.runs]
            told = f" ({theirs[place] - published[0.0][place]:+.2f})" if theirs else ""
            cells.append(f"{_mean(found, signed=True)}{told}")
        body.append([*group.label, *cells])
    return _table(["λ", "term", "epochs", "seeds", *HEAD], body)


def spread(kept: Row, corpus: str) -> str:
    """What the seed alone does without any term, and how wide one run's own interval is."""
    body = []
    for group in (group for group in groups(kept, corpus) if not group.strength and len(group.runs) > 1):
        asked = [(c, s) for c in CONTEXTS for s in STATISTICS]
        sds = [f"{statistics.stdev(_value(run, c, s) for run in group.runs):.3f}" for c, s in asked]
        halves = [statistics.fmean(_half(run[c][s]["interval"]) for run in group.runs) for c, s in asked]
        body.append([group.epochs, "standard deviation over seeds", *sds])
        body.append([group.epochs, "half the 95 % interval of one run", *(f"{half:.3f}" for half in halves)])
    return _table(["epochs", "", *HEAD], body)


def chance(kept: Row, _: str) -> str:
    """Mean |bias| beside what it is when the gendered words change sides at random."""
    body = []
    for group in (group for group in groups(kept) if not group.strength):
        for text, side in (("training text", "first"), ("written", "second")):
            cells = []
            null = kept.get("training_null", {}).get(group.corpus) if side == "first" else None
            for context in CONTEXTS:
                parts = [run[context][side] for run in group.runs]
                cells += [_mean([part["mu"] for part in parts]), _mean([part["baseline"]["mu"] for part in parts])]
                cells.append(f"{null[context]['baseline']['mu']:.2f}" if null else "–")
            body.append([CORPORA[group.corpus], text, group.epochs, *cells])
    return _table(["corpus", "text", "epochs", "fixed μ", *NULLS, "infinite μ", *NULLS], body)


def gendered(kept: Row, experiment: str) -> str:
    """How many gendered words the models wrote, and what is left of the scores beyond chance."""
    body = []
    for group in (group for group in groups(kept) if group.experiment == experiment):
        texts = [("training text", "first")] * (not group.strength) + [("written", "second")]
        for text, side in texts:
            parts = [run["fixed"][side] for run in group.runs]
            counts = [_mean([part["hits"][name] for part in parts], 0) for name in ("female", "male")]
            ratio = _mean([part["hits"]["male"] / part["hits"]["female"] for part in parts], 1)
            beyond = _mean([part["mu"] - part["baseline"]["mu"] for part in parts], 3, signed=True)
            label = [f"{group.strength:g}", TERMS[group.definition]] if side == "second" else ["", ""]
            body.append(
                [CORPORA[group.corpus], text, *label, *counts, ratio, _mean([p["n"] for p in parts], 0), beyond]
            )
    heads = ["female words", "male words", "male / female", "words scored", "fixed μ − single words shuffled"]
    return _table(["corpus", "text", "λ", "term", *heads], body)


def term(kept: Row, definitions: str) -> str:
    """What the term does to training: its size, its gradient, and what clipping leaves of the step."""
    bases = {(g.experiment, g.corpus): _perplexity(g) for g in groups(kept) if not g.strength}
    body = []
    for group in (group for group in groups(kept) if group.definition in definitions.split()):
        sizes = [[run["history"]["regulariser"][at] / group.strength for run in group.runs] for at in (0, -1)]
        pulls = [pull for pull in map(_pull, group.runs) if pull is not None]
        left = [[_unclipped(run, at, _clip(kept, group)) for run in group.runs] for at in (0, -1)]
        rows = [
            _mean([run[name] for run in group.runs if name in run]) for name in ("row_length", "gendered_row_length")
        ]
        ratio = _perplexity(group) / bases[group.experiment, group.corpus]
        cells = [*(_mean(size, 1) for size in sizes), _mean(pulls), *map(_mean, left), *rows, f"{ratio:.2f}"]
        body.append([CORPORA[group.corpus], TERMS[group.definition], *group.label[::2], *cells])
    heads = [
        "term / λ, first epoch",
        "last epoch",
        "its gradient",
        "left of a step, first epoch",
        "last epoch",
        "row length",
        "of gendered words",
        "perplexity ratio",
    ]
    return _table(["corpus", "term", "λ", "epochs", *heads], body)


def _pull(run: Row) -> float | None:
    """The norm of the term's gradient: of the printed one 2 lambda ||N B||, else as measured at the end."""
    if run["definition"] == "printed":
        return 2 * math.sqrt(run["strength"] * run["history"]["regulariser"][-1])
    return float(run["gradients"]["term"]) if "gradients" in run else None


def _unclipped(run: Row, at: int, clip: float) -> float:
    """What clipping left of the steps of an epoch; the first runs did not record it, and all had the printed term."""
    if found := run["history"].get("unclipped"):
        return float(found[at])
    return min(1.0, clip / (2 * math.sqrt(run["strength"] * run["history"]["regulariser"][at])))


def _clip(kept: Row, group: Group) -> float:
    return float(kept["experiments"][group.experiment]["manifests"][group.corpus]["settings"]["clip"])


def _perplexity(group: Group) -> float:
    return statistics.fmean(run["test_perplexity"] for run in group.runs)


def speed(kept: Row, _: str) -> str:
    """How fast it went."""
    body = []
    for name, about in kept["experiments"].items():
        whole = about["training_tokens"] / about["training_seconds"]
        tokens = f"{about['training_tokens'] / 1e6:,.0f} million"
        cells = [about["device"], str(about["side_by_side"]), tokens, f"{about['training_seconds']:.0f}"]
        body.append([name, *cells, f"{whole:,.0f}"])
    heads = ("runs", "device", "side by side", "tokens", "seconds", "tokens a second, together")
    return _table(list(heads), body)


def steps(kept: Row, _: str) -> str:
    """One step of one model, against the same step with an LSTM written out in Python."""
    about, body = kept["step"], []
    for precision in ("fp32", "bf16"):
        fused, unfused = (about[precision][f"{kind}_ms"] for kind in ("fused", "unfused"))
        rate = about["batch"] * about["bptt"] / fused * 1000
        body.append([precision, f"{fused:.2f}", f"{unfused:.2f}", f"{unfused / fused:.1f}", f"{rate:,.0f}"])
    return _table(["precision", "fused, ms", "unfused, ms", "ratio", "tokens a second, fused"], body)


def _value(run: Row, context: str, name: str) -> float:
    return float(run[context][name]["value"])


def _half(interval: list[float]) -> float:
    return (interval[1] - interval[0]) / 2


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _mean(values: Iterable[float], digits: int = 2, *, signed: bool = False) -> str:
    found = list(values)
    if not found:
        return ""
    sd = f" ± {statistics.stdev(found):.{digits}f}" if len(found) > 1 else ""
    return f"{statistics.fmean(found):{'+' if signed else ''}.{digits}f}{sd}"


def _table(heads: list[str], body: list[list[str]]) -> str:
    if not body:
        return "(nothing trained yet)"
    rule = ["--:" if re.match(r"[+-]?\d|$", cell) else "---" for cell in body[0]]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, rule, *body))


TABLES: dict[str, Callable[[Row, str], str]] = {
    "results": results,
    "effects": effects,
    "spread": spread,
    "chance": chance,
    "gendered": gendered,
    "term": term,
    "speed": speed,
    "steps": steps,
}


def arguments() -> Any:
    """What the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=Path, nargs="?", help="folder of lm_experiment.py")
    parser.add_argument("--name", help="under which its results are kept")
    parser.add_argument("--data", type=Path, help="folder of the texts")
    parser.add_argument("--step", type=Path, help="file with the JSON of benchmarks/lm.py")
    given = parser.parse_args()
    if given.runs and not (given.name and given.data):
        parser.error("to score a folder, give --name and --data")
    return given


if __name__ == "__main__":
    main(arguments())
