"""Plain text, and the decoding that all readers share."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, Any, NamedTuple

from evenhand.corpus.counting.text_stream import BREAKS, END
from evenhand.corpus.readers.read_log import Account
from evenhand.errors import FormatError

BLOCK = 1 << 20  # bytes read at a time; characters of a line that are held back until its end has been read
BLANKS = tuple(mark for mark in BREAKS if mark != END)


@dataclass(frozen=True)
class How:
    """The choices of a reading: what is a document, which field holds its text, what happens to broken UTF-8."""

    documents: str = "file"
    field: str = "text"
    encoding_errors: str = "strict"
    at_start: bool = True  # where a byte order mark may stand; elsewhere its bytes are text like any other


def read_text(stream: IO[bytes], name: str, how: How, account: Account) -> Iterator[str]:
    """The whole file as one document, or one document a line; never more than a few blocks in memory.

    Where the file breaks, what went out before is whole: lines, or words where the file is one document. Of a line
    of more than a million characters the words before the break have gone out too.
    """
    open_document = True  # so that an empty file is an empty document when documents are files
    for block in _whole(_decoded(stream, name, how), by_line=how.documents == "line"):
        text = block.replace("\n", END) if how.documents == "line" else block
        yield text
        open_document = how.documents == "file" or not text.endswith(END)
    if open_document:
        yield END


def _whole(blocks: Iterator[str], *, by_line: bool) -> Iterator[str]:
    """The same text cut behind lines or words, what is unfinished held back until the rest of it comes."""
    held: list[str] = []
    length = 0
    for block in blocks:
        at = 1 + (block.rfind("\n") if by_line else _last_blank(block))
        if by_line and not at and length + len(block) > BLOCK:
            at = 1 + _last_blank(block)
        if at:
            yield "".join([*held, block[:at]])
            held, length = [], 0
        held.append(block[at:])
        length += len(block) - at
    if length:
        yield "".join(held)


def _last_blank(text: str) -> int:
    return max(text.rfind(blank) for blank in BLANKS)


@contextmanager
def text_lines(stream: IO[bytes], errors: str, *, newline: str) -> Iterator[Iterator[str]]:
    """The lines of a stream as text; broken UTF-8 is an error at its own line, after all lines before it."""
    strict = errors == "strict"
    # A strict wrapper would fail for a whole buffer, together with the good lines in it.
    lines = io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape" if strict else errors, newline=newline)
    try:
        yield map(_valid, lines) if strict else lines
    finally:
        lines.detach()  # the stream is closed by whoever opened it


def _valid(line: str) -> str:
    return line if line.isascii() else line.encode("utf-8", "surrogateescape").decode("utf-8")


def decode(line: bytes, where: str, errors: str) -> str:
    """A line or a field as text."""
    try:
        return line.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise broken(where, error) from error


def broken(where: str, error: UnicodeDecodeError) -> FormatError:
    """The error for bytes that are not UTF-8."""
    bad = error.object[error.start : error.start + 4].hex(" ")
    return FormatError(
        f"{where}: not valid UTF-8 (bytes {bad})",
        hint="convert the file, or read it with encoding_errors='replace' (--encoding-errors replace)",
    )


def _decoded(stream: IO[bytes], name: str, how: How) -> Iterator[str]:
    errors = how.encoding_errors
    decoder = codecs.getincrementaldecoder("utf-8-sig" if how.at_start else "utf-8")(errors)
    # Not `read`, which gathers a full block and drops what it has when the stream fails meanwhile.
    read = getattr(stream, "read1", stream.read)
    line = 1
    while True:
        block = read(BLOCK)
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            yield error.object[: error.start].decode("utf-8").partition(END)[0]
            line += error.object[: error.start].count(b"\n")
            raise broken(f"{name}, line {line}", error) from error
        if END in text:
            if errors == "strict":
                yield text.partition(END)[0]
                raise FormatError(
                    f"{name}: holds a NUL byte, so that it is no UTF-8 text",
                    hint="convert UTF-16 to UTF-8; for stray NULs use encoding_errors='replace'",
                )
            text = text.replace(END, " ")
        line += text.count("\n")
        if text:
            yield text
        if not block:
            return


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
