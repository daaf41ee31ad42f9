"""Rows of plain data as a data frame of whichever library is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from evenhand.errors import UsageError

LIBRARIES = ("polars", "pandas")


def frame(rows: Sequence[Mapping[str, Any]], library: str = "") -> Any:
    """Return rows as a polars data frame, or a pandas one where polars is not installed or `library="pandas"`."""
    installed = [name for name in ((library,) if library else LIBRARIES) if find_spec(name)]
    if library and library not in LIBRARIES:
        raise UsageError(f"{library!r} is not a data frame library", hint=f"use one of {', '.join(LIBRARIES)}")
    if not installed:
        raise UsageError("no data frame library is installed", hint=f"pip install {library or LIBRARIES[0]}")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    data = {column: [row.get(column) for row in rows] for column in columns}
    module = import_module(installed[0])
    return module.DataFrame(data, strict=False) if installed[0] == "polars" else module.DataFrame(data)
