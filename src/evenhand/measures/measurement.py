"""`Measurement`: what every measure returns, and all that tables, charts and files need to know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from evenhand.arrays import Vector64
from evenhand.models.vectors import Coverage

Status = Literal["ok", "undefined"]


@dataclass(frozen=True)
class Measurement:
    """One number with what it takes to read it: how sure, from how many words, which were lost, which way is better.

    A quantity that the data leave undefined has `status="undefined"`, `value=None` and the reason, never a silent NaN.
    `note` is what makes this number another than its neighbours in a table, such as a model that was not retrained.
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
    model: str = ""
    positive: str = ""
    reading: str = ""
    note: str = ""
    items: tuple[Mapping[str, Any], ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    definition: int = 1

    @property
    def id(self) -> str:
        """Measure and query together, as tables and `check` name it."""
        return f"{self.measure}:{self.query}" if self.query and self.query != self.measure else self.measure

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, in the order a person reads it."""
        return {
            "measure": self.measure,
            "query": self.query,
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
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Measurement:
        """The inverse of `to_dict`; how many words were found is kept, which ones is not part of the record."""
        lost = record["coverage"]
        found = tuple(str(item["word"]) for item in record["items"] if "word" in item)
        covered = Coverage(
            found if len(found) == lost["found"] else ("",) * lost["found"], tuple(lost["missing"]), lost["respelt"]
        )
        fields = {key: value for key, value in record.items() if key not in ("coverage", "interval", "items")}
        interval = record["interval"]
        return cls(
            **fields,
            coverage=covered,
            interval=(interval[0], interval[1]) if interval else None,
            items=tuple(record["items"]),
        )


def undefined(measure: str, reason: str, coverage: Coverage, **fields: Any) -> Measurement:
    """A measurement that says why there is no number."""
    return Measurement(measure, None, 0, coverage, status="undefined", reason=reason, **fields)


MOST = 400  # every list we ship stays whole; a vocabulary of tens of thousands would only fill the record


def word_items(words: Sequence[str], values: Vector64, **columns: Sequence[Any]) -> tuple[Mapping[str, Any], ...]:
    """One item a word in the order given; of more than `MOST` words, those whose value is largest in size."""
    chosen = np.arange(len(words))
    if len(words) > MOST:
        chosen = np.sort(np.argsort(-np.abs(values), kind="stable")[:MOST])
    return tuple(
        {"word": words[row], "value": float(values[row])} | {name: column[row] for name, column in columns.items()}
        for row in chosen.tolist()
    )
