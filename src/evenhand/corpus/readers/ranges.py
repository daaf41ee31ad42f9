"""A part of a large file: the lines that begin between two of its bytes.

The parts of a file are fixed by its size alone. Each finds its own lines, so that nobody has to read the file before it
is shared out: a line belongs to the part in which it begins, however far it runs, and no line to two.
"""

from __future__ import annotations

import io
from itertools import pairwise
from typing import IO, Any, NamedTuple

BLOCK = 1 << 20


class Span(NamedTuple):
    """A file, or the lines of it that begin from one byte on and before another."""

    file: str
    start: int = 0
    stop: int | None = None  # None: the whole file

    @property
    def name(self) -> str:
        """How messages name it; lines are counted from its first."""
        return f"{self.file} (from byte {self.start:,} on)" if self.start else self.file


def spans(file: str, size: int, at_most: int) -> list[Span]:
    """A file in parts of equal size."""
    count = -(-size // at_most)
    ends = [part * size // count for part in range(count + 1)]
    return [Span(file, *two) for two in pairwise(ends)] if count > 1 else [Span(file)]


class _Between(io.RawIOBase):
    """The bytes of a stream between two places."""

    def __init__(self, stream: IO[bytes], begin: int, end: int) -> None:
        self._stream, self._left = stream, max(end - begin, 0)
        stream.seek(begin)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._stream.read(min(len(buffer), self._left))
        buffer[: len(found)] = found
        self._left -= len(found)
        return len(found)


def lines_of(stream: IO[bytes], span: Span) -> io.BufferedReader:
    """The lines of a span, whole, as a stream of their own."""
    stop = span.stop or 0
    begin = _next_line(stream, span.start, stop)
    end = _next_line(stream, stop, None) if begin < stop else begin
    return io.BufferedReader(_Between(stream, begin, end), BLOCK)


def _next_line(stream: IO[bytes], place: int, limit: int | None) -> int:
    """Where the first line begins at a place or after it; the limit, or the end of the file, where none does before."""
    if not place:
        return 0
    at = stream.seek(place - 1)  # a line begins at the place itself when the byte before it ends one
    while limit is None or at < limit:
        block = stream.read(BLOCK)
        if not block:
            break
        if (found := block.find(b"\n")) >= 0:
            return at + found + 1
        at += len(block)
    return at
