"""History of vectors: stored inside evenhand's safetensors files, and in `<file>.history.json` for other formats.

The JSON file contains the hash of the vector file, so that it is ignored once the vector file has been replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenhand.errors import FormatError
from evenhand.files import existing, write_text

if TYPE_CHECKING:
    from evenhand.models.vectors.table import History, Vectors

ENDING = ".history.json"  # of the name of a history file
LAYOUT = "evenhand-history-1"
MAX_BYTES = 64 << 20


def as_json(record: object) -> str:
    """Serialise a source or a history; numpy arrays and scalars become lists and numbers."""
    try:
        return json.dumps(record, sort_keys=True, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(
            f"the source or history of the vectors cannot be written as JSON ({error})",
            hint="use only strings, numbers, lists and dicts",
        ) from error


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot be serialised")


def source_from(text: str) -> dict[str, object]:
    """Parse a source written by `as_json`; raise `ValueError` if it is invalid."""
    source = _parse(text)
    if not isinstance(source, dict) or not isinstance(source.get("notes", []), list):
        raise ValueError("its source is not a JSON object with a list of notes")
    return source


def notes_of(source: Mapping[str, object]) -> tuple[str, ...]:
    """Return the notes that a source carries."""
    notes = source.get("notes", ())
    return tuple(map(str, notes)) if isinstance(notes, list | tuple) else ()


def history_from(text: str) -> History:
    """Parse a history written by `as_json`; raise `ValueError` if it is invalid."""
    return _steps(_parse(text))


def _steps(steps: object) -> History:
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise ValueError("its history is not a JSON list of objects")
    return tuple(steps)


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error


def beside(path: Path) -> Path:
    """Return the path of the history file that belongs to a vector file."""
    return path.with_name(f"{path.name}{ENDING}")


def write_beside(path: Path, vectors: Vectors, digest: str) -> None:
    """Write the history file of the vector file `path`, whose SHA-256 is `digest`."""
    record = {
        "layout": LAYOUT,
        "file": path.name,
        "sha256": digest,
        "words": len(vectors),
        "dim": vectors.dim,
        "history": list(vectors.history),
    }
    write_text(beside(path), as_json(record) + "\n")


def read_beside(path: Path, digest: str) -> tuple[History, str]:
    """Return the history of a file with this SHA-256, and a note if the history file cannot be used."""
    source = beside(path)
    try:
        if existing(source).stat().st_size > MAX_BYTES:
            raise ValueError("it is too large")
        record = source_from(source.read_text(encoding="utf-8"))
        if record.get("layout") != LAYOUT or record.get("sha256") != digest:
            raise ValueError(f"it describes a different version of {path.name}")
        return _steps(record.get("history")), ""
    except (OSError, ValueError) as error:
        return (), f"{source.name} was ignored: {error}; remove it, or write the vectors again"
