"""Compute reproductions/ethayarajh2019.json: table 2 of the paper on WikiText-2 and enwik8, and its sensitivity.

    EVENHAND_DATA=... python scripts/genderedness_page.py [wikitext-2] [enwik8]

Trains SGNS with one thread, so that a seed gives the same vectors again: about a quarter of an hour for enwik8, three
minutes for each of the four trainings on WikiText-2. Models are kept in the cache folder and each text is recorded when
it is done, so an interrupted run goes on. The tables of the page are printed from the file.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evenhand.audit.manifest import manifest
from evenhand.corpus import Cooccurrence, cooccurrence
from evenhand.files import cache_folder, sha256_of, write_text
from evenhand.interop.gensim import SGNS, reconstruction, train_sgns
from evenhand.measures import numbers
from evenhand.models.vectors import Vectors
from evenhand.reproduce.genderedness import (
    MEANS,
    GenderednessSettings,
    as_table,
    examples,
    record,
    resolve_corpus,
    sensitivity,
)
from evenhand.subjects import open_subject
from evenhand.words import concept

KEPT = Path(__file__).parents[1] / "reproductions/ethayarajh2019.json"
DIM, WINDOW, SEED = 300, 5, 0
# One choice of the training changed at a time; on the small text only.
TRAININGS: dict[str, dict[str, Any]] = {
    "trained with seed 1": {"seed": 1},
    "negatives from p, not p^0.75": {"ns_exponent": 1.0},
    "subsampling 1e-3 (not in the counts)": {"sample": 1e-3},
}
COUNTINGS: dict[str, dict[str, Any]] = {
    "counts: flat window": {"weighting": "flat"},
    "counts: window 2": {"window": 2},
    "counts: window 10": {"window": 10},
    "counts: min_count 50": {"min_count": 50},
}


def main() -> None:
    """Fill what is missing, then print the tables."""
    for corpus in sys.argv[1:] or ("enwik8", "wikitext-2"):
        if corpus not in _kept():
            found = _record(corpus)
            write_text(KEPT, json.dumps({**_kept(), corpus: found}, indent=1) + "\n")
    for corpus, found in _kept().items():
        print(f"\n## {corpus}\n\n{_table(found['table'])}\n\n{_choices(found['sensitivity'])}")


def _kept() -> dict[str, Any]:
    return dict(json.loads(KEPT.read_text())) if KEPT.exists() else {}


def _record(corpus: str) -> dict[str, Any]:
    path, options = resolve_corpus(corpus)
    started = time.perf_counter()
    model = _trained(corpus, path, options)
    counts = _counted(path, options)
    found = examples(counts, model.words, settings=GenderednessSettings(), seed=SEED)
    others: dict[str, tuple[Cooccurrence, Vectors]] = {
        label: (_counted(path, {**options, **change}), model.words) for label, change in COUNTINGS.items()
    }
    if corpus == "wikitext-2":
        for label, change in TRAININGS.items():
            others[label] = (counts, _trained(corpus, path, {**options, **change}, label).words)
    return {
        "manifest": {
            **manifest(
                [open_subject(model.words)],
                concept("gender"),
                {"setting": _plain(GenderednessSettings()), "seed": SEED},
                given={"corpus": corpus},
            ),
            "data": {"name": corpus, "sha256": sha256_of(path), "bytes": path.stat().st_size},
            "counts": dict(counts.params),
            "seconds": round(time.perf_counter() - started, 1),
        },
        "reconstruction": asdict(reconstruction(model, counts, seed=SEED)),
        "values": record(found, seed=SEED),
        "table": as_table(found, title=corpus, seed=SEED).to_dict(),
        "sensitivity": sensitivity(counts, model.words, others=others, seed=SEED).to_dict(),
    }


def _trained(corpus: str, path: Path, options: dict[str, Any], label: str = "") -> SGNS:
    place = cache_folder() / "sgns" / f"{corpus} {label}".strip().replace(" ", "-").replace("^", "")
    if not (place / "words.safetensors").exists():
        train_sgns(path, DIM, window=WINDOW, progress=_told(place.name), **{"seed": SEED, **options}).save(place)
    return SGNS.load(place)


def _counted(path: Path, options: dict[str, Any]) -> Cooccurrence:
    named = ("format", "documents", "min_count", "window", "weighting")
    given = {name: value for name, value in options.items() if name in named}
    return cooccurrence(path, **{"window": WINDOW, "weighting": "dynamic", **given})


def _told(what: str) -> Callable[[int, int, str], None]:
    return lambda done, total, step: print(f"{what}: {step} {done} of {total}", file=sys.stderr, flush=True)


def _plain(setting: GenderednessSettings) -> dict[str, Any]:
    return {name: str(value) if value is not None else None for name, value in asdict(setting).items()}


def _table(found: dict[str, Any]) -> str:
    heads = found["columns"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * 2 + "|--:" * (len(heads) - 2) + "|"]
    lines += ["| " + " | ".join(_cell(row[head]) for head in heads) + " |" for row in found["rows"]]
    return "\n".join(lines)


def _choices(found: dict[str, Any]) -> str:
    lines = ["| choice | alpha | lambda | " + " | ".join(MEANS) + " |", "|---" + "|--:" * 5 + "|"]
    for row in found["rows"]:
        cells = [row["choice"], _cell(row["alpha"]), _cell(row["lambda"]), *(_moved(row, group) for group in MEANS)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _moved(row: dict[str, Any], group: str) -> str:
    """Corpus, vectors and change of one group in one cell."""
    n, corpus, vectors, change, bounds = (
        row[f"{group} {value}"] for value in ("n", "corpus", "vectors", "change", "interval")
    )
    if change is None:
        return f"– ({n or 0})"
    return f"{corpus:.3f} → {vectors:.3f}: {change:+.3f}{f' [{bounds}]' if bounds else ''} ({n})"


def _cell(value: Any) -> str:
    if isinstance(value, float) or value is None:
        return numbers.number(value) if value is None or abs(value) >= 1 else f"{value:.3f}"
    return str(value)


if __name__ == "__main__":
    main()
