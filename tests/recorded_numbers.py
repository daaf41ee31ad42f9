"""Numbers that were recorded once, so that a change of any of them is seen; `RECORD_NUMBERS=1 pytest` writes them again.

The tolerance is 1e-4 of a number, because sums differ between processors and versions of libraries. A number that changes on
purpose raises the `definition` of its measure or method.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

RECORD = Path(__file__).with_name("recorded_numbers.json")
RELATIVE, ABSOLUTE = 1e-4, 1e-6
LEFT_OUT = ("seconds", "definition", "sha256", "digest", "seed", "library")


def check(part: str, value: object) -> None:
    """Compare the numbers of plain data with the recorded ones."""
    found = {key: float(f"{number:.9g}") for key, number in numbers(value)}
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    if os.environ.get("RECORD_NUMBERS"):
        record[part] = found
        RECORD.write_text(json.dumps(record, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    known: dict[str, float] = record[part]
    assert sorted(known.keys() - found.keys()) == []
    differing = {
        key: (found[key], number)
        for key, number in known.items()
        if not math.isclose(found[key], number, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    }
    assert differing == {}


def numbers(value: object, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of plain data with its place; of long lists their length, sum and order."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if key not in LEFT_OUT:
                yield from numbers(part, f"{name}.{key}")
    elif isinstance(value, np.ndarray):
        yield from numbers(value.astype(np.float64).ravel().tolist(), name)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from _of_list(value, name)
    elif isinstance(value, int | float) and math.isfinite(value):
        yield name, float(value)


def _of_list(values: Sequence[object], name: str) -> Iterator[tuple[str, float]]:
    parts = [dict(numbers(value)) for value in values]
    if len(parts) <= 4:
        for number, part in enumerate(parts):
            yield from ((f"{name}[{number}]{key}", value) for key, value in part.items())
        return
    yield f"{name}.length", float(len(parts))
    for key in sorted({key for part in parts for key in part}):
        column = np.array([part.get(key, 0.0) for part in parts])
        yield f"{name}{key}.sum", float(column.sum())
        yield f"{name}{key}.squares", float((column**2).sum())
        yield f"{name}{key}.order", float(column @ np.arange(1, len(column) + 1) / len(column))
