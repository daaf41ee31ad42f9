"""JSON lines, and tables in CSV or TSV: one document a record, its text in a named field."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from functools import partial
from typing import IO, Any

from evenhand.corpus.pieces import document
from evenhand.corpus.readers.account import Account
from evenhand.corpus.readers.text import How, broken, decode, text_lines
from evenhand.errors import FormatError, counted

KINDS = {
    type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list",
    dict: "an object",
}  # fmt: skip
LONGEST_FIELD = (1 << 31) - 1  # the csv module stops at 131,072 characters unless told


def read_jsonl(stream: IO[bytes], name: str, how: How, account: Account) -> Iterator[str]:
    """One JSON object a line; empty lines are passed over."""
    for number, line in enumerate(stream, start=1):
        where = f"{name}, line {number}"
        if not line.strip():
            continue
        try:
            record = json.loads(decode(line, where, how.encoding_errors))
        except json.JSONDecodeError as error:
            account.bad_record(where, f"not JSON ({error.msg})", "one JSON object a line is expected")
            continue
        except FormatError as error:
            account.bad_record(where, error.message.partition(": ")[2], error.hint)
            continue
        text = record.get(how.field) if isinstance(record, dict) else None
        if isinstance(text, str):
            yield document(text)
        else:
            account.bad_record(
                where, _missing(record, how.field), "name the field that holds the text: field= (--field)"
            )


def read_table(stream: IO[bytes], name: str, how: How, account: Account, *, delimiter: str) -> Iterator[str]:
    """A table with a header line; quoted fields may run over several lines."""
    csv.field_size_limit(LONGEST_FIELD)
    with text_lines(stream, how.encoding_errors, newline="") as lines:
        yield from _documents(csv.reader(lines, delimiter=delimiter, strict=True), name, how.field, account)


def _documents(rows: Any, name: str, field: str, account: Account) -> Iterator[str]:
    try:
        place = _column(next(rows, []), name, field)
        for row in rows:
            if not row:
                continue
            if place < len(row):
                yield document(row[place])
            else:
                account.bad_record(
                    f"{name}, line {rows.line_num}",
                    f"{counted(len(row), 'field')}, too few for {field!r}",
                    "repair the row",
                )
    except UnicodeDecodeError as error:
        raise broken(f"{name}, after line {rows.line_num}", error) from error
    except csv.Error as error:
        raise FormatError(f"{name}, line {rows.line_num}: {error}", hint="check the quotes of this table") from error


read_csv = partial(read_table, delimiter=",")
read_tsv = partial(read_table, delimiter="\t")


def _column(header: list[str], name: str, field: str) -> int:
    if field not in header:
        raise no_field(name, field, header)
    return header.index(field)


def no_field(name: str, field: str, known: list[str]) -> FormatError:
    """The error for a table that lacks the named column."""
    return FormatError(
        f"{name}: no column {field!r}", hint=f"name one with field= (--field); there are: {', '.join(known[:12])}"
    )


def in_words(value: object) -> str:
    """What kind of value stands where a text was expected, in the words of JSON."""
    return KINDS.get(type(value), f"a value of type {type(value).__name__}")


def _missing(record: object, field: str) -> str:
    if not isinstance(record, dict):
        return f"{in_words(record)} where an object was expected"
    if field in record:
        return f"field {field!r} holds {in_words(record[field])}, no text"
    return f"no field {field!r} among {', '.join(map(repr, list(record)[:8]))}"
