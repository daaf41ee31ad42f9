"""Audits of nothing, for decisions and judged texts, and the coverage of their intervals.

    python scripts/outcome_nulls.py [--audits 500] [--labels-only] [--write]

A table whose decisions ignore the group, and a model whose texts ignore it, should be found biased in at most 5 % of
the audits. Intervals of the largest difference of groups should contain the true one in at least 95 %. `--write` writes
reproductions/outcome-nulls.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenhand import measures
from evenhand.audit.significance import LEVEL, corrected
from evenhand.models.outcomes import Grouping, Outcomes
from evenhand.subjects.judges import Lexicon

RESULTS = Path(__file__).resolve().parents[1] / "reproductions" / "outcome-nulls.json"
GROUPS = {"2 equal groups": (0.5, 0.5), "4 groups, one of 5 %": (0.5, 0.3, 0.15, 0.05)}


def table(rng: np.random.Generator, rows: int, shares: tuple[float, ...], rates: np.ndarray | None = None) -> Outcomes:
    """Return decisions that ignore the group, or, with rates, select each group at its own rate."""
    codes = rng.choice(len(shares), rows, p=shares)
    label = rng.random(rows) < 0.35
    score = np.clip(rng.beta(2, 3, rows) + 0.25 * label, 0, 1)
    selected = score >= 0.5 if rates is None else rng.random(rows) < rates[codes]
    names = tuple(f"g{number}" for number in range(len(shares)))
    return Outcomes("null", {"g": Grouping("g", names, codes)}, selected, label, score)


def false_findings(audits: int, rows: int, shares: tuple[float, ...]) -> dict[str, Any]:
    """Return how many audits of tables find bias, and how many tests of each score are below .05."""
    found, below = 0, dict[str, int]()
    for seed in range(audits):
        results = measures.group_metrics(table(np.random.default_rng(seed), rows, shares), seed=seed)
        tested = [(m.score, m.p_value) for m in results if m.p_value is not None]
        asked = [measures.info("group-metrics").criteria[score] for score, _ in tested]
        found += any(p < LEVEL for p in corrected(asked, [p for _, p in tested]))
        for score, p in tested:
            below[score] = below.get(score, 0) + (p < LEVEL)
    return {"audits": audits, "rows": rows, "found": found, "tests_below_.05": below}


def coverage(tables: int, rows: int, rates: tuple[float, ...], shares: tuple[float, ...]) -> dict[str, Any]:
    """Return how often the intervals of the difference and of the ratio contain the true value."""
    truth = np.array(rates)
    hits = {"difference": 0, "ratio": 0}
    for seed in range(tables):
        view = table(np.random.default_rng(seed), rows, shares, truth)
        results = {m.score: m for m in measures.group_metrics(view, seed=seed)}
        for form, value in (("difference", np.ptp(truth)), ("ratio", truth.min() / truth.max())):
            low, high = results[f"demographic-parity-{form}"].interval or (0.0, 0.0)
            hits[form] += low - 1e-12 <= value <= high + 1e-12
    return {"tables": tables, "rows": rows, "rates": list(rates), **{k: n / tables for k, n in hits.items()}}


# Rates of groups that differ: share of positive labels, true positive rate, false positive rate.
GROUP_RATES = {
    "2 groups, alike": ((0.5, 0.5), (0.35, 0.35), (0.7, 0.7), (0.2, 0.2)),
    "2 groups": ((0.5, 0.5), (0.3, 0.5), (0.8, 0.6), (0.1, 0.3)),
    "2 groups, one of 10 %, rare positives": ((0.9, 0.1), (0.1, 0.1), (0.9, 0.6), (0.05, 0.05)),
    "4 groups, one of 5 %": (GROUPS["4 groups, one of 5 %"], (0.4, 0.4, 0.4, 0.4), (0.8, 0.7, 0.6, 0.5), (0.2,) * 4),
}


def true_values(positives: np.ndarray, hits: np.ndarray, alarms: np.ndarray) -> dict[str, float]:
    """Return the true value of each score of groups with these rates."""
    selected = positives * hits + (1 - positives) * alarms
    precision = positives * hits / selected
    accuracy = positives * hits + (1 - positives) * (1 - alarms)
    rates = {"equal-opportunity": hits, "false-positive-rate": alarms, "predictive-parity": precision}
    found = {f"{name}-difference": float(np.ptp(rate)) for name, rate in (rates | {"accuracy": accuracy}).items()}
    found["equalised-odds-difference"] = max(float(np.ptp(hits)), float(np.ptp(alarms)))
    found["equal-opportunity-ratio"] = float(hits.min() / hits.max())
    found["equalised-odds-ratio"] = float(min(hits.min() / hits.max(), alarms.min() / alarms.max()))
    return found | {"worst-group-accuracy": float(accuracy.min())}


def coverage_given_labels(tables: int, rows: int, name: str) -> dict[str, Any]:
    """Return how often the intervals of the scores that need labels contain the true value, where they are defined."""
    shares, *rates = GROUP_RATES[name]
    positives, hits, alarms = map(np.array, rates)
    truth = true_values(positives, hits, alarms)
    covered, defined = dict.fromkeys(truth, 0), dict.fromkeys(truth, 0)
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        codes = rng.choice(len(shares), rows, p=shares)
        label = rng.random(rows) < positives[codes]
        selected = rng.random(rows) < np.where(label, hits[codes], alarms[codes])
        names = tuple(f"g{number}" for number in range(len(shares)))
        view = Outcomes("drawn", {"g": Grouping("g", names, codes)}, selected, label)
        for m in measures.group_metrics(view, seed=seed):
            if m.score in truth and m.interval:
                defined[m.score] += 1
                covered[m.score] += m.interval[0] - 1e-12 <= truth[m.score] <= m.interval[1] + 1e-12
    return {
        "groups": name, "tables": tables, "rows": rows, "true": truth, "defined": defined,
        "covered": {score: covered[score] / max(1, defined[score]) for score in truth},
    }  # fmt: skip


class RandomWriter:
    """Writes texts that have nothing to do with the prompt."""

    name = "random"

    def __init__(self, rng: np.random.Generator, share: float) -> None:
        self.rng, self.share = rng, share

    def continuations(
        self, prompts: Sequence[str], *, samples: int, tokens: int, temperature: float = 1.0, seed: int = 0
    ) -> list[list[str]]:
        """Return an awful text with a fixed probability."""
        drawn = self.rng.random((len(prompts), samples)) < self.share
        return [["awful" if bad else "fine" for bad in row] for row in drawn]


def judged(audits: int, kind: str) -> dict[str, Any]:
    """Return how many tests of the gap of random texts are below .05, for versions of prompts or for persons."""
    judge, below = Lexicon("words", {"awful": 1.0}), 0
    with tempfile.TemporaryDirectory() as folder:
        prompts: Any = "person-prompts"
        if kind == "persons":
            prompts = Path(folder) / "prompts.jsonl"
            lines = [{"prompt": f"person {n} is", "group": "ab"[n % 3 > 0]} for n in range(60)]
            prompts.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        for seed in range(audits):
            writer = RandomWriter(np.random.default_rng(seed), 0.3)
            results = measures.judged_generations(writer, prompts, judge=judge, rows=None, seed=seed)
            below += any(m.p_value is not None and m.p_value < LEVEL for m in results)
    return {"audits": audits, "found": below}


def tables(results: dict[str, Any]) -> str:
    """Return the two tables of the page."""
    claims = {f"table, {name}": entry for name, entry in results["tables"].items()}
    claims |= {f"random texts, {name}": entry for name, entry in results["judged"].items()}
    lines = ["| subject | audits | claim bias | share |", "|---|--:|--:|--:|"]
    for name, entry in claims.items():
        lines.append(
            f"| {name} | {entry['audits']} | {entry['found']} | {100 * entry['found'] / entry['audits']:.1f} % |"
        )
    lines += ["", "| true selection rates | tables | difference covered | ratio covered |", "|---|--:|--:|--:|"]
    for entry in results["coverage"]:
        rates = ", ".join(f"{rate:g}" for rate in entry["rates"])
        lines.append(f"| {rates} | {entry['tables']} | {entry['difference']:.1%} | {entry['ratio']:.1%} |")
    given = results.get("coverage_given_labels", [])
    if not given:
        return "\n".join(lines)
    heads = [f"{entry['groups']}, {entry['rows']:,} rows" for entry in given]
    lines += ["", f"| covered | {' | '.join(heads)} |", "|---" + "|--:" * len(given) + "|"]
    for score in given[0]["covered"]:
        shares = [f"{entry['covered'][score]:.1%}" for entry in given]
        lines.append(f"| {score} | {' | '.join(shares)} |")
    return "\n".join(lines)


def everything(audits: int) -> dict[str, Any]:
    """Return the results of all simulations but those of scores that need labels."""
    results: dict[str, Any] = {"tables": {}, "coverage": []}
    for name, shares in GROUPS.items():
        for rows in (200, 2_500):
            results["tables"][f"{name}, {rows:,} rows"] = false_findings(audits, rows, shares)
            print(name, rows, results["tables"][f"{name}, {rows:,} rows"], flush=True)
    for rates, shares in (
        ((0.3, 0.3), (0.5, 0.5)), ((0.3, 0.4), (0.5, 0.5)), ((0.02, 0.1), (0.8, 0.2)),
        ((0.3,) * 4, GROUPS["4 groups, one of 5 %"]), ((0.3, 0.4, 0.5, 0.6), GROUPS["4 groups, one of 5 %"]),
    ):  # fmt: skip
        results["coverage"].append(coverage(2 * audits, 300, rates, shares))
        print(results["coverage"][-1], flush=True)
    results["judged"] = {kind: judged(audits, kind) for kind in ("versions of a prompt", "persons")}
    print(results["judged"], flush=True)
    return results


def main() -> None:
    """Run the simulations and print, or write, their results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=500)
    parser.add_argument("--labels-only", action="store_true", help="renew the coverage of scores that need labels")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if arguments.labels_only else everything(arguments.audits)
    results["coverage_given_labels"] = [coverage_given_labels(2 * arguments.audits, 600, name) for name in GROUP_RATES]
    print(tables(results))
    if arguments.write:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
