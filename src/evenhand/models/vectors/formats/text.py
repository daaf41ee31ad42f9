"""GloVe text, word2vec text and fastText .vec: a word and its numbers on each line, with or without a header line."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

from evenhand.errors import FormatError
from evenhand.files import compression_of, open_bytes, writing
from evenhand.models.vectors.formats.blocks import BLOCK_BYTES, line_blocks
from evenhand.models.vectors.formats.format import Parsed, ReadOptions
from evenhand.models.vectors.formats.growing import GrowingMatrix
from evenhand.models.vectors.formats.rows import NEWLINE, Layout, parse_block
from evenhand.models.vectors.table import Vectors

MAX_DIM = 100_000
WRITE_ROWS = 20_000


def read(path: Path, options: ReadOptions) -> Parsed:
    """Read any of the three layouts; the first lines tell which."""
    with open_bytes(path) as stream:
        start = _first_lines(stream, path)
        header, body = _split_header(start)
        layout = _layout(path, body, header, options)
        words, matrix = _read_rows(stream, body, layout, options.limit, 2 if header else 1)
    if header and options.limit is None:
        _check_header(path, header, len(words))
    return Parsed(words, matrix, first_line=2 if header else 1)


def _first_lines(stream: IO[bytes], path: Path) -> bytes:
    start = stream.read(1 << 20)
    if not start.strip():
        raise FormatError(f"{path}: the file is empty", hint="fetch it again")
    if b"\0" in start:
        raise FormatError(
            f"{path}: binary data where text was expected",
            hint="name the format: --format word2vec-bin or fasttext-bin, or give the file its usual suffix",
        )
    return start


def _split_header(start: bytes) -> tuple[tuple[int, int] | None, bytes]:
    """A first line of two whole numbers is word2vec's header: rows and dimension."""
    first, _, rest = start.partition(b"\n")
    fields = first.split()
    if len(fields) == 2 and all(field.isdigit() and len(field) < 12 for field in fields):
        return (int(fields[0]), int(fields[1])), rest
    return None, start


def _layout(path: Path, body: bytes, header: tuple[int, int] | None, options: ReadOptions) -> Layout:
    complete = body.rpartition(b"\n")[0] or body
    lines = [line.removesuffix(b"\r") for line in complete.split(b"\n")[:100]]
    separator = b"\t" if lines[0].count(b"\t") > lines[0].count(b" ") else b" "
    trailing = int(all(line.endswith(separator) for line in lines if line))
    # Tokens with separators in them only add fields, so the shortest of the first lines has the true dimension.
    counted = min((line.count(separator) for line in lines if line), default=0) - trailing
    dim = header[1] if header else counted
    if not 1 <= dim <= MAX_DIM or counted < 1:
        raise FormatError(
            f"{path}: the first lines are no word vectors ({max(dim, 0)} numbers a line)",
            hint="expected lines of a word and its numbers, separated by single spaces or tabs",
        )
    return Layout(path, dim, separator, trailing, options.encoding_errors)


def _read_rows(
    stream: IO[bytes], body: bytes, layout: Layout, limit: int | None, line: int
) -> tuple[list[str], np.ndarray]:
    words: list[str] = []
    matrix = GrowingMatrix(layout.dim)
    size = BLOCK_BYTES if limit is None else 1 << 20
    for block in line_blocks(stream, body, size):
        if b"\r\n" in block[-2:]:
            block = block.replace(b"\r\n", b"\n")
        if limit is not None:
            block = _first(block, limit - len(words))
        count = int(np.count_nonzero(np.frombuffer(block, np.uint8) == NEWLINE))
        if not matrix.rows:
            matrix.expect(_rows_by_size(layout.path, len(block), count))
        words += parse_block(block, layout, matrix.reserve(count), line)
        line += count
        if limit is not None and len(words) >= limit:
            break
    return words, matrix.finish()


def _rows_by_size(path: Path, block: int, rows: int) -> int:
    """How many rows the file should have if the rest looks like its first block, and a little more."""
    return 0 if compression_of(path) else int(path.stat().st_size / block * rows * 1.03)


def _first(block: bytes, lines: int) -> bytes:
    return b"".join(line + b"\n" for line in block.split(b"\n", lines)[:lines])


def _check_header(path: Path, header: tuple[int, int], rows: int) -> None:
    if header[0] != rows:
        raise FormatError(
            f"{path}, line 1: the header promises {header[0]:,} rows, the file has {rows:,}",
            hint=f"the file is cut off (fetch it again), or its first line should read '{rows} {header[1]}'",
        )


def write_glove(vectors: Vectors, path: Path) -> None:
    """Write GloVe text: no header."""
    _write(vectors, path, header=False)


def write_word2vec(vectors: Vectors, path: Path) -> None:
    """Write word2vec text, which is also fastText's .vec: a header line, then the rows."""
    _write(vectors, path, header=True)


def _write(vectors: Vectors, path: Path, *, header: bool) -> None:
    """Numbers are written as the shortest decimal that reads back to the same float32."""
    refuse_newlines(vectors.words)
    with writing(path) as out:
        if header:
            out.write(f"{len(vectors)} {vectors.dim}\n".encode())
        for start in range(0, len(vectors), WRITE_ROWS):
            rows = np.ascontiguousarray(vectors.matrix[start : start + WRITE_ROWS])
            words = pl.Series("word", vectors.words[start : start + WRITE_ROWS])
            frame = pl.from_numpy(rows).insert_column(0, words)
            out.write(frame.write_csv(None, include_header=False, separator=" ", quote_style="never").encode())


def refuse_newlines(words: object) -> None:
    """A word with a line end in it would fall apart into two rows."""
    for word in words:  # type: ignore[attr-defined]
        if "\n" in word:
            raise FormatError(f"the word {word!r} contains a line end, which this format cannot hold", hint="use .bin")
