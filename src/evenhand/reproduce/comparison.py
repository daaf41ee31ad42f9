"""Published numbers beside ours: estimates with their intervals, the rule of agreement, and whether a claim holds.

`recorded` reads the results of experiments that train models or read fetched texts from `data/recorded.json`, which
`scripts/reproduce_recorded.py` writes from the results in `reproductions/`.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, Literal, TypedDict

from evenhand.errors import UsageError
from evenhand.reproduce.published import PaperItem, change_row

PaperVerdict = Literal["yes", "unclear", "no"]
Key = tuple[str, str]
LEVEL = 0.95
RULE = (
    "low and high: our 95 % interval. agrees: yes if the published number lies in it, or, where ours has none, within "
    "the tolerance of the table; no if it lies outside the range of 95 % of single runs; unclear between the two, "
    "where the spread of seeds explains the difference. One run of ours alone never says no. The papers have one run "
    "for each number."
)
CLAIM_RULE = (
    "holds: yes if our 95 % interval lies on the side that the paper claims for every number concerned, no if one "
    "lies on the other side, unclear otherwise."
)


@dataclass(frozen=True)
class Estimate:
    """A number of ours: the mean over n models with its deviation, or a value with an interval of its own."""

    value: float
    sd: float | None = None
    n: int = 0
    """Number of trained models; 0 for a value that no training decides, such as one of given vectors."""
    given: tuple[float, float] | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> Estimate:
        """Return mean and standard deviation over models."""
        found = list(values)
        return cls(statistics.fmean(found), statistics.stdev(found) if len(found) > 1 else None, len(found))

    @property
    def single(self) -> bool:
        """Whether this is one run whose spread is not known."""
        return self.n == 1 and self.given is None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval: the one given, else Student's interval of the mean; None for a single model."""
        if self.given is not None or self.sd is None:
            return self.given
        return self._around(math.sqrt(1 / self.n))

    @property
    def runs(self) -> tuple[float, float] | None:
        """The range of 95 % of single further runs; None without several models."""
        return None if self.sd is None else self._around(math.sqrt(1 + 1 / self.n))

    def _around(self, factor: float) -> tuple[float, float]:
        half = student(self.n - 1) * (self.sd or 0.0) * factor
        return self.value - half, self.value + half

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        interval = list(self.interval) if self.interval else None
        return {"value": self.value, "sd": self.sd, "models": self.n, "interval": interval}


@lru_cache(maxsize=64)
def student(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's distribution with whole degrees of freedom, by bisection.

    Listing the papers takes half as long without scipy.
    """
    low, high = 0.0, math.pi / 2
    while high - low > 1e-15:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < LEVEL else (low, middle)
    return math.sqrt(degrees) * math.tan(low)


def _within(angle: float, degrees: int) -> float:
    """Return P(|t| <= sqrt(degrees) tan(angle)), which is a finite sum for whole degrees of freedom."""
    odd = degrees % 2
    cosine, term, total = math.cos(angle), math.cos(angle) if odd else 1.0, 0.0
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    return (angle + math.sin(angle) * total) * 2 / math.pi if odd else math.sin(angle) * total


@dataclass(frozen=True)
class PaperTable:
    """Named columns and rows of plain values; None is a cell that is undefined or was not published."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise UsageError(f"{self.title}: {len(row)} cells for {len(self.columns)} columns: {row!r}")

    def column(self, name: str) -> tuple[Any, ...]:
        """The cells under one heading."""
        place = self.columns.index(name)
        return tuple(row[place] for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "columns": list(self.columns), "rows": rows, "notes": list(self.notes)}


@dataclass(frozen=True)
class Series:
    """Numbers of ours for one table, from one kind of model or text, by row and column."""

    name: str
    values: Mapping[Key, Estimate]
    recorded: bool = False
    manifest: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    table: PaperTable | None = None
    """More columns or rows than the paper has."""


@dataclass(frozen=True)
class ComparedNumber:
    """One published number beside one of ours."""

    row: str
    column: str
    series: str
    published: float | None
    ours: Estimate
    agrees: PaperVerdict | None

    @property
    def difference(self) -> float | None:
        """Ours minus the published one."""
        return None if self.published is None else self.ours.value - self.published

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        where = {"row": self.row, "column": self.column, "series": self.series, "published": self.published}
        return {**where, **self.ours.to_dict(), "difference": self.difference, "agrees": self.agrees}


@dataclass(frozen=True)
class PaperComparison:
    """A table or figure of a paper beside ours."""

    item: PaperItem
    series: tuple[Series, ...]
    missing: tuple[str, ...] = ()
    """What of the table is not there, and why."""

    @property
    def numbers(self) -> tuple[ComparedNumber, ...]:
        """Every number of ours beside the published one, in the order of the paper, then what the paper lacks."""
        published = self.item.published()
        order = {key: place for place, key in enumerate(published)}
        found = []
        for series in self.series:
            for (row, column), ours in series.values.items():
                theirs = published.get((row, column))
                agrees = None if column in self.item.uncompared else agreement(theirs, ours, self.item)
                found.append(ComparedNumber(row, column, series.name, theirs, ours, agrees))
        return tuple(sorted(found, key=lambda one: order.get((one.row, one.column), len(order))))

    @property
    def counts(self) -> dict[PaperVerdict, int]:
        """Number of published numbers by whether ours agree; each series counts."""
        verdicts = [one.agrees for one in self.numbers]
        return {verdict: verdicts.count(verdict) for verdict in ("yes", "unclear", "no")}

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Rows of the paper for which ours has nothing."""
        covered = {row for series in self.series for row, _ in series.values}
        return tuple(row for row in (self.item.rows or {}) if row not in covered)

    @property
    def holds(self) -> dict[str, PaperVerdict | None]:
        """Whether the claim of the paper holds in each series; None where a number for it is missing."""
        return {series.name: claim(self.item, series) for series in self.series} if self.item.expect else {}

    @property
    def verdict(self) -> str:
        """Whether the claim holds over all series that test it."""
        return summary([value for value in self.holds.values() if value])

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        about = {
            name: getattr(self.item, name)
            for name in ("id", "paper", "shows", "source", "place", "claim", "how", "tolerance", "note", "reason")
        }
        return {
            **about,
            "holds": self.verdict or None,
            "holds_by_series": self.holds,
            "counts": self.counts,
            "numbers": [one.to_dict() for one in self.numbers],
            "without_ours": list(self.uncovered),
            "missing": list(self.missing),
            "series": [
                {
                    "name": s.name,
                    "recorded": s.recorded,
                    "manifest": dict(s.manifest),
                    "notes": list(s.notes),
                    "table": s.table.to_dict() if s.table else None,
                }
                for s in self.series
            ],
        }


def agreement(published: float | None, ours: Estimate, item: PaperItem) -> PaperVerdict | None:
    """Return whether a published number, which is exact to half its last place, agrees with ours by `RULE`."""
    if published is None:
        return None
    rounding = 0.5 * 10**-item.places * (1 + 1e-9)
    if ours.interval is None:
        near = abs(ours.value - published) <= item.tolerance + rounding
        return "yes" if near else "unclear" if ours.single else "no"
    if _inside(published, ours.interval, rounding):
        return "yes"
    if abs(ours.value - published) <= rounding:
        return "yes"
    explained = ours.n == 1 or (ours.runs is not None and _inside(published, ours.runs, rounding))
    return "unclear" if explained else "no"


def _inside(value: float, interval: tuple[float, float], rounding: float) -> bool:
    return interval[0] - rounding <= value <= interval[1] + rounding


def claim(item: PaperItem, series: Series) -> PaperVerdict | None:
    """Return whether the claim of a table holds in one series, by `CLAIM_RULE`; None if nothing of it is there."""
    verdicts: list[PaperVerdict] = []
    for row, column, relation, bound in item.expect:
        keys = [key for key in series.values if row in (key[0], "*") and column in (key[1], "*")]
        verdicts += [_holds(series.values[key], relation, bound) for key in keys]
    if not verdicts:
        return None
    return "no" if "no" in verdicts else "unclear" if "unclear" in verdicts else "yes"


def _holds(ours: Estimate, relation: str, bound: float) -> PaperVerdict:
    if ours.single:
        return "unclear"
    low, high = ours.interval or (ours.value, ours.value)
    if relation == "within":
        outside = low > bound or high < -bound
        return "no" if outside else "yes" if -bound <= low and high <= bound else "unclear"
    if relation == ">":
        return "yes" if low > bound else "no" if high <= bound else "unclear"
    return "yes" if high < bound else "no" if low >= bound else "unclear"


def summary(verdicts: Sequence[PaperVerdict]) -> str:
    """Return one word for the verdicts of several series: partly if some say yes and others do not."""
    if "yes" in verdicts:
        return "yes" if set(verdicts) == {"yes"} else "partly"
    return "no" if "no" in verdicts else "unclear" if verdicts else ""


def estimates(item: PaperItem, by_run: Mapping[Key, Mapping[str, float]]) -> dict[Key, Estimate]:
    """Return the estimates of rows, and of the differences of rows that the paper compares.

    Runs are named by their seed, or by seed/variant where a seed has several, such as random directions. Differences
    are paired by name, else by seed.
    """
    found = {key: Estimate.of(values.values()) for key, values in by_run.items() if values}
    for after, before in item.changes:
        for column in item.columns:
            one, other = by_run.get((after, column), {}), by_run.get((before, column), {})
            shared = [(name, name if name in other else name.partition("/")[0]) for name in one]
            if differences := [one[name] - other[base] for name, base in shared if base in other]:
                found[change_row(after, before), column] = Estimate.of(differences)
    return found


class RecordedSeries(TypedDict):
    """One series as it is written: a value is [row, column, mean, sd, models], with low and high if it has them.

    Without models (0), no training decides the value.
    """

    name: str
    values: list[list[Any]]
    manifest: dict[str, object]
    notes: list[str]


@lru_cache(maxsize=1)
def _content() -> Mapping[str, list[RecordedSeries]]:
    text = resources.files("evenhand.reproduce").joinpath("data", "recorded.json").read_text(encoding="utf-8")
    found: Mapping[str, list[RecordedSeries]] = json.loads(text)["items"]
    return found


def recorded(id: str) -> tuple[Series, ...]:
    """Return the recorded series of a table; empty if there are none."""
    return tuple(
        Series(
            one["name"],
            {(str(row), str(column)): _estimate(*rest) for row, column, *rest in one["values"]},
            recorded=True,
            manifest=one["manifest"],
            notes=tuple(one["notes"]),
        )
        for one in _content().get(id, ())
    )


def _estimate(value: float, sd: float | None, n: int, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value, sd, n, None if low is None or high is None else (low, high))
