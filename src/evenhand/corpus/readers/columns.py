"""Parquet and Arrow: one document a row, its text in a named column, read in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from evenhand.corpus.pieces import document
from evenhand.corpus.readers.account import Account
from evenhand.corpus.readers.records import in_words, no_field
from evenhand.corpus.readers.text import How
from evenhand.errors import FormatError

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
