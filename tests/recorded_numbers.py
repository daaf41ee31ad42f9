"""Numbers that were recorded once, so that a change of any of them is seen; `RECORD_NUMBERS=1 pytest` writes them again.

The tolerance is 1e-4 of a number, because sums differ between processors and versions of libraries. A number that changes on
purpose raises the `definition` of its measure or method. Whole records are compared with their texts and their order too,
and more closely, since they come from models that are scripted.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.errors import EvenhandError

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


WHOLE = RECORD.with_name("recorded_measures.json")
SHORT = 2  # entries of a list that is recorded as it is; of others length, sums and order
LONGEST = 100  # characters of a text that is recorded as it is; of others a digest


def check_whole(part: str, value: object, *, relative: float = 1e-6, record: Path = WHOLE) -> None:
    """Compare all of a result with the recorded one: numbers, texts, what is missing, and the order."""
    found = summary(plain(value))
    known = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    if os.environ.get("RECORD_NUMBERS"):
        known = dict(sorted({**known, part: found}.items()))
        record.write_text(_written(known), encoding="utf-8")
    differing = list(differences(found, known[part], relative))
    assert not differing, differing[:9]


def outcomes(calls: Mapping[str, Callable[[], object]]) -> dict[str, object]:
    """Return the result of each call, or the error it raises."""
    found: dict[str, object] = {}
    for name, call in calls.items():
        try:
            found[name] = call()
        except EvenhandError as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def plain(value: Any) -> Any:
    """Return a result as lists, mappings, texts and numbers."""
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, Sequence | frozenset) and not isinstance(value, str):
        return [plain(part) for part in value]
    return value


def _written(record: Mapping[str, Any]) -> str:
    """Return JSON with a line for each case, so that a change shows which it is."""
    parts = []
    for part, cases in record.items():
        if isinstance(cases, dict):
            lines = [f"{json.dumps(name)}: {json.dumps(case, ensure_ascii=False)}" for name, case in cases.items()]
        else:
            lines = [json.dumps(case, ensure_ascii=False) for case in cases]
        opening, closing = "{}" if isinstance(cases, dict) else "[]"
        parts.append("\n".join([f"{json.dumps(part)}: {opening}", ",\n".join(lines), closing]))
    return "\n".join(["{", ",\n".join(parts), "}", ""])


def summary(value: object) -> Any:
    """Return plain data with nine digits of each number, long lists as their sums, and long texts as a digest."""
    if isinstance(value, Mapping):
        return {key: summary(part) for key, part in value.items() if key == "seed" or key not in LEFT_OUT}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [summary(part) for part in value] if len(value) <= SHORT else _summed(value)
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else str(value)
    return value if isinstance(value, int | None) else _shortened(str(value))


def _summed(values: Sequence[object]) -> dict[str, object]:
    parts = [dict(numbers(value)) for value in values]
    columns: dict[str, list[float]] = {}
    for key in sorted({key for part in parts for key in part}):
        column = np.array([part.get(key, 0.0) for part in parts])
        sums = column.sum(), (column**2).sum(), column @ np.arange(1, len(column) + 1)
        columns[key] = [float(f"{number:.9g}") for number in sums]
    texts = "; ".join(text for value in values for text in _texts(value))
    return {"length": len(values), **columns, "texts": _shortened(texts)}


def _texts(value: object, name: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _texts(part, f"{name}.{key}")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from _texts(part, name)
    elif not isinstance(value, int | float) or not math.isfinite(value):
        yield f"{name}={value}"


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(found: Any, known: Any, relative: float, place: str = "") -> Iterator[tuple[str, object, object]]:
    """Yield the places where two summaries differ, with what is there."""
    if isinstance(found, dict) and isinstance(known, dict):
        if list(found) != list(known):
            yield place, list(found), list(known)
        for key in found.keys() & known.keys():
            yield from differences(found[key], known[key], relative, f"{place}.{key}")
    elif isinstance(found, list) and isinstance(known, list) and len(found) == len(known):
        for number, parts in enumerate(zip(found, known, strict=True)):
            yield from differences(*parts, relative, f"{place}[{number}]")
    elif isinstance(found, int | float) and isinstance(known, int | float):
        if not math.isclose(found, known, rel_tol=relative, abs_tol=relative / 100):
            yield place, found, known
    elif found != known:
        yield place, found, known


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
