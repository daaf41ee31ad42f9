"""The recorded results of experiments that train models or read fetched texts, from `data/recorded.json`.

`scripts/reproduce_recorded.py` writes the file from the results in `reproductions/`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any, TypedDict

from evenhand.reproduce.comparison import Estimate, Series


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
