"""What was done to vectors, kept with them: inside a file of ours, or in a small file beside any other.

`<file>.history.json` names the content it belongs to by its hash, so that a file that was replaced since is never
credited with another's history.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.errors import FormatError
from evenhand.files import write_text

if TYPE_CHECKING:
    from evenhand.models.vectors.table import History, Vectors

LAYOUT = "evenhand-history-1"
LARGEST = 64 << 20


def as_json(account: object) -> str:
    """A source or a history as JSON; arrays and numpy's numbers become lists and numbers."""
    try:
        return json.dumps(account, sort_keys=True, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(
            f"the source or history of the vectors cannot be written as JSON ({error})",
            hint="keep text, numbers, lists and dicts of them in it",
        ) from error


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a {type(value).__name__} is no plain data")


def source_from(text: str) -> dict[str, Any]:
    """The inverse of `as_json` for a source; a `ValueError` when it is none."""
    found = _parsed(text)
    if not isinstance(found, dict) or not isinstance(found.get("notes", []), list):
        raise ValueError("its source is no JSON object with a list of notes")
    return found


def history_from(text: str) -> History:
    """The inverse of `as_json` for a history; a `ValueError` when it is none."""
    return _steps(_parsed(text))


def _steps(found: object) -> History:
    if not isinstance(found, list) or not all(isinstance(step, dict) for step in found):
        raise ValueError("its history is no JSON list of objects")
    return tuple(found)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its JSON is nested without end") from error


def beside(path: Path) -> Path:
    """Where the history of a file lies, if it has one that the file itself cannot hold."""
    return path.with_name(f"{path.name}.history.json")


def write_beside(path: Path, vectors: Vectors, digest: str) -> None:
    """Write the history of the vectors in the file `path`, whose SHA-256 is `digest`."""
    account = {
        "layout": LAYOUT,
        "file": path.name,
        "sha256": digest,
        "words": len(vectors),
        "dim": vectors.dim,
        "history": list(vectors.history),
    }
    write_text(beside(path), as_json(account) + "\n")


def read_beside(path: Path, digest: str) -> tuple[Sequence[Mapping[str, Any]], str]:
    """The history beside a file of this SHA-256, and a note when there is one that is not the file's."""
    source = beside(path)
    try:
        if source.stat().st_size > LARGEST:
            raise ValueError("too large for a history")
        account = source_from(source.read_text(encoding="utf-8"))
        if account.get("layout") != LAYOUT or account.get("sha256") != digest:
            raise ValueError(f"written for another content of {path.name}")
        return _steps(account.get("history")), ""
    except (OSError, ValueError) as error:
        return (), f"{source.name} was left out of account: {error}; remove it, or write the vectors again"
