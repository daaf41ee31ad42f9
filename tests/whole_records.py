"""Whole results that were recorded once, texts, order and errors included; `RECORD_NUMBERS=1 pytest` writes them again.

Where `recorded_numbers.py` keeps the numbers of long results, this keeps everything of small ones. What a number should be
is tested elsewhere, by its definition; here a change of anything that a caller sees is noticed.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.errors import EvenhandError

RECORD = Path(__file__).with_name("recorded_vector_measures.json")
RELATIVE, ABSOLUTE = 1e-6, 1e-8  # sums differ between processors
LEFT_OUT = ("definition",)  # a new number of a definition is no new result


def plain(value: Any) -> Any:
    """Return a result as lists, mappings, texts and numbers of nine digits."""
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items() if key not in LEFT_OUT}
    if isinstance(value, Sequence | frozenset) and not isinstance(value, str):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else str(value)
    return value


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the error it raises, in plain data."""
    try:
        return plain(call())
    except EvenhandError as error:
        return f"{type(error).__name__}: {error}"


def check(part: str, calls: Mapping[str, Callable[[], Any]], *, relative: float = RELATIVE) -> None:
    """Compare the results of calls with the recorded ones."""
    found = {name: outcome(call) for name, call in calls.items()}
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    if os.environ.get("RECORD_NUMBERS"):
        record[part] = found
        RECORD.write_text(_written(record), encoding="utf-8")
    known = record[part]
    assert list(found) == list(known)
    for name, value in found.items():
        assert difference(value, known[name], relative) == "", name


def difference(found: Any, known: Any, relative: float, place: str = "") -> str:
    """Say where two results differ first; empty where they agree."""
    if isinstance(found, Mapping) and isinstance(known, Mapping):
        if list(found) != list(known):
            return f"{place} has {list(found)}, recorded are {list(known)}"
        parts = [(f"{place}.{key}", found[key], known[key]) for key in known]
    elif isinstance(found, list) and isinstance(known, list) and len(found) == len(known):
        parts = [(f"{place}[{row}]", *both) for row, both in enumerate(zip(found, known, strict=True))]
    elif isinstance(found, float) and isinstance(known, float):
        close = math.isclose(found, known, rel_tol=relative, abs_tol=ABSOLUTE)
        return "" if close else f"{place} is {found}, recorded is {known}"
    else:
        return "" if (type(found), found) == (type(known), known) else f"{place} is {found!r}, recorded is {known!r}"
    return next((text for part, one, other in parts if (text := difference(one, other, relative, part))), "")


def _written(record: Mapping[str, Any]) -> str:
    """Return the record with one call on a line."""
    parts = []
    for part, found in sorted(record.items()):
        lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
        parts.append(f"{json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
