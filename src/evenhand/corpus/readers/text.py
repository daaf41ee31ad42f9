"""Plain text, and the options and decoding that all readers share."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, NamedTuple, cast

import numpy as np

from evenhand.corpus.readers.stream import BREAKS, END, ReadLog, end_of_words
from evenhand.errors import FormatError
from evenhand.files import MAX_RECORD, LineLimit, record_too_long

BLOCK = 1 << 20  # bytes read at a time; a longer line is passed on before its end has been read
WHITESPACE = tuple(mark for mark in BREAKS if mark != END)


@dataclass(frozen=True)
class TextOptions:
    """How files are read: what a document is, which field holds its text, and what happens to bad input."""

    documents: str = "file"
    field: str = "text"
    format: str | None = None
    """None chooses the format by the file name."""
    encoding_errors: str = "strict"
    skip_bad: bool = False
    max_record: int = MAX_RECORD
    """Longest record in bytes: a JSON line, a CSV row, a web archive record, an article, or a word of plain text."""


def read_text(
    stream: IO[bytes], name: str, options: TextOptions, log: ReadLog, *, at_start: bool = True
) -> Iterator[str]:
    """Yield the whole file as one document, or one document per line; at most a few blocks are in memory.

    If the file is damaged, what was yielded before is complete: lines, or words if the file is one document. Of a line
    of more than a million characters the words before the damage are yielded too.
    """
    by_line = options.documents == "line"
    open_document = True  # so that an empty file is an empty document if documents are files
    blocks = _decode_blocks(stream, name, options.encoding_errors, at_start=at_start)
    for block in _cut_at_breaks(blocks, by_line=by_line, limit=options.max_record, name=name):
        text = block.replace("\n", END) if by_line else block
        yield text
        open_document = not by_line or not text.endswith(END)
    if open_document:
        yield END


def _cut_at_breaks(blocks: Iterator[str], *, by_line: bool, limit: int, name: str) -> Iterator[str]:
    """Yield the same text cut behind lines or words, holding back what is unfinished."""
    held: list[str] = []
    length = 0
    for block in blocks:
        end = 1 + block.rfind("\n") if by_line else end_of_words(block, WHITESPACE)
        if by_line and not end and length + len(block) > BLOCK:
            end = end_of_words(block, WHITESPACE)
        if end:
            yield "".join([*held, block[:end]])
            held, length = [], 0
        held.append(block[end:])
        length += len(block) - end
        if length > limit:
            raise record_too_long(name, limit)
    if length:
        yield "".join(held)


@contextmanager
def text_lines(stream: IO[bytes], name: str, options: TextOptions, *, newline: str) -> Iterator[Iterator[str]]:
    """Yield the lines of a stream as text; invalid UTF-8 raises an error at its line, after all lines before it."""
    strict = options.encoding_errors == "strict"
    # A strict wrapper would fail for a whole buffer, including its valid lines.
    errors = "surrogateescape" if strict else options.encoding_errors
    limited = LineLimit(stream, options.max_record, name)
    lines = io.TextIOWrapper(cast(IO[bytes], limited), "utf-8-sig", errors, newline=newline)
    try:
        yield map(_valid, lines) if strict else lines
    finally:
        lines.detach()  # the caller closes the stream


def _valid(line: str) -> str:
    return line if line.isascii() else line.encode("utf-8", "surrogateescape").decode("utf-8")


def decode(line: bytes, where: str, errors: str) -> str:
    """Decode a line or a field."""
    try:
        return line.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise invalid_utf8(where, error) from error


def invalid_utf8(where: str, error: UnicodeDecodeError) -> FormatError:
    """Return the error for bytes that are not UTF-8."""
    bad = error.object[error.start : error.start + 4].hex(" ")
    return FormatError(
        f"{where}: not valid UTF-8 (bytes {bad})",
        hint="convert the file, or read it with `encoding_errors='replace'`",
    )


def _decode_blocks(stream: IO[bytes], name: str, errors: str, *, at_start: bool) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig" if at_start else "utf-8")(errors)
    # Not `read`, which gathers a full block and drops it if the stream fails meanwhile.
    read = getattr(stream, "read1", stream.read)
    line = 1
    while True:
        block = read(BLOCK)
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            yield error.object[: error.start].decode("utf-8").partition(END)[0]
            line += error.object[: error.start].count(b"\n")
            raise invalid_utf8(f"{name}, line {line}", error) from error
        if b"\0" in block:  # searching the bytes takes less time than searching a str, here and for line ends
            if errors == "strict":
                yield text.partition(END)[0]
                raise FormatError(
                    f"{name}: contains a NUL byte, so it is not UTF-8 text",
                    hint="convert UTF-16 to UTF-8; for stray NULs use encoding_errors='replace'",
                )
            text = text.replace(END, " ")
        line += int(np.count_nonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")))
        if text:
            yield text
        if not block:
            return


class ByteSpan(NamedTuple):
    """A file, or those of its lines that begin in a range of bytes."""

    file: str
    start: int = 0
    stop: int | None = None  # None: the whole file

    @property
    def name(self) -> str:
        """The name used in messages; lines are counted from the first line of the span."""
        return f"{self.file} (from byte {self.start:,} on)" if self.start else self.file


def split_file(file: str, size: int, at_most: int) -> list[ByteSpan]:
    """Return a file in spans of equal size."""
    count = -(-size // at_most)
    ends = [part * size // count for part in range(count + 1)]
    return [ByteSpan(file, *two) for two in pairwise(ends)] if count > 1 else [ByteSpan(file)]


class _Between(io.RawIOBase):
    """The bytes of a stream between two positions."""

    def __init__(self, stream: IO[bytes], begin: int, end: int) -> None:
        self._stream, self._remaining = stream, max(end - begin, 0)
        stream.seek(begin)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(min(len(buffer), self._remaining))
        buffer[: len(data)] = data
        self._remaining -= len(data)
        return len(data)


def span_lines(stream: IO[bytes], span: ByteSpan) -> io.BufferedReader:
    """Return the whole lines of a span as a stream."""
    stop = span.stop or 0
    begin = _next_line(stream, span.start, stop)
    end = _next_line(stream, stop, None) if begin < stop else begin
    return io.BufferedReader(_Between(stream, begin, end), BLOCK)


def _next_line(stream: IO[bytes], position: int, limit: int | None) -> int:
    """Return where the first line at or after a position begins; the limit or the file's end if there is none."""
    if not position:
        return 0
    offset = stream.seek(position - 1)  # a line begins at the position itself if the byte before it is a line end
    while limit is None or offset < limit:
        block = stream.read(BLOCK)
        if not block:
            break
        if (end := block.find(b"\n")) >= 0:
            return offset + end + 1
        offset += len(block)
    return offset
