"""Compute reproductions/ethayarajh2019.json: table 2 of the paper on WikiText-2 and enwik8, and its sensitivity.

    EVENHAND_DATA=... python scripts/genderedness_page.py [wikitext-2] [enwik8]

Trains SGNS with one thread, so that a seed gives the same vectors again: about a quarter of an hour for enwik8, three
minutes for each of the four trainings on WikiText-2. Models are kept in the cache folder and each text is recorded when
it is done, so an interrupted run goes on. The tables of the page are printed from the file.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from evenhand.audit.manifest import manifest
from evenhand.corpus import Cooccurrence, cooccurrence
from evenhand.errors import EvenhandError
from evenhand.files import cache_folder, sha256_of, write_text
from evenhand.interop.gensim import SGNS, reconstruction, train_sgns
from evenhand.measures import numbers
from evenhand.models.vectors import Vectors
from evenhand.reproduce.comparison import PaperTable
from evenhand.reproduce.genderedness import (
    MEANS,
    GenderednessComparison,
    GenderednessSettings,
    as_table,
    compare,
    examples,
    resolve_corpus,
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


Cell = str | float | None


def record(comparison: GenderednessComparison, *, seed: int = 0) -> dict[str, object]:
    """Return plain data for JSON: constants, summaries of the three groups, and both values of every word."""
    groups: dict[str, dict[str, object]] = {
        name: {"lost": dict(group.lost), "words": {word: group.values(word) for word in group.words}}
        for name, group in comparison.groups.items()
    }
    for name in MEANS:
        group = comparison.groups[name]
        groups[name] = {**group.summary(seed), "n": len(group.words), "by_chance": group.chance, **groups[name]}
    return {"constants": asdict(comparison.constants), "pairs": comparison.pairs, "groups": groups}


ALPHAS = (0.0, -1.0, -2.0, -5.0)
SENSITIVITY_COLUMNS = (
    *("choice", "alpha", "lambda"),
    *(f"{group} {value}" for group in MEANS for value in ("n", "corpus", "vectors", "change", "interval")),
)
SENSITIVITY_NOTES = (
    "Means of absolute values, the mean change and its 95 % bootstrap interval over words.",
    "A dash: fewer than two words, or the setting is impossible.",
)


def variants(base: GenderednessSettings, seed: int) -> Iterator[tuple[str, GenderednessSettings, int]]:
    """Yield label, settings and seed of each variant, which differs from the base in one setting."""
    yield "as in the table", base, seed
    for alpha in ALPHAS:
        yield f"alpha {alpha:g}", replace(base, alpha=alpha), seed
    yield "alpha and lambda fitted", replace(base, alpha=None, lambda_=None), seed
    for pairs in (1, 5, 8):
        yield f"at least {pairs} pair{'s' * (pairs > 1)} defined", replace(base, min_pairs=pairs), seed
    for least in (1.0, 5.0):
        yield f"co-occurrence of at least {least:g}", replace(base, least=least), seed
    yield "vectors over all pairs", replace(base, same_pairs=False), seed
    yield "with the defining words", replace(base, defining=True), seed
    yield "with them, co-occurrence of at least 5", replace(base, defining=True, least=5.0), seed
    for often in (20, 1000):
        yield f"neutral words from {often} occurrences", replace(base, frequent=often), seed
    yield "50 neutral words", replace(base, neutral=50), seed
    for other in (1, 2):
        yield f"neutral words drawn with seed {seed + other}", base, seed + other


def sensitivity(
    counts: Cooccurrence,
    vectors: Vectors,
    *,
    settings: GenderednessSettings | None = None,
    others: Mapping[str, tuple[Cooccurrence, Vectors]] | None = None,
    seed: int = 0,
) -> PaperTable:
    """Return the means of the three groups under other settings; `others` are other counts or vectors of the text."""
    base = settings or GenderednessSettings()
    rows = [
        _setting_row(label, counts, vectors, variant, own_seed) for label, variant, own_seed in variants(base, seed)
    ]
    rows += [_setting_row(label, *sides, base, seed) for label, sides in (others or {}).items()]
    title = "Ethayarajh et al. 2019, table 2: means under other settings"
    return PaperTable(title, SENSITIVITY_COLUMNS, (_published_row(), *rows), SENSITIVITY_NOTES)


def _published_row() -> tuple[Cell, ...]:
    cells = [cell for n, corpus, vectors, change, _ in MEANS.values() for cell in (n, corpus, vectors, change, "")]
    return ("the paper", -1.0, 1.0, *cells)


def _setting_row(
    label: str, counts: Cooccurrence, vectors: Vectors, settings: GenderednessSettings, seed: int
) -> tuple[Cell, ...]:
    try:
        comparison = compare(counts, vectors, settings=settings, seed=seed)
    except EvenhandError as error:
        return (f"{label}: {error.message}", None, None, *([None] * (len(SENSITIVITY_COLUMNS) - 3)))
    return (label, comparison.constants.alpha, comparison.constants.lambda_, *_means(comparison))


def _means(comparison: GenderednessComparison) -> list[Cell]:
    cells: list[Cell] = []
    for name in MEANS:
        group = comparison.groups[name]
        summary = group.summary()
        bounds = "{:.3f} to {:.3f}".format(*summary["interval"]) if summary["interval"] else ""
        cells += [len(group.words), summary["corpus"], summary["embedding"], summary["change"], bounds]
    return cells


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
