"""JSON lines, CSV, TSV, Arrow and Parquet: one document per record, its text in a named field or column."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from evenhand.columnar import CHUNK, ColumnRows, MissingColumnError, TextColumn
from evenhand.corpus.readers.stream import ReadLog, document
from evenhand.corpus.readers.text import TextOptions, decode, invalid_utf8, text_lines
from evenhand.errors import FormatError, counted
from evenhand.files import TableRows, compression_of, limited_lines, record_too_long

BATCH = 8  # times the longest record: what a compressed batch or table may expand to
KINDS = {
    type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list",
    dict: "an object",
}  # fmt: skip


def read_jsonl(stream: IO[bytes], name: str, options: TextOptions, log: ReadLog) -> Iterator[str]:
    """Yield the text of one JSON object per line; empty lines are skipped."""
    for number, line in enumerate(limited_lines(stream, options.max_record), start=1):
        if line is not None and not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            if line is None:
                raise record_too_long(where, options.max_record)
            text = _json_text(line, where, options)
        except FormatError as error:
            log.bad_record(where, error.message.removeprefix(f"{where}: "), error.hint)
            continue
        yield document(text)


def _json_text(line: bytes, where: str, options: TextOptions) -> str:
    text: str = json_record(decode(line, where, options.encoding_errors), where, options.field)[options.field]
    if b"\\ud" in line or b"\\uD" in line:  # the only way to a surrogate: an escape
        return _without_surrogates(text, where, options)
    return text


def json_record(line: str, where: str, field: str) -> dict[str, Any]:
    """Return the object of a JSON line; raise `FormatError` if it is none, or has no text in a field."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise FormatError(f"{where}: not JSON ({error.msg})", hint="one JSON object per line is expected") from error
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits, or thousands of brackets
        reason = "nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        raise FormatError(f"{where}: JSON that cannot be read ({reason})", hint="repair the line") from error
    text = record.get(field) if isinstance(record, dict) else None
    if not isinstance(text, str):
        hint = "name the field that holds the text: `field=`"
        raise FormatError(f"{where}: {_describe_missing(record, field)}", hint=hint)
    return dict(record)


def _without_surrogates(text: str, where: str, options: TextOptions) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        if options.encoding_errors == "strict":
            raise FormatError(
                f"{where}: field {options.field!r} has a lone surrogate (\\u{ord(text[error.start]):04x})",
                hint="repair the text, or read it with `encoding_errors='replace'`",
            ) from error
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def read_table(stream: IO[bytes], name: str, options: TextOptions, log: ReadLog, *, delimiter: str) -> Iterator[str]:
    """Yield the rows of a table with a header line; quoted fields may span several lines."""
    with text_lines(stream, name, options, newline="") as lines:
        rows = TableRows(lines, options.max_record, name, delimiter=delimiter, strict=True)
        try:
            column = _column(next(rows, []), name, options.field)
            for row in rows:
                if column < len(row):
                    yield document(row[column])
                elif row:
                    reason = f"{counted(len(row), 'field')}, too few for {options.field!r}"
                    log.bad_record(f"{name}, line {rows.line_num}", reason, "repair the row")
        except UnicodeDecodeError as error:
            raise invalid_utf8(f"{name}, after line {rows.line_num}", error) from error
        except csv.Error as error:
            raise FormatError(
                f"{name}, line {rows.line_num}: {error}", hint="check the quotes of this table"
            ) from error


read_csv = partial(read_table, delimiter=",")
read_tsv = partial(read_table, delimiter="\t")


def _column(header: list[str], name: str, field: str) -> int:
    if field not in header:
        raise missing_column(name, field, header)
    return header.index(field)


def missing_column(name: str, field: str, columns: list[str]) -> FormatError:
    """Return the error for a table that lacks the named column."""
    return FormatError(
        f"{name}: no column {field!r}", hint=f"name one with `field=`; there are: {', '.join(columns[:12])}"
    )


def describe_kind(value: object) -> str:
    """Return the kind of a value that is not text, in the words of JSON."""
    return KINDS.get(type(value), f"a value of type {type(value).__name__}")


def _describe_missing(record: object, field: str) -> str:
    if not isinstance(record, dict):
        return f"{describe_kind(record)} where an object was expected"
    if field in record:
        return f"field {field!r} holds {describe_kind(record[field])}, not text"
    return f"no field {field!r} among {', '.join(map(repr, list(record)[:8]))}"


def read_arrow(stream: IO[bytes], name: str, options: TextOptions, log: ReadLog) -> Iterator[str]:
    """Yield the rows of an Arrow file, or of the Arrow stream that Hugging Face data sets write.

    One record batch is in memory at a time.
    """
    yield from _documents(_text_column(name, options).arrow(stream), name, options, log)


def read_parquet(stream: IO[bytes], name: str, options: TextOptions, log: ReadLog) -> Iterator[str]:
    """Yield the rows of a Parquet file, a few thousand at a time."""
    with _on_disk(stream, name, options) as path:
        yield from _documents(_text_column(name, options).parquet(path), name, options, log)


def _text_column(name: str, options: TextOptions) -> TextColumn:
    return TextColumn(name, options.field, options.max_record, limit=BATCH * options.max_record)


def _documents(blocks: Iterator[ColumnRows], name: str, options: TextOptions, log: ReadLog) -> Iterator[str]:
    """Yield the texts; log the other values."""
    row = 0
    try:
        for block in blocks:
            for place, text in enumerate(block.texts):
                row += 1
                if text is not None:
                    yield document(text)
                elif kind := block.others.get(place, ""):
                    log.bad_record(f"{name}, row {row}", f"{kind} instead of text", "fill in the value")
                else:
                    where = f"{name}, row {row}"
                    error = record_too_long(where, options.max_record)
                    log.bad_record(where, error.message.removeprefix(f"{where}: "), error.hint)
    except MissingColumnError as error:
        raise missing_column(name, options.field, list(error.columns)) from None


@contextmanager
def _on_disk(stream: IO[bytes], name: str, options: TextOptions) -> Iterator[Path]:
    """Yield the path of an uncompressed local file; anything else is copied to a temporary one."""
    if isinstance(stream, io.BufferedReader) and isinstance(stream.raw, io.FileIO) and isinstance(stream.name, str):
        yield Path(stream.name)
        return
    limit = BATCH * options.max_record if compression_of(Path(name)) else None
    with tempfile.TemporaryDirectory() as folder:
        path, size = Path(folder) / "table.parquet", 0
        with path.open("wb") as copy:
            while chunk := stream.read(CHUNK):
                size += copy.write(chunk)
                if limit is not None and size > limit:
                    raise FormatError(
                        f"{name}: the compressed file expands to more than {limit:,} bytes",
                        hint=f"decompress it first; {BATCH} times `max_record=` are allowed",
                    )
        yield path
