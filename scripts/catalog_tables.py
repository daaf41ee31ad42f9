"""Compare the stages of the models of the catalog, and show them: the part of encoders_page.py for catalog_audits.py.

A change from the original, or from a control, is tested item by item where both stages have the same items (pairs of
CrowS-Pairs and WinoBias, words of WEAT, SEAT and of correlations with shares of women): 2,000 bootstrap draws resample
the items, the same for both stages, and the pairs of one occupation in WinoBias together. Elsewhere the two intervals
are treated as independent, which overstates the noise of a change. p-values are adjusted by Holm over all methods and
measures of a model.
"""

import gzip
import json
import math
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evenhand.measures import info
from evenhand.stats import holm
from evenhand.stats.multiplicity import NORMAL_95, two_sided_p

Row = dict[str, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]
DRAWS, SEED = 2_000, 0
SIGNIFICANT = 0.05
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
    "recoverability", "clustering", "neighbours:vocabulary", "counterfactual:flip-rate", "counterfactual:change",
    "counterfactual:gap",
)  # fmt: skip
ENCODER_COSTS = ("sentence-retention", "retention", "similarity:men", "analogy:google-analogies")
LANGUAGE_MODEL = (
    "crows-pairs-gender", "stereoset-gender:intra-ss", "stereoset-gender:inter-ss", "winobias:preferred-type1",
    "winobias:preferred-type2", "winogender:share-correlation", "pronoun-share:occupations-share-of-women:pearson",
    "pronoun-share:winogenerated:pearson", "bbq:ambiguous-sum", "bbq:ambiguous-character", "honest:hurtful",
    "honest:gap", "holistic-bias", "counterfactual-text:divergence", "seat:sent-weat6", "seat:sent-weat8",
)  # fmt: skip
LANGUAGE_MODEL_COSTS = (
    "perplexity:wikitext-2-test", "perplexity", "perplexity:wikitext-2-test:pseudo", "perplexity:pseudo",
    "stereoset-gender:intra-lms", "bbq:accuracy-disambiguated-sum",
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
    """Return the numbers of one model by stage: of all measures, and with tested changes of those that the page shows.

    The account has for each measure which way is better; `all` has value, interval, n and lost items of every measure
    in every stage; `shown` what the tables need.
    """
    about: Row = {key: value for key, value in json.loads(path.read_text()).items() if key not in ("stages", "model")}
    about["subject"] = {key: value for key, value in about.get("subject", {}).items() if key != "address"}
    records = stage_records(path)
    if not any(stage.endswith("tuning") for stage in records):
        about.pop("training", None)
    found = {stage: measurements(record) for stage, record in records.items()}
    causal = any(label.startswith("perplexity") for label in found[ORIGINAL])
    names = (*LANGUAGE_MODEL, *LANGUAGE_MODEL_COSTS) if causal else (*ENCODER, *ENCODER_COSTS)
    changes = tested_changes(found, names, dict.fromkeys(found, ORIGINAL))
    controls = tested_changes(
        found, names, {stage: control for stage in found if (control := control_of(stage, found))}
    )
    stages = {}
    for stage, record in records.items():
        shown = {label: plain_row(row) for label, row in found[stage].items() if label in names}
        for label, row in shown.items():
            if change := changes.get((stage, label)):
                row |= change
            if against := controls.get((stage, label)):
                row["against_control"] = against
        everything = {
            label: [row["value"], *(row["interval"] or (None, None)), row["n"], lost_items(row)]
            for label, row in found[stage].items()
        }
        kept = ("seconds", "complete", "failed", "warnings")
        account = {key: record[key] for key in kept if record.get(key)}
        stages[stage] = account | {"control": control_of(stage, found), "shown": shown, "all": everything}
    undefined = {label: row["reason"] for label, row in found[ORIGINAL].items() if row["value"] is None}
    better = {label: row["better"] for label, row in found[ORIGINAL].items()}
    account = {"causal": causal, "tests": len(changes), "tests_against_control": len(controls), "undefined": undefined}
    account |= {"better": better, "not_run": records[ORIGINAL].get("not_run", {}), "stages": stages}
    result: Row = rounded(about | account)
    return result


def control_of(stage: str, stages: Mapping[str, Any]) -> str:
    """Return the stage that does the same without aiming at the concept; empty if there is none."""
    method, _, site = stage.partition("@")
    if method in ("cda-tuning", "dropout-tuning"):
        control = "fine-tuning"
    elif method in ("linear", "leace", "inlp"):
        control = f"random@{site}" if site else "random"
    else:
        control = ""
    return control if control in stages else ""


def tested_changes(
    found: Mapping[str, Mapping[str, Row]], names: Sequence[str], against: Mapping[str, str]
) -> dict[tuple[str, str], Row]:
    """Return the change of each measure from one stage to another, with p-values adjusted over all of them."""
    changes: dict[tuple[str, str], Change] = {}
    for stage, base in against.items():
        for label in names if stage != base else ():
            before, after = found[base].get(label), found[stage].get(label)
            skipped = label in UNTESTED and base == ORIGINAL
            change = compare(label, before, after) if before and after and not skipped else None
            if change:
                changes[stage, label] = change
    adjusted = holm([change.p for change in changes.values()]).tolist() if changes else []
    return {
        key: {
            "change": change.value,
            "change_interval": list(change.interval),
            "change_p": change.p,
            "change_p_holm": p,
            "paired": change.paired,
        }
        for (key, change), p in zip(changes.items(), adjusted, strict=True)
    }


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
    """Return the measurements of a stage by label, each with the direction of its measure and clusters of its items."""
    found = {
        ":".join(filter(None, (label, measured["score"]))): {
            **measured,
            "better": info(measured["measure"]).better_score(measured["score"]),
        }
        for label, answer in record["answers"].items()
        for measured in answer["measurements"]
    }
    for label, row in found.items():
        if label.startswith("winobias:preferred"):  # pairs about one occupation are not independent
            named = found.get(label.replace("preferred", "accuracy-gap"), {}).get("items", [])
            referents = {item["pair"]: item["referent"] for item in named}
            row["items"] = [{**item, "cluster": referents.get(item["pair"], item["pair"])} for item in row["items"]]
    return found


def plain_row(row: Row) -> Row:
    """Return what is kept of a measurement."""
    lost = lost_items(row)
    kept = {key: row[key] for key in ("interval", "p_value", "n", "reason") if row.get(key)}
    return {"value": row["value"], **kept, **({"lost": lost} if lost else {})}


def lost_items(row: Row) -> int:
    """Return how many words or items of a measurement were left out."""
    left_out = row["details"].get("left_out", 0)
    return len(row["coverage"]["missing"]) or (left_out if isinstance(left_out, int) else len(left_out))


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
    """Bootstrap the change over items; whole clusters are resampled, within the set of the items."""
    weights = resampled_weights(first)
    changes = statistic(second, weights) - statistic(first, weights)
    changes = changes[np.isfinite(changes)]
    once = np.ones((1, len(first)))
    change = float(statistic(second, once)[0] - statistic(first, once)[0])  # SEAT: over words, not sentences
    if not math.isfinite(change):
        change = float(after["value"] - before["value"])
    error = float(changes.std(ddof=1)) if len(changes) > 1 else 0.0
    low, high = np.percentile(changes, [2.5, 97.5]).tolist() if len(changes) else (change, change)
    return Change(change, (low, high), two_sided_p(change / error) if error else float(not change), True)


def resampled_weights(items: Sequence[Row]) -> Floats:
    """Return how often each item is drawn, (draws, items); items of a cluster are drawn together."""
    rng = np.random.default_rng(SEED)
    weights = np.zeros((DRAWS, len(items)))
    sets: dict[str, dict[str, list[int]]] = {}
    for row, item in enumerate(items):
        sets.setdefault(str(item.get("set", "")), {}).setdefault(str(item.get("cluster", row)), []).append(row)
    for clusters in sets.values():
        counts = rng.multinomial(len(clusters), [1 / len(clusters)] * len(clusters), size=DRAWS)
        for column, rows in enumerate(clusters.values()):
            weights[:, rows] = counts[:, column, None]
    return weights


def preferred(items: Sequence[Row], weights: Floats) -> Floats:
    """Percentage of pairs whose first sentence is preferred: CrowS-Pairs."""
    wins = [100.0 * (item["more"] > item["less"]) + 50.0 * (item["more"] == item["less"]) for item in items]
    return mean(np.array(wins), weights)


def positive(items: Sequence[Row], weights: Floats) -> Floats:
    """Percentage of items with a value above 0: WinoBias."""
    return mean(np.array([100.0 * (item["value"] > 0) + 50.0 * (item["value"] == 0) for item in items]), weights)


def mean(values: Floats, weights: Floats) -> Floats:
    """Weighted means, one for each draw."""
    return np.asarray(weights @ values / weights.sum(axis=1))


def correlation(items: Sequence[Row], weights: Floats) -> Floats:
    """Correlation of the values with shares of women."""
    x, y = (np.array([float(item[key]) for item in items]) for key in ("value", "share"))
    a, b = mean(x, weights), mean(y, weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt((mean(x * x, weights) - a * a) * (mean(y * y, weights) - b * b))
        return np.asarray((mean(x * y, weights) - a * b) / spread)


def effect_size(items: Sequence[Row], weights: Floats) -> Floats:
    """Effect size of WEAT: difference of the means of two sets over the deviation of all."""
    values = np.array([float(item["value"]) for item in items])
    values = values / (np.abs(values).max() or 1.0)  # the size has no unit, and small squares lose digits
    first = np.array([item["set"] == items[0]["set"] for item in items])
    gap = mean(values[first], weights[:, first]) - mean(values[~first], weights[:, ~first])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(gap / np.sqrt(mean(values * values, weights) - mean(values, weights) ** 2))


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
    """The measures of a model, one column for each stage; a significant change is bold."""
    found = kept["catalog"][model]
    names = (*LANGUAGE_MODEL, *LANGUAGE_MODEL_COSTS) if found["causal"] else (*ENCODER, *ENCODER_COSTS)
    stages = found["stages"]
    lines = ["| measure | better | " + " | ".join(stages) + " |", "|---|---|" + "--:|" * len(stages)]
    for name in names:
        rows = [content["shown"].get(name) for content in stages.values()]
        if any(rows):
            lines.append(f"| {name} | {found['better'][name]} | " + " | ".join(map(cell, rows)) + " |")
    return "\n".join(lines)


def catalog_models(kept: Row, _: str) -> str:
    """What was audited: size, stages, measures, and what was lost."""
    heads = ("model", "stages", "scores", "undefined", "with lost items", "tests", "precision", "seconds")
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "--:|" * (len(heads) - 1)]
    for name, found in kept["catalog"].items():
        rows = found["stages"][ORIGINAL]["all"].values()
        seconds = sum(content.get("seconds", 0.0) for content in found["stages"].values())
        cells = [len(found["stages"]), len(rows), len(found["undefined"]), sum(bool(row[4]) for row in rows)]
        cells += [found["tests"], found["machine"]["precision"], f"{seconds:,.0f}"]
        lines.append(f"| {name} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def cell(row: Row | None) -> str:
    """A value with its interval, bold where the change from the original is significant."""
    if row is None:
        return ""
    if row["value"] is None:
        return "–"
    bounds = f" [{row['interval'][0]:.3g}, {row['interval'][1]:.3g}]" if row.get("interval") else ""
    number = f"{row['value']:.3g}"
    return (f"**{number}**" if row.get("change_p_holm", 1.0) < SIGNIFICANT else number) + bounds


def catalog_changes(kept: Row, model: str) -> str:
    """The significant changes of a model after Holm's correction, beside what the control does."""
    heads = (
        "method",
        "measure",
        "before",
        "after",
        "change",
        "95 % interval",
        "p, Holm",
        "control",
        "p against it, Holm",
    )
    lines = ["| " + " | ".join(heads) + " |", "|---|---|" + "--:|" * (len(heads) - 2)]
    stages = kept["catalog"][model]["stages"]
    for stage, content in stages.items():
        for label, row in content["shown"].items():
            if row.get("change_p_holm", 1.0) >= SIGNIFICANT:
                continue
            what = " (log)" if label.partition(":")[0] in LOGARITHMIC else ""
            control = stages.get(content["control"], {}).get("shown", {}).get(label, {})
            against = row.get("against_control")
            cells = [
                stage,
                f"{label}{what}",
                f"{stages[ORIGINAL]['shown'][label]['value']:.3g}",
                f"{row['value']:.3g}",
                f"{row['change']:+.3g}",
                "{:+.3g} to {:+.3g}".format(*row["change_interval"]),
                small(row["change_p_holm"]),
                f"{control['value']:.3g}" if control.get("value") is not None else "",
                small(against["change_p_holm"]) if against else "",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) if len(lines) > 2 else "No change is significant after Holm's correction."


def small(p: float) -> str:
    """A p-value; the size of very small ones says nothing."""
    return f"{p:.2g}" if p >= SMALLEST else f"< {SMALLEST:g}"


def rounded(value: Any) -> Any:
    """Plain data with fewer digits."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    return float(f"{value:.{PLACES}g}") if isinstance(value, float) else value
