"""Text files with one record to a line, and what can be wrong with them in any such file."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from evenhand.errors import FormatError
from evenhand.files import open_bytes

SHOWN = 60


@contextlib.contextmanager
def opened_text(path: Path) -> Iterator[IO[str]]:
    """The file as text, unpacked; what is not UTF-8 or no table is an error that names it."""
    with open_bytes(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        try:
            yield text
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}: not UTF-8 text ({error.reason})", hint="save it as UTF-8") from error
        except csv.Error as error:
            raise FormatError(f"{path}: {error}", hint="is a quotation mark left open?") from error


def json_objects(text: IO[str], path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object; blank lines are passed over."""
    for line, record in enumerate(text, start=1):
        if record.strip():
            try:
                row = json.loads(record)
            except ValueError as error:
                raise FormatError(f"{path}:{line}: not valid JSON ({error})", hint="one object on each line") from error
            if not isinstance(row, dict):
                raise FormatError(f"{path}:{line}: a row is an object with named fields, got {record[:SHOWN]!r}")
            yield line, row
