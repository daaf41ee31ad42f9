"""`Measurement`: what every measure returns, and all that tables, charts and files need to know of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from evenhand.arrays import Vector64
from evenhand.errors import escape_html, escape_markup
from evenhand.models.vectors import Coverage
from evenhand.registry import Registry
from evenhand.stats.units import Units

Status = Literal["ok", "undefined"]
# How a measurement is drawn, by the module of `report` that does it; it is imported when somebody looks.
PLOTS: Registry[Callable[..., object]] = Registry("plot of a measurement", ("evenhand.report",))
MeasuredItem: TypeAlias = Mapping[str, object]  # what a measurement records of one word, pair or text


@dataclass(frozen=True)
class Measurement:
    """One number with what it takes to read it: how sure, from how many words, which were lost, which way is better.

    A quantity that the data leave undefined has `status="undefined"`, `value=None` and the reason, never a silent NaN.
    `score` names the score where a measure has several. `note` says what sets this number apart from its neighbours in
    a table, such as a model that was not retrained.
    """

    measure: str
    value: float | None
    n: int
    coverage: Coverage
    status: Status = "ok"
    reason: str = ""
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    query: str = ""
    score: str = ""
    model: str = ""
    positive: str = ""
    reading: str = ""
    note: str = ""
    items: tuple[Mapping[str, Any], ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    definition: int = 1
    units: tuple[Units, ...] = field(default=(), compare=False, repr=False)
    """What the value is estimated from, by kind of unit, so that a later value is compared unit by unit."""

    @property
    def label(self) -> str:
        """Short name of the row in tables and in `check`: measure, query and score, without what repeats."""
        name = self.query if self.query.startswith(self.measure) else f"{self.measure}:{self.query}"
        name = name if self.query else self.measure
        return f"{name}:{self.score}" if self.score else name

    @property
    def not_interpretable(self) -> str:
        """Reason why the value is not a score of bias, such as failed controls; empty if it is one."""
        return str(self.details.get("not_interpretable", ""))

    def __repr__(self) -> str:
        return f"Measurement({self.label!r}, {self.summary()})"

    def __rich__(self) -> str:
        return f"[bold]{escape_markup(self.label)}[/] {escape_markup(self.summary())}"

    def _repr_html_(self) -> str:
        text = self.reading or self.reason
        reading = f"<br><small>{escape_html(text)}</small>" if text else ""
        return f"<p><b>{escape_html(self.label)}</b> {escape_html(self.summary())}{reading}</p>"

    def summary(self) -> str:
        """Return value, interval, p-value, size and losses as one line."""
        if self.value is None:
            return f"undefined: {self.reason}"
        parts = [f"{self.value:.4g}"]
        if self.interval:
            parts[0] += f" [{self.interval[0]:.4g}, {self.interval[1]:.4g}]"
        if self.p_value is not None:
            parts.append(f"p = {self.p_value:.3g}")
        if self.not_interpretable:
            parts.append("not interpretable")
        lost = len(self.coverage.missing)
        return ", ".join([*parts, f"n = {self.n:,}", *([f"{lost:,} words missing"] if lost else [])])

    def plot(self) -> Any:
        """Return a figure of the items, or of the value with its interval; a notebook shows it."""
        return PLOTS.get("plot")(self)

    def to_frame(self) -> Any:
        """Return the items as a data frame, one row per word or pair."""
        from evenhand.arrays import frame

        return frame([dict(item) for item in self.items])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, in the order a person reads it."""
        return {
            "measure": self.measure,
            "query": self.query,
            "score": self.score,
            "model": self.model,
            "status": self.status,
            "reason": self.reason,
            "value": self.value,
            "interval": list(self.interval) if self.interval else None,
            "p_value": self.p_value,
            "n": self.n,
            "positive": self.positive,
            "reading": self.reading,
            "note": self.note,
            "coverage": self.coverage.to_dict(),
            "details": dict(self.details),
            "params": dict(self.params),
            "seed": self.seed,
            "definition": self.definition,
            "items": [dict(item) for item in self.items],
            "units": [units.to_dict() for units in self.units],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Measurement:
        """Read the output of `to_dict`; the record keeps how many words were found, not which ones."""
        lost = record["coverage"]
        words = tuple(str(item["word"]) for item in record["items"] if "word" in item)
        coverage = Coverage(
            words if len(words) == lost["found"] else _unnamed(lost["found"]), tuple(lost["missing"]), lost["respelt"]
        )
        plain = {key: value for key, value in record.items() if key not in ("coverage", "interval", "items", "units")}
        interval = record["interval"]
        return cls(
            **plain,
            coverage=coverage,
            interval=(interval[0], interval[1]) if interval else None,
            items=tuple(record["items"]),
            units=tuple(Units.from_dict(units) for units in record.get("units", ())),
        )


@functools.lru_cache(maxsize=8)
def _unnamed(count: int) -> tuple[str, ...]:
    """Return a place for each word that was found and is not named; measurements of one size share it."""
    if count > LARGEST_VOCABULARY:
        raise ValueError(f"{count:,} words found, more than any vocabulary has")
    return ("",) * count


def undefined(measure: str, reason: str, coverage: Coverage, **fields: Any) -> Measurement:
    """A measurement that says why there is no number."""
    return Measurement(measure, None, 0, coverage, status="undefined", reason=reason, **fields)


LARGEST_VOCABULARY = 10_000_000  # words; a record that claims more is damaged
MOST = 400  # every list we ship stays whole; a vocabulary of tens of thousands would only fill the record


def word_items(words: Sequence[str], values: Vector64, **columns: Sequence[object]) -> tuple[MeasuredItem, ...]:
    """One item a word in the order given; of more than `MOST` words, those whose value is largest in size."""
    chosen = np.arange(len(words))
    if len(words) > MOST:
        chosen = np.sort(np.argsort(-np.abs(values), kind="stable")[:MOST])
    return tuple(
        {"word": words[row], "value": float(values[row])} | {name: column[row] for name, column in columns.items()}
        for row in chosen.tolist()
    )
