"""Write reproductions/steering.md and chat.md from the records of steering_experiment.py and chat_audits.py.

    python scripts/model_pages.py [--add NAME FOLDER]...

FOLDER holds `steering/sites`, `steering/likelihood`, `chat` and `precision/*`. Its scores, changes and manifests go to
reproductions/steering.json and chat.json under NAME; then every table between `<!-- table NAME -->` and `<!-- end -->`
of the two pages is written anew from these files.

A change is tested by exchanging before and after within the units that both values share (`audit/significance.py`), and
its interval is a jackknife over the same units. Holm's correction is made over all changes of a model in one table.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.audit import Audit
from evenhand.audit.significance import paired_test
from evenhand.measures import Measurement
from evenhand.stats import holm, jackknife_interval
from evenhand.stats.units import Units

PAGES = Path(__file__).resolve().parents[1] / "reproductions"
KEPT = ("value", "interval", "p_value", "n", "status", "definition", "seed")
STEERING = {"perplexity": "perplexity", "crows-pairs-gender": "CrowS-Pairs", "pronoun-share:slope": "pronouns, slope"}
CHAT = {
    "decisions:decision-scenarios:explicit:gap": "decisions, told",
    "decisions:decision-scenarios:names:gap": "decisions, names",
    "resume-names:resume-documents:gap": "résumés",
    "bbq-chat:bbq:ambiguous": "BBQ, ambiguous",
    "bbq-chat:bbq:disambiguated": "BBQ, told",
    "bbq-chat:bbq:accuracy-ambiguous": "accuracy, ambiguous",
    "bbq-chat:bbq:accuracy-disambiguated": "accuracy, told",
    "relative-decisions:bai2025-career:bias": "roles, career",
    "relative-decisions:bai2025-power:bias": "roles, power",
    "relative-decisions:bai2025-science:bias": "roles, science",
    "word-association:bai2025-career:bias": "words, career",
    "word-association:bai2025-power:bias": "words, power",
    "word-association:bai2025-science:bias": "words, science",
}
CAUTIONS = {
    "decisions:decision-scenarios:explicit:unclear": "decisions: neither yes nor no",
    "bbq-chat:bbq:position-effect": "BBQ: position effect",
    "bbq-chat:bbq:no-option": "BBQ: no letter",
    "relative-decisions:bai2025-career:position-effect": "roles: position effect",
    "word-association:bai2025-career:unparsed": "words: lines not read",
}
PLAIN = "original"
REPORTED = ("direction", "added_length", "everywhere", "examples")
Row = dict[str, Any]


# Records ------------------------------------------------------------------------------------------------------------


def centred(measured: Measurement) -> Measurement:
    """Return a gap over names whose units have the mean over groups taken off, as `name_units` does.

    For records from before that; others stay as they are. What moves all answers alike then moves no unit.
    """
    return replace(measured, units=tuple(_centred(each) for each in measured.units))


def _centred(units: Units) -> Units:
    if units.unit != "name" or units.names is None:
        return units
    groups, codes = np.unique([name.partition(":")[0] for name in units.names], return_inverse=True)
    if len(groups) != 2:
        return units
    sign = np.where(codes == 0, 1.0, -1.0)  # which group is the first does not matter to what is taken off
    sizes, columns = np.bincount(codes)[codes], units.columns.copy()
    values = columns[:, 1] * sign * sizes / len(codes)
    off = np.mean([values[codes == number].mean() for number in range(2)])
    columns[:, 1] -= off * sign * len(codes) / sizes
    return replace(units, columns=columns)


def change(before: Measurement, after: Measurement) -> Row | None:
    """Return the change of a score with its interval and p-value; of perplexity, in per cent."""
    if before.value is None or after.value is None:
        return None
    before, after = centred(before), centred(after)
    test = paired_test(before, after)
    relative = before.measure == "perplexity"
    bounds = [difference_interval(a, b, relative) for a in before.units for b in after.units if a.unit == b.unit]
    wide = max((each for each in bounds if each), key=lambda each: each[1] - each[0], default=None)
    size = 100 * (after.value / before.value - 1) if relative else after.value - before.value
    return {"size": size, "interval": wide, "p": test.p_moved if test else None}


def difference_interval(before: Units, after: Units, relative: bool = False) -> list[float] | None:
    """Return the interval of the difference of two estimates from the same units."""
    if before.names is None or after.names is None:
        first, second = before.in_blocks(), after.in_blocks()
        tables = [first.columns, second.columns]
    else:
        places = {name: row for row, name in enumerate(after.names)}
        common = [(row, places[name]) for row, name in enumerate(before.names) if name in places]
        if not common:
            return None
        tables = [before.columns[[a for a, _ in common]], after.columns[[b for _, b in common]]]
    width = tables[0].shape[1]

    def difference(sums: Any) -> Any:
        old, new = before.values(sums[:, :width]), after.values(sums[:, width:])
        return np.log(new / old) if relative else new - old

    filled = np.hstack(tables)
    filled = filled[(filled != 0).any(axis=1)]
    bounds = jackknife_interval(difference, filled, skewed=False)
    if bounds is None:
        return None
    return [100 * (float(np.exp(one)) - 1) for one in bounds] if relative else [float(one) for one in bounds]


def about(audit: Audit) -> Row:
    """Return what a page keeps of a manifest."""
    manifest = dict(audit.manifest)
    kept = {name: manifest[name] for name in manifest if name not in ("arguments", "run", "warnings")}
    concept = kept.get("concept")
    kept |= {"concept": concept["name"]} if isinstance(concept, Mapping) else {}
    methods = list((manifest.get("arguments") or {}).get("effective", {}).get("methods", []))
    text = json.dumps({**kept, "methods": methods}, default=str)
    plain: Row = json.loads(re.sub(r"(?:hf:)?(?:/[\w.-]+)+/([\w.-]+)", r"\1", text))  # paths of the machine
    return plain


def condensed(audit: Audit, labels: Sequence[str], others: Mapping[str, Audit] | None = None) -> Row:
    """Return the scores of an audit by stage, with their changes; other audits of the same questions are stages."""
    read = {label: one for label in labels if (one := found(audit, label))}
    stages: dict[str, Row] = {}
    runs = {stage: (audit, stage) for stage in audit.stage_names} | {
        name: (other, PLAIN) for name, other in (others or {}).items()
    }
    for name, (run, stage) in runs.items():
        cells = {}
        for label, own in read.items():
            measured, before = run.get(found(run, label) or own, stage), audit.get(own)
            plain = measured.to_dict()
            cells[label] = {key: plain[key] for key in KEPT if plain.get(key) not in (None, "")}
            reason = measured.details.get("not_interpretable")
            cells[label] |= {"not_interpretable": reason} if reason else {}
            cells[label] |= {"change": change(before, measured)} if name != PLAIN else {}
        stages[name] = cells
    return {"manifest": about(audit), "stages": {name: stages[name] for name in stages if not repeats(name, stages)}}


def repeats(stage: str, stages: Mapping[str, Row]) -> bool:
    """Return whether a control of a later seed has the values of the first: its seed was not used then."""
    first = re.sub(r"seed=[1-9]\d*", "seed=0", stage)
    return first != stage and all(
        cell.get("value") == stages[first][label].get("value") for label, cell in stages[stage].items()
    )


def found(audit: Audit, label: str) -> str | None:
    """Return the row of an audit that a label of this page means."""
    measure, query, *rest = label.split(":") if ":" in label else (label, "", "")
    for own in audit.labels:
        parts = own.split(":")
        if own == label or (parts[0] == measure and [p for p in parts[1:] if p != query] == [p for p in rest if p]):
            question = audit.question(own)
            if not query or query in own or question.query == query:
                return own
    return None


def against_controls(audit: Audit, stage: str, label: str) -> float | None:
    """Return the largest p-value of the differences from the random controls of a method of the same strength."""
    own = found(audit, label)
    tests = [paired_test(audit.get(own or label, other), audit.get(own or label, stage))
             for other in controls(stage, audit.stage_names)]  # fmt: skip
    values = [test.p_moved for test in tests if test]
    return max(values) if values else None


def controls(stage: str, stages: Sequence[str]) -> list[str]:
    """Return the random controls of a stage: of the same method, site and size."""
    if stage.startswith("steering"):
        size = abs(int(re.findall(r"strength=(-?\d+)", stage)[0]))
        start = f"steering(strength={size};direction=random"
    else:
        start = "directional-ablation(direction=random"
    return [other for other in stages if other.startswith(start) and other.endswith(stage.partition("@")[2])]


def add(name: str, folder: Path) -> None:
    """Put the records of a model into both files."""
    sites, likelihood = (Audit.load(folder / "steering" / part) for part in ("sites", "likelihood"))
    (measured,) = [result.measurement for result in sites.results]
    row = condensed(likelihood, list(STEERING))
    for stage, cells in row["stages"].items():
        if stage != PLAIN and "random" not in stage:
            for label, cell in cells.items():
                cell["p_controls"] = against_controls(likelihood, stage, label)
    row["directions"] = {
        stage.name: {key: stage.report[key] for key in REPORTED if key in stage.report}
        for stage in likelihood.stages
        if stage.report and "random" not in stage.name
    }
    shares = [{key: item[key] for key in ("word", "value", "interval", "pairs")} for item in measured.items]
    row["sites"] = {"manifest": about(sites), "n": measured.n, "value": measured.value, "shares": shares}
    store("steering.json", name, row)
    precisions = {part.name: Audit.load(part) for part in sorted((folder / "precision").iterdir()) if part.is_dir()}
    first = precisions.pop("float32")
    both = {"chat": condensed(Audit.load(folder / "chat"), [*CHAT, *CAUTIONS])}
    both["precision"] = condensed(first, [*STEERING, *CHAT, *CAUTIONS], precisions)
    store("chat.json", name, both)


def store(file: str, name: str, row: Row) -> None:
    """Write a model into a file of results, numbers to six digits."""
    path = PAGES / file
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kept[name] = rounded(row)
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def rounded(value: Any) -> Any:
    """Return numbers with six digits."""
    if isinstance(value, Mapping):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


# Tables -------------------------------------------------------------------------------------------------------------


def corrected(stages: Mapping[str, Row], labels: Sequence[str]) -> dict[tuple[str, str], float]:
    """Return p-values of all changes of a table after Holm's correction; random controls are not tested."""
    keys = [
        (stage, label)
        for stage, cells in stages.items()
        if stage != PLAIN and "random" not in stage
        for label in labels
        if label in cells and (cells[label].get("change") or {}).get("p") is not None
    ]
    values = holm([stages[stage][label]["change"]["p"] for stage, label in keys])
    return dict(zip(keys, map(float, values), strict=True))


def number(value: float, digits: int = 2, sign: bool = False) -> str:
    """Return a number with a fixed number of digits."""
    text = f"{value:{'+' if sign else ''}.{digits}f}"
    return text.replace("-0." + "0" * digits, "0." + "0" * digits) if float(text) == 0 else text


def changed(cell: Row, p: float | None, digits: int, unit: str = "") -> str:
    """Return a change with its interval; bold where it is significant after correction."""
    found = cell.get("change")
    if not found:
        return "undefined"
    if unit and found["size"] > 1000:
        return f"**× {1 + found['size'] / 100:,.0f}**" if p is not None and p < 0.05 else "× many"
    text = number(found["size"], digits, sign=True) + unit
    text = f"**{text}**" if p is not None and p < 0.05 else text
    if found["interval"]:
        low, high = (number(each, digits, sign=True) for each in found["interval"])
        text += f" [{low}, {high}]"
    return text


def valued(cell: Row, digits: int) -> str:
    """Return a value with its interval."""
    if cell.get("value") is None:
        return "undefined"
    text = number(cell["value"], digits)
    if cell.get("interval"):
        text += " [{}, {}]".format(*(number(each, digits) for each in cell["interval"]))
    return text + (" †" if cell.get("not_interpretable") else "")


DIGITS = {"perplexity": 1, "crows-pairs-gender": 1}


def digits_of(label: str) -> int:
    """Return how many digits a score is shown with."""
    if label.startswith("relative-decisions"):
        return 3
    return DIGITS.get(label, 1 if label.startswith("bbq-chat:bbq:") and not label.endswith(("effect", "option")) else 2)


def title(stage: str) -> str:
    """Return how a stage is called."""
    if stage.startswith("steering"):
        strength = int(re.findall(r"strength=(-?\d+)", stage)[0])
        seed = re.findall(r"seed=(\d)", stage)
        return f"random +{abs(strength)}, seed {seed[0]}" if seed else f"steering {strength:+d}"
    if stage.startswith("directional"):
        return "ablation, random" if "random" in stage else "ablation"
    return {"system-prompt": "system prompt", "system-prompt(control=true)": "control prompt"}.get(stage, stage)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(heads)} |", "|---|" + "--:|" * (len(heads) - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def steering_table(row: Row) -> str:
    """Return effects and costs of a model, with the range of the random controls below each size."""
    stages = row["stages"]
    p_values = corrected(stages, list(STEERING))
    lines = [["", "as it is", *(valued(stages[PLAIN][label], digits_of(label)) for label in STEERING)]]
    for stage, cells in stages.items():
        if stage == PLAIN or "random" in stage:
            continue
        own = []
        for label in STEERING:
            text = changed(cells[label], p_values.get((stage, label)), digits_of(label), "%" * (label == "perplexity"))
            own.append(text + " ‡" * (cells[label].get("p_controls", 1) < 0.05))
        lines.append([stage.partition("@")[2], title(stage), *own])
        following = stage.startswith("directional") or "strength=-" not in stage
        if following and (others := controls(stage, list(stages))):
            spans = []
            for label in STEERING:
                sizes = [stages[other][label]["change"]["size"] for other in others]
                ends = [number(each, digits_of(label), sign=True) for each in (min(sizes), max(sizes))]
                spans.append(" to ".join(dict.fromkeys(ends)) + "%" * (label == "perplexity"))
            lines.append(["", title(others[0]).partition(", seed")[0], *spans])
    return table(["site", "", *STEERING.values()], lines)


def site_table(kept: Mapping[str, Row]) -> str:
    """Return the share of every fourth layer."""
    lines = []
    for name, row in kept.items():
        shares = {int(item["word"].partition(":")[2]): item["value"] for item in row["sites"]["shares"]}
        picked = [1, *range(4, max(shares) + 1, 4)]
        lines.append([name, ", ".join(f"{layer}: {shares[layer]:.2f}" for layer in picked), str(row["sites"]["n"])])
    return table(["model", "share of the difference by layer", "pairs"], lines)


def chat_values(kept: Mapping[str, Row]) -> str:
    """Return every score of every model as it is, and what makes it less readable; bold as in the other tables."""
    plain = {name: row["chat"]["stages"][PLAIN] | row["precision"]["stages"][PLAIN] for name, row in kept.items()}
    p_values: dict[tuple[str, str], float] = {}
    for name, cells in plain.items():
        tested = [
            label for label in CHAT
            if (cells.get(label) or {}).get("p_value") is not None and not cells[label].get("not_interpretable")
        ]  # fmt: skip
        found = holm([cells[label]["p_value"] for label in tested])
        p_values |= {(name, label): float(p) for label, p in zip(tested, found, strict=True)}
    lines = []
    for label, text in (CHAT | CAUTIONS).items():
        shown = [valued(cells[label], digits_of(label)) if label in cells else "not asked" for cells in plain.values()]
        sure = [p_values.get((name, label), 1.0) < 0.05 for name in plain]
        lines.append([text, *(f"**{cell}**" if bold else cell for cell, bold in zip(shown, sure, strict=True))])
    return table(["score", *kept], lines)


def changes_table(stages: Mapping[str, Row], labels: Mapping[str, str], *, sited: bool = False) -> str:
    """Return the changes of scores in every stage: a stage in each row."""
    shown = {label: text for label, text in labels.items() if label in stages[PLAIN]}
    p_values = corrected(stages, list(shown))
    lines = []
    for stage, cells in stages.items():
        if stage == PLAIN:
            continue
        own = [
            changed(cells[label], p_values.get((stage, label)), digits_of(label), "%" * (label == "perplexity"))
            for label in shown
        ]
        place = stage.partition("@")[2]
        lines.append([title(stage) + (f", {place}" if sited and place else ""), *own])
    return table(["", *shown.values()], lines)


LATER = tuple(label for label in CHAT if label.startswith(("relative", "word")))


def tables() -> dict[str, dict[str, str]]:
    """Return the tables of both pages."""
    steering, chat = (json.loads((PAGES / f"{name}.json").read_text(encoding="utf-8")) for name in ("steering", "chat"))
    earlier = {label: text for label, text in CHAT.items() if label not in LATER}
    later = {label: text for label, text in CHAT.items() if label in LATER}
    first = {"sites": site_table(steering)} | {name: steering_table(row) for name, row in steering.items()}
    second = {"values": chat_values(chat)}
    for name, row in chat.items():
        second[f"{name} people"] = changes_table(row["chat"]["stages"], earlier, sited=True)
        second[f"{name} roles"] = changes_table(row["chat"]["stages"], later, sited=True)
        second[f"{name} precision"] = changes_table(row["precision"]["stages"], STEERING | earlier)
    return {"steering.md": first, "chat.md": second}


def fill(page: str, found: Mapping[str, str]) -> str:
    """Return a page with its tables."""
    for name, text in found.items():
        pattern = rf"<!-- table {re.escape(name)} -->\n.*?<!-- end -->"
        page = re.sub(
            pattern, lambda _, t=text, n=name: f"<!-- table {n} -->\n{t}\n<!-- end -->", page, flags=re.DOTALL
        )
    return page


def main() -> None:
    """Add records and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--add", nargs=2, action="append", default=[], metavar=("NAME", "FOLDER"))
    for name, folder in parser.parse_args().add:
        add(name, Path(folder))
    for file, found in tables().items():
        path = PAGES / file
        if path.exists():
            path.write_text(fill(path.read_text(encoding="utf-8"), found), encoding="utf-8")
        for name, text in found.items():
            print(f"## {file} {name}\n{text}\n")


if __name__ == "__main__":
    main()
