"""Compare the stages of the models of the catalog, and show them: the part of encoders_page.py for catalog_audits.py.

A change from the original is tested item by item where both stages kept the same items (pairs of CrowS-Pairs and
WinoBias, words of WEAT, SEAT and of correlations with shares of women): 2,000 bootstrap draws resample the items, the
same for both stages. Elsewhere the two intervals are treated as independent, which overstates the noise of a change.
p-values are adjusted by Holm over all methods and measures of a model.
"""

import gzip
import json
import math
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evenhand.measures import info
from evenhand.stats import holm
from evenhand.stats.multiplicity import NORMAL_95, two_sided_p

Row = dict[str, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]
DRAWS, SEED = 2_000, 0
SURE = 0.05
SMALLEST = 1e-6
ORIGINAL = "original"
ORDER = (
    ORIGINAL, "linear", "leace", "inlp", "sentence-debias", "scrubbing", "random", "self-debias", "fine-tuning",
    "cda-tuning", "dropout-tuning",
)  # fmt: skip
PLACES = 5
ENCODER = (
    "seat:sent-weat6", "seat:sent-weat6b", "seat:sent-weat7", "seat:sent-weat7b", "seat:sent-weat8", "seat:sent-weat8b",
    "retrieval-skew:retrieval-topics:difference", "retrieval-skew:grep-biasir:difference", "weat-6", "weat-7", "weat-8",
    "recoverability", "clustering", "neighbours:vocabulary",
)  # fmt: skip
ENCODER_COSTS = ("sentence-retention", "retention", "similarity:men", "analogy:google-analogies")
LANGUAGE_MODEL = (
    "crows-pairs-gender", "stereoset-gender:intra-ss", "stereoset-gender:inter-ss", "winobias:preferred-type1",
    "winobias:preferred-type2", "winogender:share-correlation", "pronoun-share:occupations-share-of-women:pearson",
    "pronoun-share:winogenerated:pearson", "bbq:ambiguous-sum", "bbq:ambiguous-character", "honest:hurtful",
    "honest:gap", "holistic-bias", "counterfactual-text:divergence", "seat:sent-weat6", "seat:sent-weat8",
)  # fmt: skip
LANGUAGE_MODEL_COSTS = (
    "perplexity:wikitext-2-test", "perplexity", "stereoset-gender:intra-lms", "bbq:accuracy-disambiguated-sum",
    "sentence-retention",
)  # fmt: skip
UNTESTED = ("sentence-retention", "retention")  # 1 before by definition
LOGARITHMIC = ("perplexity",)


class Change(NamedTuple):
    """What a method changed: the difference, its interval, its p-value, and whether items were paired."""

    value: float
    interval: tuple[float, float]
    p: float
    paired: bool


def catalog_results(paths: Sequence[Path]) -> dict[str, Row]:
    """Read records of catalog_audits.py: MODEL.json, and beside it MODEL-stages.tar or a folder MODEL of stages."""
    return {path.stem: model_results(path) for path in paths}


def model_results(path: Path) -> Row:
    """Return the numbers of one model: by stage and measure the value, interval, n, lost items and tested change."""
    about: Row = {key: value for key, value in json.loads(path.read_text()).items() if key not in ("stages", "model")}
    records = stage_records(path)
    found = {stage: measurements(record) for stage, record in records.items()}
    causal = any(label.startswith("perplexity") for label in found[ORIGINAL])
    tested = (*LANGUAGE_MODEL, *LANGUAGE_MODEL_COSTS) if causal else (*ENCODER, *ENCODER_COSTS)
    changes: dict[tuple[str, str], Change] = {}
    for stage in found:
        for label in tested if stage != ORIGINAL else ():
            before, after = (found[name].get(label) for name in (ORIGINAL, stage))
            change = compare(label, before, after) if before and after and label not in UNTESTED else None
            if change:
                changes[stage, label] = change
    adjusted = dict(zip(changes, holm([change.p for change in changes.values()]).tolist(), strict=True))
    stages = {}
    for stage, record in records.items():
        rows = {}
        for label, row in found[stage].items():
            rows[label] = plain_row(row)
            if (stage, label) in changes:
                change = changes[stage, label]
                rows[label] |= {"change": change.value, "change_interval": list(change.interval), "change_p": change.p}
                rows[label] |= {"change_p_holm": adjusted[stage, label], "paired": change.paired}
        kept = ("seconds", "complete", "not_run", "failed", "warnings")
        stages[stage] = {key: record[key] for key in kept if record.get(key)} | {"rows": rows}
    result: Row = rounded(about | {"causal": causal, "tests": len(changes), "stages": stages})
    return result


def stage_records(path: Path) -> dict[str, Row]:
    """Read the records of all stages, in the order of the methods."""
    archive, folder = path.with_name(f"{path.stem}-stages.tar"), path.with_suffix("")
    if archive.exists():
        with tarfile.open(archive) as packed:
            streams = [stream for member in packed if (stream := packed.extractfile(member))]
            records = [json.loads(gzip.decompress(stream.read())) for stream in streams]
    else:
        records = [json.loads(gzip.decompress(file.read_bytes())) for file in folder.glob("*.json.gz")]
    records.sort(key=lambda record: (order(record["stage"]), record["stage"]))
    return {record["stage"]: record for record in records}


def order(stage: str) -> int:
    """Return the place of a stage in tables; methods at layers come after those at the word table."""
    method, _, site = stage.partition("@")
    return (ORDER.index(method) if method in ORDER else len(ORDER)) + 100 * bool(site)


def measurements(record: Row) -> dict[str, Row]:
    """Return the measurements of a stage by label, each with the family and the direction of its measure."""
    return {
        ":".join(filter(None, (label, measured["score"]))): {
            **measured,
            "better": info(measured["measure"]).better_score(measured["score"]),
            "family": answer["family"],
        }
        for label, answer in record["answers"].items()
        for measured in answer["measurements"]
    }


def plain_row(row: Row) -> Row:
    """Return what is kept of a measurement."""
    lost = len(row["coverage"]["missing"]) or row["details"].get("left_out", 0)
    kept = {key: row[key] for key in ("interval", "p_value", "n", "reason") if row.get(key)}
    return {"value": row["value"], **kept, **({"lost": lost} if lost else {})} | {
        key: row[key] for key in ("better", "family")
    }


def compare(label: str, before: Row, after: Row) -> Change | None:
    """Test the change of one measurement; None where a value or an interval is missing."""
    if before["value"] is None or after["value"] is None:
        return None
    statistic = STATISTICS.get(label.partition(":")[0]) or STATISTICS.get(label)
    paired = paired_items(before, after) if statistic or label.startswith("weat") else None
    if paired:
        return paired_change(before, after, (statistic or effect_size), *paired)
    if not before["interval"] or not after["interval"]:
        return None
    scale: Callable[[float], float] = math.log if label.partition(":")[0] in LOGARITHMIC else float
    errors = [(scale(one["interval"][1]) - scale(one["interval"][0])) / (2 * NORMAL_95) for one in (before, after)]
    error = math.hypot(*errors)
    change = scale(after["value"]) - scale(before["value"])
    p = two_sided_p(change / error) if error else float(not change)
    return Change(change, (change - NORMAL_95 * error, change + NORMAL_95 * error), p, False)


def paired_items(before: Row, after: Row) -> tuple[list[Row], list[Row]] | None:
    """Return the items that both stages have, in the same order; None if these are not all."""
    keys = [[item_key(item) for item in one["items"]] for one in (before, after)]
    if not keys[0] or keys[0] != keys[1] or None in keys[0]:
        return None
    return before["items"], after["items"]


def item_key(item: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the name of an item, with its set."""
    name = item.get("pair") or item.get("word")
    return (str(name), str(item.get("set", ""))) if name else None


def paired_change(
    before: Row, after: Row, statistic: Callable[[Sequence[Row], Floats], Floats], first: list[Row], second: list[Row]
) -> Change:
    """Bootstrap the change over items; items of a set are resampled within it."""
    rng = np.random.default_rng(SEED)
    sets: dict[str, list[int]] = {}
    for row, item in enumerate(first):
        sets.setdefault(str(item.get("set", "")), []).append(row)
    draws = np.concatenate(
        [np.array(rows)[rng.integers(0, len(rows), (DRAWS, len(rows)))] for rows in sets.values()], axis=1
    )
    changes = statistic(second, draws) - statistic(first, draws)
    changes = changes[np.isfinite(changes)]
    change = float(after["value"] - before["value"])
    error = float(changes.std(ddof=1)) if len(changes) > 1 else 0.0
    low, high = np.percentile(changes, [2.5, 97.5]).tolist() if len(changes) else (change, change)
    return Change(change, (low, high), two_sided_p(change / error) if error else float(not change), True)


def preferred(items: Sequence[Row], draws: Floats) -> Floats:
    """Percentage of pairs whose first sentence is preferred: CrowS-Pairs."""
    wins = np.array([100.0 * (item["more"] > item["less"]) + 50.0 * (item["more"] == item["less"]) for item in items])
    return np.asarray(wins[draws].mean(axis=1))


def positive(items: Sequence[Row], draws: Floats) -> Floats:
    """Percentage of items with a value above 0: WinoBias."""
    wins = np.array([100.0 * (item["value"] > 0) + 50.0 * (item["value"] == 0) for item in items])
    return np.asarray(wins[draws].mean(axis=1))


def correlation(items: Sequence[Row], draws: Floats) -> Floats:
    """Correlation of the values with shares of women."""
    x, y = (np.array([float(item[key]) for item in items])[draws] for key in ("value", "share"))
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((x * y).sum(axis=1) / np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1)))


def effect_size(items: Sequence[Row], draws: Floats) -> Floats:
    """Effect size of WEAT: difference of the means of two sets over the deviation of all."""
    values = np.array([float(item["value"]) for item in items])[draws]
    names = np.array([item["set"] for item in items])[draws[0]]
    first = names == items[0]["set"]
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = values[:, first].mean(axis=1) - values[:, ~first].mean(axis=1)
        return np.asarray(gap / values.std(axis=1))


# By measure, or by label where only one score of a measure is a function of its items.
STATISTICS: dict[str, Callable[[Sequence[Row], Floats], Floats]] = {
    "crows-pairs-gender": preferred,
    "winobias:preferred-type1": positive,
    "winobias:preferred-type2": positive,
    "winogender:share-correlation": correlation,
    "pronoun-share:occupations-share-of-women:pearson": correlation,
    "pronoun-share:winogenerated:pearson": correlation,
    "seat": effect_size,
}


def catalog_table(kept: Row, model: str) -> str:
    """The measures of a model, one column for each stage; a change that is sure after Holm is bold."""
    found = kept["catalog"][model]
    names = (*LANGUAGE_MODEL, *LANGUAGE_MODEL_COSTS) if found["causal"] else (*ENCODER, *ENCODER_COSTS)
    stages = found["stages"]
    lines = ["| measure | better | " + " | ".join(stages) + " |", "|---|---|" + "--:|" * len(stages)]
    for name in names:
        rows = [stages[stage]["rows"].get(name) for stage in stages]
        first = next((row for row in rows if row), None)
        if first:
            lines.append(f"| {name} | {first['better']} | " + " | ".join(map(cell, rows)) + " |")
    return "\n".join(lines)


def cell(row: Row | None) -> str:
    """A value with its interval, bold where the change from the original is sure."""
    if row is None:
        return ""
    if row["value"] is None:
        return "–"
    bounds = f" [{row['interval'][0]:.3g}, {row['interval'][1]:.3g}]" if row.get("interval") else ""
    number = f"{row['value']:.3g}"
    return (f"**{number}**" if row.get("change_p_holm", 1.0) < SURE else number) + bounds


def catalog_changes(kept: Row, model: str) -> str:
    """The changes of a model that are sure after Holm's correction, largest first within a method."""
    lines = [
        "| method | measure | before | after | change | 95 % interval | p, Holm |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for stage, label, row, before in sure_changes(kept["catalog"][model]):
        low, high = row["change_interval"]
        what = " (log)" if label.partition(":")[0] in LOGARITHMIC else ""
        lines.append(
            f"| {stage} | {label}{what} | {before['value']:.3g} | {row['value']:.3g} | {row['change']:+.3g} | "
            f"{low:+.3g} to {high:+.3g} | {small(row['change_p_holm'])} |"
        )
    return "\n".join(lines) if len(lines) > 2 else "No change is beyond the noise after Holm's correction."


def small(p: float) -> str:
    """A p-value; the size of very small ones says nothing."""
    return f"{p:.2g}" if p >= SMALLEST else f"< {SMALLEST:g}"


def sure_changes(found: Row) -> Iterator[tuple[str, str, Row, Row]]:
    """Yield stage, label and row of the changes that are sure, and the row of the original."""
    original = found["stages"][ORIGINAL]["rows"]
    for stage, content in found["stages"].items():
        for label, row in content["rows"].items():
            if row.get("change_p_holm", 1.0) < SURE:
                yield stage, label, row, original[label]


def rounded(value: Any) -> Any:
    """Plain data with fewer digits."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    return float(f"{value:.{PLACES}g}") if isinstance(value, float) else value
