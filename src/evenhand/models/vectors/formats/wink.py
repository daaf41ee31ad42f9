"""The JSON layout of the wink-embeddings packages: {"dimensions": d, "vectors": {"the": [d numbers, norm, rank], ...}}.

Read as a stream: decoding 300 MB of JSON at once would make 35 million Python floats.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from evenhand.errors import FormatError
from evenhand.files import open_bytes
from evenhand.models.vectors.formats.blocks import BLOCK_BYTES
from evenhand.models.vectors.formats.format import Parsed, ReadOptions
from evenhand.models.vectors.formats.growing import GrowingMatrix
from evenhand.models.vectors.formats.rows import Layout, parse_block

ENTRY = re.compile(rb'("(?:[^"\\]|\\.)*"):\[([^\[\]"]*)\],?')
VECTORS = b'"vectors":{'
EXTRA = 2  # after its numbers each entry has its norm and its rank


def read(path: Path, options: ReadOptions) -> Parsed:
    """Read the vectors in file order."""
    words: list[str] = []
    with open_bytes(path) as stream:
        layout, start = _layout(stream, path)
        matrix = GrowingMatrix(layout.dim)
        for entries in _entries(stream, start, path):
            numbers = b"".join(b"x," + _cut(row, layout.dim) + b"\n" for _, row in entries)
            parse_block(numbers, layout, matrix.reserve(len(entries)), len(words) + 1)
            words += [_word(key, path) for key, _ in entries]
            if options.limit is not None and len(words) >= options.limit:
                break
    rows = matrix.finish()
    return Parsed(words[: options.limit], rows[: options.limit])


def _layout(stream: IO[bytes], path: Path) -> tuple[Layout, bytes]:
    start = b""
    while VECTORS not in start:
        chunk = stream.read(BLOCK_BYTES)
        if not chunk or len(start) > 64 * BLOCK_BYTES:
            raise FormatError(f'{path}: JSON without the wink layout\'s "vectors" object', hint="name another --format")
        start += chunk
    head, _, rest = start.partition(VECTORS)
    found = re.search(rb'"dimensions":\s*(\d{1,6})\b', head)
    if not found:
        raise FormatError(f'{path}: the wink layout names its "dimensions" before its vectors, this file does not')
    return Layout(path, int(found[1]), b","), rest


def _entries(stream: IO[bytes], buffer: bytes, path: Path) -> Iterator[list[tuple[bytes, bytes]]]:
    while True:
        entries, end = [], 0
        while match := ENTRY.match(buffer, end):
            entries.append((match[1], match[2]))
            end = match.end()
        yield entries
        buffer = buffer[end:]
        if buffer.startswith(b"}"):
            return
        chunk = stream.read(BLOCK_BYTES)
        if not chunk or len(buffer) > BLOCK_BYTES:
            raise FormatError(f"{path}: cut off or malformed near {buffer[:60]!r}", hint="fetch the file again")
        buffer += chunk


def _cut(row: bytes, dim: int) -> bytes:
    return row.rsplit(b",", EXTRA)[0] if row.count(b",") == dim + EXTRA - 1 else row


def _word(key: bytes, path: Path) -> str:
    try:
        return str(json.loads(key))
    except ValueError as error:
        raise FormatError(f"{path}: the key {key[:60]!r} is no JSON string") from error
