"""JSON layout of the wink-embeddings packages: {"dimensions": d, "vectors": {"the": [d numbers, norm, rank], ...}}.

The file is parsed as a stream, because 300 MB of JSON would create 35 million Python floats.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from evenhand.errors import FormatError
from evenhand.files import open_bytes, record_too_long
from evenhand.models.vectors.formats import rows as blocks
from evenhand.models.vectors.formats.format import Format, Parsed, ReadOptions, register_format
from evenhand.models.vectors.formats.rows import MAX_DIM, GrowingMatrix, Layout, parse_block

# Possessive quantifiers: no backtracking over a long unterminated string.
ENTRY = re.compile(rb'\s*+,?\s*+("(?:[^"\\]++|\\.)*+")\s*+:\s*+\[([^\[\]"]*+)\]')
START = re.compile(rb'"vectors"\s*+:\s*+\{')
DIMENSIONS = re.compile(rb'"dimensions"\s*+:\s*+(\d{1,6})\b')
LONGEST_HEAD = 64 << 20  # it lists all words before the vectors
EXTRA = 2  # each entry ends with its norm and its rank


def read(path: Path, options: ReadOptions) -> Parsed:
    """Read the vectors in file order."""
    words: list[str] = []
    with open_bytes(path, kept=True) as stream:
        layout, start = _layout(stream, path, options)
        matrix = GrowingMatrix(layout.dim)
        for entries in _entries(stream, start, path, options.max_record):
            if entries:
                numbers = b"".join(b"x," + _numbers(row, layout.dim) + b"\n" for _, row in entries)
                matrix.reserve(len(entries))[:] = parse_block(numbers, layout, len(words) + 1)[1]
            words += [_word(key, layout, row) for row, (key, _) in enumerate(entries, len(words) + 1)]
            if options.limit is not None and len(words) >= options.limit:
                break
    rows = matrix.finish()
    return Parsed(words[: options.limit], rows[: options.limit])


def _layout(stream: IO[bytes], path: Path, options: ReadOptions) -> tuple[Layout, bytes]:
    start = b""
    while not (found := START.search(start)):
        chunk = stream.read(blocks.BLOCK_BYTES)
        if not chunk or len(start) > LONGEST_HEAD:
            raise FormatError(
                f'{path}: the "vectors" object of the wink layout is missing', hint="name another `format=`"
            )
        start += chunk
    dimensions = DIMENSIONS.search(start, 0, found.start())
    if not dimensions or not 1 <= int(dimensions[1]) <= MAX_DIM:
        raise FormatError(
            f'{path}: the key "dimensions" (1 to {MAX_DIM:,}) is missing before "vectors"',
            hint="name another `format=`",
        )
    return Layout(path, int(dimensions[1]), b",", 0, options.encoding_errors, "entry"), start[found.end() :]


def _entries(stream: IO[bytes], buffer: bytes, path: Path, max_record: int) -> Iterator[list[tuple[bytes, bytes]]]:
    done = 0
    while True:
        entries, end = [], 0
        while match := ENTRY.match(buffer, end):
            entries.append((match[1], match[2]))
            end = match.end()
        done += len(entries)
        yield entries
        buffer = buffer[end:]
        if buffer.lstrip().startswith(b"}"):
            while stream.read(blocks.BLOCK_BYTES):  # reading to the end verifies the checksum of a compressed stream
                pass
            return
        chunk = stream.read(blocks.BLOCK_BYTES)
        if len(buffer) > max_record:
            raise record_too_long(f"{path}, entry {done + 1:,}", max_record)
        if not chunk:
            raise FormatError(
                f"{path}, entry {done + 1:,}: truncated or malformed near {buffer[:60]!r}", hint="fetch the file again"
            )
        buffer += chunk


def _numbers(row: bytes, dim: int) -> bytes:
    if row.count(b",") == dim + EXTRA - 1:
        row = row.rsplit(b",", EXTRA)[0]
    return b"".join(row.split())


def _word(key: bytes, layout: Layout, number: int) -> str:
    try:
        return str(json.loads(key.decode(errors=layout.encoding_errors)))
    except ValueError as error:
        raise FormatError(
            f"{layout.path}, entry {number:,}: the key {key[:60]!r} is not a JSON string ({error})",
            hint="fetch the file again, or use encoding_errors='replace' if the keys are not valid UTF-8",
        ) from error


register_format(
    Format("wink", "JSON of the wink packages", (".json",), read, why_not_written="it is the layout of other packages")
)
