"""Rows of files with labelled pairs, each as premise, hypothesis and label under whatever names the file has."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from evenhand.errors import FormatError
from evenhand.models.nli.text_rows import SHOWN, json_objects

Row: TypeAlias = Mapping[str, str]

# SNLI, MultiNLI and GLUE name the columns in the second way. gold_label comes first: some files have label1 ... label5
# of single annotators beside it, and HANS in JSON lines has both.
COLUMNS = {
    "premise": ("premise", "sentence1"),
    "hypothesis": ("hypothesis", "sentence2"),
    "label": ("gold_label", "label"),
}


def _jsonl(text: IO[str], path: Path) -> Iterator[tuple[int, Row]]:
    return ((line, _named(row, path, line)) for line, row in json_objects(text, path))


def _table(delimiter: str, quoting: Literal[0, 3]) -> Callable[[IO[str], Path], Iterator[tuple[int, Row]]]:
    return lambda text, path: _records(csv.reader(text, delimiter=delimiter, quoting=quoting), path)


def _records(rows: Any, path: Path) -> Iterator[tuple[int, Row]]:
    header: Sequence[str] | None = None
    for cells in rows:
        if not cells:
            continue
        if header is None:
            header = [cell.strip() for cell in cells]
            if _is_header(header):
                continue
            header = _headerless(cells, path)
        if len(cells) < len(header) and not _complete(header, cells):
            raise FormatError(f"{path}:{rows.line_num}: {len(cells)} columns, its header has {len(header)}")
        yield rows.line_num, _named(dict(zip(header, cells, strict=False)), path, rows.line_num)


def _is_header(cells: Iterable[str]) -> bool:
    known = {name for names in COLUMNS.values() for name in names}
    return bool(known & set(cells))


def _headerless(cells: Sequence[str], path: Path) -> Sequence[str]:
    """Three columns without a header are premise, hypothesis and label, as HANS is often passed on."""
    if len(cells) != len(COLUMNS):
        raise FormatError(
            f"{path}:1: no column of its header is known: {', '.join(cells)[:SHOWN]!r}",
            hint="name them premise, hypothesis and label, or sentence1, sentence2 and gold_label",
        )
    return tuple(COLUMNS)


def _complete(header: Sequence[str], cells: Sequence[str]) -> bool:
    """Whether a short row still has what is needed: releases leave out the last annotators' labels."""
    here = set(header[: len(cells)])
    return all(here & set(names) for names in COLUMNS.values())


def _named(row: Mapping[str, Any], path: Path, line: int) -> Row:
    found = {}
    for wanted, names in COLUMNS.items():
        name = next((name for name in names if name in row), None)
        if name is None:
            raise FormatError(
                f"{path}:{line}: no {' or '.join(names)}, only {', '.join(sorted(map(str, row)))[:SHOWN]}",
                hint="every pair needs two sentences and a label",
            )
        value = row[name]
        if isinstance(value, bool) or not isinstance(value, str | int | None):
            raise FormatError(f"{path}:{line}: its {name} is {value!r}, expected text")
        found[wanted] = "" if value is None else str(value)
    return found


READERS: dict[str, Callable[[IO[str], Path], Iterator[tuple[int, Row]]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    # Quotation marks in the published tables are part of the sentences.
    ".tsv": _table("\t", csv.QUOTE_NONE),
    ".txt": _table("\t", csv.QUOTE_NONE),
    ".csv": _table(",", csv.QUOTE_MINIMAL),
}
