"""Text files with one record per line, read with errors that name the file and the line."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from evenhand.errors import FormatError, shown
from evenhand.files import existing, open_bytes

SHOWN = 60
SURROGATE = "\\ud"  # how JSON escapes begin that may stand for half a character


@contextlib.contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """Open a file as UTF-8 text, decompressed if its name says so.

    Raises:
        InputMissingError: If it is not a readable file.
        FormatError: If it is not UTF-8, or a table that cannot be parsed.
    """
    with open_bytes(existing(path)) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        try:
            yield text
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}: not UTF-8 text ({error.reason})", hint="save it as UTF-8") from error
        except csv.Error as error:
            raise FormatError(f"{path}: not a valid table ({error})", hint="check for an unclosed quote") from error


def json_objects(text: IO[str], path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield line number and object of each line; blank lines are skipped."""
    for line, record in enumerate(text, start=1):
        if record.strip():
            yield line, _parse_object(record, f"{path}:{line}")


def _parse_object(record: str, where: str) -> dict[str, object]:
    try:
        row = json.loads(record)
        if SURROGATE in record.lower():
            json.dumps(row, ensure_ascii=False).encode()
    except RecursionError as error:
        raise FormatError(f"{where}: the JSON is nested too deeply", hint="write one flat object per line") from error
    except UnicodeEncodeError as error:
        raise FormatError(
            f"{where}: holds half a character (a lone surrogate escape)", hint="write the text as UTF-8"
        ) from error
    except ValueError as error:  # JSONDecodeError, integers of thousands of digits
        raise FormatError(f"{where}: not valid JSON ({error})", hint="write one object per line") from error
    if not isinstance(row, dict):
        raise FormatError(f"{where}: a row must be an object with named fields, got {shown(row, most=SHOWN)}")
    return row
