"""Read the text, JSON and table files that sentence sets are published in; a damaged file raises a `FormatError`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from evenhand.errors import FormatError
from evenhand.files import existing

AGAIN = "fetch the data set again"


def read_text(path: Path, what: str) -> str:
    """Return the content of a UTF-8 file; `what` names it in errors."""
    try:
        return existing(path, what=what).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8 text (byte {error.start:,})", hint=AGAIN) from error


def read_json(path: Path, what: str) -> Any:
    """Return the value that a JSON file holds."""
    return parse_json(read_text(path, what), str(path))


def read_json_lines(path: Path, what: str) -> list[tuple[int, Any]]:
    """Return line number and value of each line that is not blank.

    Raises:
        FormatError: If a line is not JSON, or all are blank.
    """
    lines = enumerate(read_text(path, what).split("\n"), start=1)
    values = [(number, parse_json(line, f"{path}, line {number}")) for number, line in lines if line.strip()]
    if not values:
        raise FormatError(f"{path} is empty", hint=AGAIN)
    return values


def parse_json(text: str, where: str) -> Any:
    """Return the value of a JSON text; `where` names it in errors."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # also integers of thousands of digits, and thousands of brackets
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise FormatError(f"{where} is not JSON: {reason}", hint=AGAIN) from error


def read_table(path: Path, what: str, columns: tuple[str, ...], **options: Any) -> list[dict[str, str]]:
    """Return the rows of a table with a header by column; options go to `csv.DictReader`.

    Raises:
        FormatError: If a column is missing, a row has fewer fields than the header, or there is no row.
    """
    try:
        with existing(path, what=what).open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, **options)
            rows = list(reader)
            names = reader.fieldnames or []
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{path} is not a table in UTF-8 ({error})", hint=AGAIN) from error
    if missing := [column for column in columns if column not in names]:
        raise FormatError(f"{path} has no column {missing[0]!r}", hint=f"use the columns {', '.join(columns)}")
    for number, row in enumerate(rows, start=2):
        if short := [column for column in columns if row[column] is None]:
            raise FormatError(f"{path}, row {number} has no field {short[0]!r}", hint=AGAIN)
    if not rows:
        raise FormatError(f"{path} has a header and no rows", hint=AGAIN)
    return rows
