"""Simulate the test of a change: how often it finds one where there is none, and where there is one.

    python scripts/change_tests.py [--samples 2000]

Each row draws units (words, pairs) before and after from a population, with a correlation between the two values of a
unit, and tests the change twice: on the same units (`stats.units.exchange_test`), and by the rule of version 0.2, which
took the two 95 % intervals for those of independent values. Results: reproductions/changes.json, and the table in
docs/explanation/intervals.md. All data are synthetic.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

import evenhand
from evenhand.measures.association.weat import effect_size_interval
from evenhand.stats import mean_interval, share_interval
from evenhand.stats.correlation import pearson_interval
from evenhand.stats.multiplicity import NORMAL_95, two_sided_p
from evenhand.stats.units import Units, correlation_units, effect_size_units, exchange_test, mean_units

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "reproductions/changes.json", ROOT / "docs/explanation/intervals.md"
BEGIN, END = "<!-- changes: written by scripts/change_tests.py -->", "<!-- end of changes -->"
LEVEL = 0.05


class Estimate(NamedTuple):
    """A value with its interval and its units."""

    value: float
    interval: tuple[float, float] | None
    units: Units


Draw = Callable[[np.random.Generator, float], tuple[Estimate, Estimate]]


def pairs(rng: np.random.Generator, size: int, correlation: float) -> tuple[np.ndarray, np.ndarray]:
    """Return two standard normal values of each unit with a correlation."""
    common, own = rng.normal(size=size), rng.normal(size=size)
    return common, correlation * common + (1 - correlation**2) ** 0.5 * own


def effect_size(words: int, before: float, after: float, scale: float = 1.0) -> Draw:
    """Return a draw of WEAT's d with `words` words a side; `scale` changes the spread of the scores, not d."""

    def draw(rng: np.random.Generator, correlation: float) -> tuple[Estimate, Estimate]:
        x, y = pairs(rng, words, correlation), pairs(rng, words, correlation)
        found = []
        for place, shift in enumerate((before, after)):
            factor = 1.0 if place == 0 else scale
            # d = delta / sqrt(1 + delta ** 2 / 4) for two normal groups whose means are delta apart
            delta = shift / (1 - shift**2 / 4) ** 0.5
            first, second = factor * (x[place] + delta), factor * y[place]
            pooled = np.concatenate([first, second])
            value = float((first.mean() - second.mean()) / pooled.std())
            units = effect_size_units("word", range(words), range(words), first, second)
            found.append(Estimate(value, effect_size_interval(first, second), units))
        return found[0], found[1]

    return draw


def mean(size: int, before: float, after: float, *, skewed: bool = False) -> Draw:
    """Return a draw of a mean over words of unit standard deviation."""

    def draw(rng: np.random.Generator, correlation: float) -> tuple[Estimate, Estimate]:
        found = []
        for values, shift in zip(pairs(rng, size, correlation), (before, after), strict=True):
            spread = (np.exp(values) - np.exp(0.5)) / ((np.e - 1) * np.e) ** 0.5 if skewed else values
            moved = spread + shift
            found.append(Estimate(float(moved.mean()), mean_interval(moved), mean_units("word", range(size), moved)))
        return found[0], found[1]

    return draw


def share(size: int, before: float, after: float) -> Draw:
    """Return a draw of a percentage of pairs, as that of CrowS-Pairs."""
    from scipy.special import ndtri

    def draw(rng: np.random.Generator, correlation: float) -> tuple[Estimate, Estimate]:
        found = []
        for values, level in zip(pairs(rng, size, correlation), (before, after), strict=True):
            hits = (values < ndtri(level)).astype(float)
            found.append(Estimate(float(hits.mean()), share_interval(hits), mean_units("pair", range(size), hits)))
        return found[0], found[1]

    return draw


def correlation_of(size: int, before: float, after: float) -> Draw:
    """Return a draw of a correlation of scores with fixed numbers, as that of occupations with shares of women."""

    def draw(rng: np.random.Generator, correlation: float) -> tuple[Estimate, Estimate]:
        numbers, found = rng.normal(size=size), []
        for noise, r in zip(pairs(rng, size, correlation), (before, after), strict=True):
            scores = r * numbers + (1 - r**2) ** 0.5 * noise
            units = correlation_units("word", range(size), scores, numbers)
            found.append(Estimate(units.value, pearson_interval(scores, numbers), units))
        return found[0], found[1]

    return draw


@dataclass(frozen=True)
class Row:
    """One population with the shares of samples in which a change is found."""

    kind: str
    what: str
    correlation: float
    changed: bool
    paired: float
    by_intervals: float
    samples: int


KINDS: list[tuple[str, str, bool, Draw]] = [
    ("effect size", "8 + 8 words, d 1.2 to 1.2", False, effect_size(8, 1.2, 1.2)),
    ("effect size", "8 + 8 words, d 1.2 to 1.2, scores shrunk to a third", False, effect_size(8, 1.2, 1.2, 1 / 3)),
    ("effect size", "8 + 8 words, d 1.6 to 0.6", True, effect_size(8, 1.6, 0.6)),
    ("effect size", "8 + 8 words, d 1.6 to 0.6, scores shrunk to a third", True, effect_size(8, 1.6, 0.6, 1 / 3)),
    ("effect size", "25 + 25 words, d 1.0 to 1.0", False, effect_size(25, 1.0, 1.0)),
    ("effect size", "25 + 25 words, d 1.0 to 0.6", True, effect_size(25, 1.0, 0.6)),
    ("mean", "20 words, no change", False, mean(20, 1.0, 1.0)),
    ("mean", "20 words, by 0.5", True, mean(20, 1.0, 0.5)),
    ("mean", "20 words, lognormal, no change", False, mean(20, 1.0, 1.0, skewed=True)),
    ("mean", "20 words, lognormal, by 0.5", True, mean(20, 1.0, 0.5, skewed=True)),
    ("percentage", "100 pairs, 60 to 60 %", False, share(100, 0.6, 0.6)),
    ("percentage", "100 pairs, 65 to 52 %", True, share(100, 0.65, 0.52)),
    ("correlation", "40 words, .5 to .5", False, correlation_of(40, 0.5, 0.5)),
    ("correlation", "40 words, .5 to .2", True, correlation_of(40, 0.5, 0.2)),
]
CORRELATIONS = (0.0, 0.6, 0.9)


def by_intervals(before: Estimate, after: Estimate) -> bool:
    """Return whether the rule of version 0.2 finds a change: two intervals as those of independent normal values."""
    if before.interval is None or after.interval is None:
        return False
    errors = [(high - low) / (2 * NORMAL_95) for low, high in (before.interval, after.interval)]
    spread = float(np.hypot(*errors))
    return bool(spread) and two_sided_p(abs(after.value - before.value) / spread) <= LEVEL


def simulate(kind: str, what: str, changed: bool, draw: Draw, correlation: float, samples: int) -> Row:
    """Return one row."""
    rng = np.random.default_rng(0)
    hits = np.zeros(2)
    for _ in range(samples):
        before, after = draw(rng, correlation)
        test = exchange_test.__wrapped__(before.units, after.units, np.abs)
        hits += [test is not None and test.p_moved <= LEVEL, by_intervals(before, after)]
    return Row(kind, what, correlation, changed, *(hits / samples).tolist(), samples)


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown."""
    lines = ["| estimate | before and after | correlation of a unit's values | same units | intervals (0.2) |"]
    lines += ["|:--|:--|--:|--:|--:|"]
    for changed in (False, True):
        title = "**a change is there: found in**" if changed else "**nothing changed: found in**"
        lines.append(f"| {title} | | | | |")
        lines += [
            f"| {row.kind} | {row.what} | {row.correlation:g} | {row.paired:.3f} | {row.by_intervals:.3f} |"
            for row in rows
            if row.changed == changed
        ]
    return "\n".join(lines)


def main() -> None:
    """Simulate every row, and write results and table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2000)
    samples = parser.parse_args().samples
    started = time.time()
    rows = [
        simulate(kind, what, changed, draw, correlation, samples)
        for kind, what, changed, draw in KINDS
        for correlation in CORRELATIONS
    ]
    manifest = {
        "seed": 0, "samples": samples, "evenhand": evenhand.__version__, "numpy": np.__version__,
        "python": platform.python_version(), "seconds": round(time.time() - started), "synthetic": True,
    }  # fmt: skip
    RESULTS.write_text(json.dumps({"manifest": manifest, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n{table(rows)}\n{END}{tail}", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
