"""Score the text of trained language models against the text they learned from: the tables of Bordia & Bowman 2019.

Called by lm_experiment.py --score. Training texts are cut into documents of 500 tokens, as the samples are; every text
keeps <eos> and <unk> as words of its windows, and neither is scored. Fixed: 10 words on each side. Infinite: weights
0.95^distance; there the words whose company with both genders weighs at least 0.1 are given beside all words.
"""

import json
import platform
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lm_experiment import PLAN, REPORTED_COLUMNS, TOKENS, VALIDATION_COLUMNS, samples_of

import evenhand
from evenhand import corpus as corpora
from evenhand.errors import DegenerateError
from evenhand.files import write_text
from evenhand.models.lm.corpus import LMCorpus

CONTEXTS: dict[str, dict[str, Any]] = {"fixed": {"window": 10}, "infinite": {"decay": 0.95}}
BELIEVED = 0.1
MILLION = 1_000_000
# lambda: fixed mu, sigma, beta, infinite mu, sigma, beta, perplexity (tables 1 to 3).
PUBLISHED: dict[str, dict[str, tuple[float | None, ...]]] = {
    "ptb": {
        "train": (0.83, 1.00, None, 3.81, 4.65, None, None),
        "0": (0.74, 0.91, 0.40, 2.23, 2.90, 0.38, 62.56),
        "0.001": (0.69, 0.88, 0.34, 2.43, 2.98, 0.35, 62.69),
        "0.01": (0.63, 0.81, 0.31, 2.56, 3.40, 0.36, 62.83),
        "0.1": (0.64, 0.82, 0.33, 2.30, 3.09, 0.24, 62.48),
        "0.5": (0.70, 0.91, 0.39, 2.91, 3.76, 0.38, 62.5),
        "1": (0.84, 0.94, 0.38, 2.42, 3.02, -0.30, 62.63),
    },
    "wikitext-2": {
        "train": (0.80, 1.00, None, 3.70, 4.60, None, None),
        "0": (0.70, 0.84, 0.29, 3.48, 4.29, 0.15, 67.67),
        "0.001": (0.69, 0.84, 0.27, 2.32, 3.12, 0.16, 67.84),
        "0.01": (0.61, 0.79, 0.20, 1.88, 2.69, 0.14, 67.78),
        "0.1": (0.65, 0.82, 0.24, 2.26, 3.11, 0.06, 67.89),
        "0.5": (0.70, 0.88, 0.31, 2.25, 3.17, 0.20, 69.07),
        "1": (0.74, 0.92, 0.27, 2.32, 3.21, -0.08, 69.56),
    },
    "cnn-dailymail": {
        "train": (0.72, 0.94, None, 0.77, 1.05, None, None),
        "0": (0.51, 0.68, 0.22, 0.43, 0.59, 0.29, 118.01),
        "0.1": (0.38, 0.52, 0.19, 0.85, 1.38, 0.22, 116.49),
        "0.5": (0.34, 0.48, 0.14, 0.79, 1.31, 0.20, 116.19),
        "1": (0.62, 0.83, 0.21, 1.71, 2.65, 0.31, 120.55),
    },
}


def score(folder: Path, text_of: Callable[[str], LMCorpus], page: Path) -> None:
    """Score every run of a folder, write the page's file, print its tables."""
    kept = json.loads((folder / "runs.json").read_text())
    samples = samples_of(folder)
    found = {}
    for name in dict.fromkeys(run["corpus"] for run in kept["runs"]):
        runs = [run for run in kept["runs"] if run["corpus"] == name]
        text = text_of(name)
        if runs[0]["manifest"]["corpus"]["sha256"] != text.digest():
            raise SystemExit(f"{name}: the runs were trained on another text than the one in the data folder")
        found[name] = _corpus(text, PLAN[name].pairs, runs, samples)
    about = {
        "trained": kept["about"],
        "scored_with": {"evenhand": evenhand.__version__, "python": platform.python_version()},
        "perplexity_columns": {"reported": REPORTED_COLUMNS, "validation within training": VALIDATION_COLUMNS},
        "document_tokens": TOKENS,
        "least_company_believed": BELIEVED,
    }
    write_text(page, json.dumps({"about": about, "published": PUBLISHED, "corpora": found}, indent=1) + "\n")
    for name, part in found.items():
        print(table(name, part))


def _corpus(text: LMCorpus, pairs: str, runs: list[dict[str, Any]], samples: dict[str, Any]) -> dict[str, Any]:
    scorer = Scorer(text, pairs)
    learned = scorer.scores(_cut(text.train))
    whole = scorer.scores([text.train])
    first = scorer.scores(_cut(text.train[:MILLION]))
    train = {
        "tokens": len(text.train),
        "documents of 500": scorer.numbers(learned),
        "one document": scorer.numbers(whole),
        "first million tokens": scorer.numbers(first),
    }
    return {
        "train": train,
        "pairs": pairs,
        "runs": [_row(run, scorer.numbers(scorer.scores(list(samples[_name(run)])), learned)) for run in runs],
    }


def _row(run: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
    names = ("lambda", "seed", "valid_perplexity", "test_perplexity", "subspace_energy", "subspace_dimensions")
    history = run["manifest"]["history"]
    return {
        **{name: run[name] for name in names},
        "tokens_per_second": round(run["tokens_per_second"]),
        "epochs": len(history),
        **numbers,
        "history": {
            name: [round(epoch[name], 3) for epoch in history]
            for name in ("train_loss", "valid_perplexity", "regulariser", "seconds")
        },
        "manifest": {name: value for name, value in run["manifest"].items() if name not in ("history", "corpus")},
    }


class Scorer:
    """The choices of a corpus, the same for its training text and for the samples."""

    def __init__(self, text: LMCorpus, pairs: str) -> None:
        self.words, self.pairs = text.vocabulary, pairs
        unscored = [word for word in text.vocabulary.words if word == "N" or not any(map(str.isalpha, word))]
        self.stops = [*corpora.ENGLISH, "<unk>", "<eos>", "<num>", *unscored]

    def scores(self, documents: list[Any]) -> dict[str, Any]:
        """Both contexts."""
        texts = corpora.Texts([" ".join(self.words.decode(document)) for document in documents])
        common = {"lists": self.pairs, "tokenizer": "whitespace", "stop_words": self.stops}
        return {name: corpora.bias(texts, **common, **context) for name, context in CONTEXTS.items()}

    def numbers(self, found: dict[str, Any], learned: dict[str, Any] | None = None) -> dict[str, Any]:
        """Mean, deviation and slope of each context, and of the words that have some company."""
        made = {name: _numbers(bias, learned and learned[name]) for name, bias in found.items()}
        believed = found["infinite"].with_company(BELIEVED)
        base = learned and learned["infinite"].with_company(BELIEVED)
        return made | {"infinite, some company": _numbers(believed, base)}


def _numbers(bias: Any, learned: Any) -> dict[str, Any]:
    try:
        made: dict[str, Any] = {"mu": bias.mu, "sigma": bias.sigma, "words": bias.n, "hits": dict(bias.hits)}
        return made | ({"beta": bias.beta(learned).to_dict()} if learned else {})
    except DegenerateError as error:
        return {"undefined": error.message, "words": bias.n}


def _cut(tokens: Any) -> list[Any]:
    return [tokens[start : start + TOKENS] for start in range(0, len(tokens), TOKENS)]


def _name(run: dict[str, Any]) -> str:
    return f"{run['corpus']}_{run['lambda']:g}_{run['seed']}"


def table(name: str, part: dict[str, Any]) -> str:
    """Ours, as mean and standard deviation over seeds, with the published number in brackets."""
    heads = ("fixed mu", "sigma", "beta", "infinite mu", "sigma", "beta", "perplexity")
    lines = ["", f"| {name} | {' | '.join(heads)} | runs, epochs |", "|---|" + "--:|" * (len(heads) + 1)]
    published = PUBLISHED[name]
    train = [part["train"]["documents of 500"][context][key] for context in CONTEXTS for key in ("mu", "sigma")]
    rows: dict[str, tuple[list[list[float]], str]] = {
        "train": ([[v] for v in train[:2]] + [[]] + [[v] for v in train[2:]] + [[], []], "")
    }
    for strength in sorted({run["lambda"] for run in part["runs"]}):
        runs = [run for run in part["runs"] if run["lambda"] == strength]
        epochs = sorted({run["epochs"] for run in runs})
        rows[f"{strength:g}"] = (_columns(runs), f"{len(runs)}, {'-'.join(map(str, epochs))}")
    for label, (columns, note) in rows.items():
        theirs = published.get(label, (None,) * 7)
        cells = [_cell(ours, paper) for ours, paper in zip(columns, theirs, strict=True)]
        lines.append(f"| {label} | {' | '.join(cells)} | {note} |")
    return "\n".join(lines)


def _columns(runs: list[dict[str, Any]]) -> list[list[float]]:
    made: list[list[float]] = []
    for context in CONTEXTS:
        defined = [run[context] for run in runs if "mu" in run[context]]
        made += [[one["mu"] for one in defined], [one["sigma"] for one in defined]]
        made.append([one["beta"]["trimmed"] for one in defined])
    return [*made, [run["test_perplexity"] for run in runs]]


def _cell(ours: list[float], paper: float | None) -> str:
    if not ours:
        return "–"
    spread = f" ± {statistics.stdev(ours):.2f}" if len(ours) > 1 else ""
    return f"{np.mean(ours):.2f}{spread}" + (f" ({paper:.2f})" if paper is not None else "")
