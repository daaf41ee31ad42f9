"""The longest record that a reader accepts, so that a damaged or hostile file cannot fill the memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import IO, Literal

from evenhand.errors import FormatError

MAX_RECORD = 128 << 20  # bytes
BLOCK = 1 << 20
LARGEST_FIELD = (1 << 31) - 1  # what csv accepts on every platform; the limit of the row is the smaller one


def record_too_long(where: str, limit: int) -> FormatError:
    """Return the error for a record that exceeds the limit."""
    return FormatError(
        f"{where}: a record or word is longer than {limit:,} bytes",
        hint="check the file; a larger max_record (--max-record, in MB) allows it",
    )


def limited_lines(stream: IO[bytes], limit: int) -> Iterator[bytes | None]:
    """Yield the lines of a stream; None stands for a line longer than `limit` bytes, which is skipped."""
    while line := stream.readline(limit + 1):
        if len(line) <= limit or line.endswith(b"\n"):
            yield line
            continue
        while (part := stream.readline(BLOCK)) and not part.endswith(b"\n"):
            pass
        yield None


class LineLimit(io.BufferedIOBase):
    """Pass a stream on, raising an error if a line exceeds a limit by more than a block."""

    def __init__(self, stream: IO[bytes], limit: int, name: str) -> None:
        # Not `read`, which gathers a full block and drops it if the stream fails meanwhile.
        self._read = getattr(stream, "read1", stream.read)
        self._limit, self._name, self._length = limit, name, 0

    def readable(self) -> bool:
        """Return True, as `io.TextIOWrapper` requires."""
        return True

    def read1(self, size: int = -1, /) -> bytes:
        """Read at most one block."""
        block: bytes = self._read(size)
        end = max(block.rfind(b"\n"), block.rfind(b"\r"))
        self._length = self._length + len(block) if end < 0 else len(block) - end - 1
        if self._length > self._limit:
            raise record_too_long(self._name, self._limit)
        return block


class TableRows:
    """Iterate over the rows of a table, raising an error if a row has more characters than a limit.

    Args:
        lines: The lines, with their ends.
        limit: Most characters of a row; quoted fields may span several lines.
        name: The file name, for errors.
        delimiter: What separates fields.
        quoting: csv.QUOTE_MINIMAL, or csv.QUOTE_NONE where quotation marks belong to the text.
        strict: Raise `csv.Error` for misplaced quotes.
    """

    def __init__(
        self,
        lines: Iterator[str],
        limit: int,
        name: str,
        *,
        delimiter: str = ",",
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL,
        strict: bool = False,
    ) -> None:
        csv.field_size_limit(LARGEST_FIELD)  # 131,072 characters by default
        self._lines, self._limit, self._name, self._length = lines, limit, name, 0
        self._rows = csv.reader(self._counted(), delimiter=delimiter, quoting=quoting, strict=strict)

    @property
    def line_num(self) -> int:
        """Number of lines read so far."""
        return self._rows.line_num

    def __iter__(self) -> TableRows:
        return self

    def __next__(self) -> list[str]:
        self._length = 0
        return next(self._rows)

    def _counted(self) -> Iterator[str]:
        for line in self._lines:
            self._length += len(line)
            if self._length > self._limit:
                raise record_too_long(f"{self._name}, line {self._rows.line_num + 1}", self._limit)
            yield line
