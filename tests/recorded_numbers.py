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


WHOLE = RECORD.with_name("recorded_measures.json")
LONGEST = 100  # characters of a text that is recorded as it is; of others a digest
Leaf = float | str


def check_whole(part: str, value: object) -> None:
    """Compare all of some plain data with the recorded ones: numbers, texts, what is missing, and the order."""
    found = {name: leaf if isinstance(leaf, str) else float(f"{leaf:.9g}") for name, leaf in leaves(value)}
    record = json.loads(WHOLE.read_text(encoding="utf-8")) if WHOLE.exists() else {}
    if os.environ.get("RECORD_NUMBERS"):
        record = dict(sorted({**record, part: found}.items()))
        WHOLE.write_text(json.dumps(record, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    known: dict[str, Leaf] = record[part]
    differing = {
        name: (found.get(name), known.get(name))
        for name in {**known, **found}
        if not _same(found.get(name), known.get(name))
    }
    assert differing == {}, dict(list(differing.items())[:9])
    assert list(found) == list(known)


def _same(found: Leaf | None, known: Leaf | None) -> bool:
    if isinstance(found, float) and isinstance(known, int | float):
        return math.isclose(found, known, rel_tol=1e-6, abs_tol=1e-9)
    return found == known


def leaves(value: object, name: str = "") -> Iterator[tuple[str, Leaf]]:
    """Yield every number and text of plain data with its place; of long lists their numbers as `numbers` does."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if key != "definition":
                yield from leaves(part, f"{name}.{key}")
    elif isinstance(value, np.ndarray):
        yield from leaves(value.tolist(), name)
    elif isinstance(value, Sequence) and not isinstance(value, str) and len(value) <= 2:
        yield f"{name}.length", float(len(value))
        for number, part in enumerate(value):
            yield from leaves(part, f"{name}[{number}]")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from _of_list(value, name)
        texts = [f"{place}={leaf}" for one in value for place, leaf in leaves(one) if isinstance(leaf, str)]
        if texts:
            yield f"{name}.texts", _shortened("; ".join(texts))
    elif isinstance(value, int | float) and math.isfinite(value):
        yield name, float(value)
    else:
        yield name, _shortened(str(value))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else hashlib.sha256(text.encode()).hexdigest()[:16]


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
