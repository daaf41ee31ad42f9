"""JSON lines, and tables in CSV or TSV: one document a record, its text in a named field."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from functools import partial
from typing import IO, Any

from evenhand.corpus.counting.text_stream import document
from evenhand.corpus.readers.read_log import Account
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


ROWS = 4096
ARROW_FILE = b"ARROW1"


def read_parquet(stream: IO[bytes], name: str, how: How, account: Account) -> Iterator[str]:
    """The rows of a Parquet file, a few thousand at a time."""
    import polars as pl

    yield from _rows(lambda: _batches(pl.scan_parquet(stream), name, how.field), name, account)


def read_arrow(stream: IO[bytes], name: str, how: How, account: Account) -> Iterator[str]:
    """An Arrow file, or the Arrow stream that Hugging Face data sets write; one file at a time is held in memory."""
    import polars as pl

    def batches() -> Iterator[Any]:
        data = stream.read()
        if data.startswith(ARROW_FILE):
            yield from _batches(pl.scan_ipc(data), name, how.field)
            return
        table = pl.read_ipc_stream(data)
        if how.field not in table.columns:
            raise no_field(name, how.field, table.columns)
        yield table[how.field]

    yield from _rows(batches, name, account)


def _batches(table: Any, name: str, field: str) -> Iterator[Any]:
    known = table.collect_schema().names()
    if field not in known:
        raise no_field(name, field, known)
    for batch in table.select(field).collect_batches(chunk_size=ROWS):
        yield batch[field]


def _rows(batches: Any, name: str, account: Account) -> Iterator[str]:
    import polars as pl

    number = 0
    try:
        for batch in batches():
            for text in batch:
                number += 1
                if isinstance(text, str):
                    yield document(text)
                else:
                    account.bad_record(f"{name}, row {number}", f"{in_words(text)} instead of text", "fill it in")
    except (pl.exceptions.PolarsError, OSError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{name}: could not be read ({error})", hint="fetch or write the file again") from error
