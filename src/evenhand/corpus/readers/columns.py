"""Arrow and Parquet files: one document per row, its text in a named column."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from evenhand.columnar import ColumnRequest, ColumnRows, MissingColumnError
from evenhand.corpus.counting.text_stream import document
from evenhand.corpus.readers.arrow_batches import BATCH, CHUNK, ArrowBatches
from evenhand.corpus.readers.read_log import ReadLog
from evenhand.corpus.readers.records import missing_column
from evenhand.corpus.readers.text import TextOptions
from evenhand.errors import FormatError
from evenhand.files import compression_of, record_too_long


def read_arrow(stream: IO[bytes], name: str, options: TextOptions, log: ReadLog) -> Iterator[str]:
    """Yield the rows of an Arrow file, or of the Arrow stream that Hugging Face data sets write.

    One record batch is in memory at a time.
    """
    batches = ArrowBatches(stream, name, options.max_record)
    yield from _documents(_request(name, options).arrow(batches), name, options, log)


def read_parquet(stream: IO[bytes], name: str, options: TextOptions, log: ReadLog) -> Iterator[str]:
    """Yield the rows of a Parquet file, a few thousand at a time."""
    with _on_disk(stream, name, options) as path:
        yield from _documents(_request(name, options).parquet(path), name, options, log)


def _request(name: str, options: TextOptions) -> ColumnRequest:
    return ColumnRequest(name, options.field, options.max_record, memory=2 * BATCH * options.max_record)


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
