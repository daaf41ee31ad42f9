"""Numbers that were recorded once, so that a change of any of them is seen; `RECORD_NUMBERS=1 pytest` writes them again.

The tolerance is 1e-4 of a number, because sums differ between processors and versions of libraries. A number that changes on
purpose raises the `definition` of its measure or method.
"""

from __future__ import annotations

import json
import math
import os
import zlib
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


def check_all(part: str, value: object, record: Path, relative: float = RELATIVE) -> None:
    """Compare plain data with a record of everything in it: numbers with a tolerance, texts and flags exactly."""
    found = dict(leaves(value))
    known = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    if os.environ.get("RECORD_NUMBERS"):
        known[part] = {
            place: float(f"{leaf:.7g}") if isinstance(leaf, float) else leaf for place, leaf in found.items()
        }
        lines = [f"{json.dumps(name)}: {json.dumps(known[name], ensure_ascii=False)}" for name in sorted(known)]
        record.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    assert found.keys() == known[part].keys()
    differing = {
        place: (leaf, known[part][place])
        for place, leaf in found.items()
        if not _same(leaf, known[part][place], relative)
    }
    assert differing == {}


def leaves(value: object, place: str = "") -> Iterator[tuple[str, object]]:
    """Yield every number, text and flag of plain data with its place; the numbers of a long list as a few sums."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if key not in LEFT_OUT:
                yield from leaves(part, f"{place}.{key}")
        return
    if not isinstance(value, Sequence) or isinstance(value, str):
        yield place, value
    elif (len(value) > 4 and all(isinstance(part, Sequence) and not isinstance(part, str) for part in value)) or (
        len(value) > 12 and not any(isinstance(part, str) for part in value)
    ):
        yield from numbers(value, place)
    elif len(value) > 12:
        yield f"{place}.length and checksum", f"{len(value)} {zlib.crc32(repr(list(value)).encode())}"
    else:
        yield f"{place}.length", len(value)
        for number, part in enumerate(value):
            yield from leaves(part, f"{place}[{number}]")


def _same(found: object, known: object, relative: float) -> bool:
    if isinstance(found, float) and isinstance(known, int | float):
        return math.isclose(found, known, rel_tol=relative, abs_tol=max(ABSOLUTE, relative * 1e-2)) or found == known
    return type(found) is type(known) and found == known
