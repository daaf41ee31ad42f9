"""GloVe text, word2vec text and fastText .vec: one word and its numbers per line, with or without a header."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO

import numpy as np

from evenhand.errors import FormatError
from evenhand.files import compression_of, open_bytes, record_too_long, writing
from evenhand.models.vectors.formats import rows as blocks
from evenhand.models.vectors.formats.format import (
    MAX_RECORD,
    Format,
    Parsed,
    ReadOptions,
    register_format,
)
from evenhand.models.vectors.formats.rows import (
    BYTE_ORDER_MARK,
    GrowingMatrix,
    Header,
    Layout,
    WordRows,
    has_more_numbers,
    infer,
    parse_block,
    split_header,
)
from evenhand.models.vectors.table import Vectors

START_BYTES = 1 << 20
WRITE_ROWS = 20_000
PARSERS = 3


def read(path: Path, options: ReadOptions) -> Parsed:
    """Read any of the three layouts, detected from the first lines."""
    with open_bytes(path, kept=True) as stream:
        header, body = split_header(_first_lines(stream, path, options.max_record))
        layout = infer(path, body, header, options.encoding_errors)
        words, matrix = _read_rows(stream, body, layout, options, 2 if header else 1)
    if header and options.limit is None:
        _check_header(path, header, len(words))
    return Parsed(words, matrix, first_line=2 if header else 1)


def _first_lines(stream: IO[bytes], path: Path, max_record: int = MAX_RECORD) -> bytes:
    """Return the start of the file, with at least two complete lines if it has them."""
    start = stream.read(START_BYTES)
    while start.count(b"\n") < 2 and len(start) <= max_record and (more := stream.read(START_BYTES)):
        start += more
    if b"\n" not in start and len(start) > max_record:
        raise record_too_long(f"{path}, line 1", max_record)
    if not start.strip():
        raise FormatError(f"{path}: the file is empty", hint="fetch it again")
    if b"\0" in start:
        raise FormatError(
            f"{path}: binary data where text was expected",
            hint="name the format, `format='word2vec-bin'` or `format='fasttext-bin'`, or give its usual suffix",
        )
    # A byte order mark is not part of the first word.
    marked = start.startswith(BYTE_ORDER_MARK) and start[3:4] not in (b" ", b"\t")
    return start[3:] if marked else start


def _read_rows(stream: IO[bytes], body: bytes, layout: Layout, options: ReadOptions, line: int) -> WordRows:
    """Parse blocks of lines side by side, and collect them in their order."""
    words: list[str] = []
    matrix = GrowingMatrix(layout.dim)
    # Polars parses a block on all cores, but counting separators, transposing and copying take one core each.
    with ThreadPoolExecutor(PARSERS) as pool:
        pending: deque[Future[WordRows]] = deque()
        for first_line, block in _numbered_blocks(stream, body, layout, options, line):
            if first_line == line:
                matrix.expect(_rows_by_size(layout, block))
            pending.append(pool.submit(parse_block, block, layout, first_line))
            if len(pending) > PARSERS:
                _collect(pending.popleft().result(), words, matrix)
        while pending:
            _collect(pending.popleft().result(), words, matrix)
    return words, matrix.finish()


def _collect(parsed: WordRows, words: list[str], matrix: GrowingMatrix) -> None:
    matrix.reserve(len(parsed[0]))[:] = parsed[1]
    words += parsed[0]


def _numbered_blocks(
    stream: IO[bytes], body: bytes, layout: Layout, options: ReadOptions, line: int
) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of lines, each with the number of its first line, up to the row limit."""
    limit, first_line = options.limit, line
    size = blocks.BLOCK_BYTES if limit is None else min(blocks.BLOCK_BYTES, START_BYTES)
    reader = blocks.line_blocks(stream, layout.path, body, size, first_line=line, max_record=options.max_record)
    for raw in reader:
        block = _plain(raw, layout) if limit is None else _first(_plain(raw, layout), line + limit - first_line)
        yield first_line, block
        first_line += block.count(b"\n")
        if limit is not None and first_line >= line + limit:
            break


def _plain(block: bytes, layout: Layout) -> bytes:
    """Return the block with plain line ends, and with valid UTF-8 if errors are replaced."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    return block.decode(errors="replace").encode() if layout.encoding_errors == "replace" else block


def _rows_by_size(layout: Layout, block: bytes) -> int:
    """Estimate the number of rows from the first block, with a margin."""
    if compression_of(layout.path):
        return 0
    size = layout.path.stat().st_size
    likely = int(size / len(block) * block.count(b"\n") * 1.03)
    return min(likely, size // (2 * layout.dim))  # a number takes at least two bytes


def _first(block: bytes, lines: int) -> bytes:
    return b"".join(line + b"\n" for line in block[:-1].split(b"\n", lines)[:lines])


def _check_header(path: Path, header: Header, rows: int) -> None:
    if header[0] != rows:
        raise FormatError(
            f"{path}, line 1: the header states {header[0]:,} rows, the file has {rows:,}",
            hint=f"the file is truncated (fetch it again), or its first line should be '{rows} {header[1]}'",
        )


def write_glove(vectors: Vectors, path: Path) -> None:
    """Write GloVe text, without a header."""
    _write(vectors, path, header=b"")


def write_word2vec(vectors: Vectors, path: Path) -> None:
    """Write word2vec text, also the fastText .vec format: a header line, then the rows."""
    _write(vectors, path, header=f"{len(vectors)} {vectors.dim}\n".encode())


def _write(vectors: Vectors, path: Path, *, header: bytes) -> None:
    """Write each number as the shortest decimal that gives the same float32."""
    for word in vectors.words:
        _refuse_unreadable(word, path)
    with writing(path) as out:
        out.write(header)
        for start in range(0, len(vectors), WRITE_ROWS):
            lines = _lines(vectors, start)
            if not start:
                _refuse_ambiguous(header + lines, vectors.dim, path)
            out.write(lines)


def _lines(vectors: Vectors, start: int) -> bytes:
    rows = np.ascontiguousarray(vectors.matrix[start : start + WRITE_ROWS])
    import polars as pl  # takes 0.25 s

    words = pl.Series("word", vectors.words[start : start + WRITE_ROWS], dtype=pl.String)
    frame = pl.from_numpy(rows).insert_column(0, words)
    text: str = frame.write_csv(None, include_header=False, separator=" ", quote_style="never")
    return text.encode()


def _refuse_unreadable(word: str, path: Path) -> None:
    """Raise `FormatError` for a word that would be read back differently."""
    numbers_follow = " " in word and has_more_numbers([*word.encode().split(b" "), b"0.5"], 1)
    if not word or "\n" in word or "\0" in word or numbers_follow:
        raise FormatError(f"{path}: a text file cannot hold the word {word!r}", hint="write .safetensors")


def _refuse_ambiguous(written: bytes, dim: int, path: Path) -> None:
    """Read the first lines back, and raise `FormatError` if the layout would be misread."""
    start = _first_lines(io.BytesIO(written), path)
    header, body = split_header(start)
    try:
        layout: Layout | None = infer(path, body, header)
    except FormatError:
        layout = None
    if layout is None or (layout.dim, layout.separator) != (dim, b" ") or not written.startswith(start):
        raise FormatError(
            f"{path}: the first words contain spaces, tabs or a byte order mark, so the file could not be read back",
            hint="write .safetensors",
        )


register_format(Format("glove", "GloVe text", (".txt",), read, write_glove))
register_format(Format("word2vec", "word2vec text, with header", (".w2v", ".w2v.txt"), read, write_word2vec))
register_format(Format("fasttext", "fastText text", (".vec",), read, write_word2vec))
