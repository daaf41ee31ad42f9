"""The record batches of Arrow files and streams, cut out one at a time, with limits on what they expand to.

Arrow's layout: https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc.
Metadata are FlatBuffers. Only lengths and positions are read here; the reader of polars decodes the batches.
"""

from __future__ import annotations

import io
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from evenhand.errors import FormatError
from evenhand.files import compression_of

MAGIC = b"ARROW1"
CONTINUATION = b"\xff\xff\xff\xff"
END_OF_STREAM = CONTINUATION + bytes(4)
SCHEMA, DICTIONARY, RECORD_BATCH = 1, 2, 3
BATCH = 8  # times the longest record: what a compressed record batch may expand to
CHUNK = 1 << 20
ROWS_PER_BYTE, FEW_ROWS = 8, 1 << 16  # truth values take a bit; a short column of nulls takes no bytes at all


class _Block(NamedTuple):
    """Where the footer of a file says that a message is."""

    offset: int
    metadata: int
    body: int


class _Table:
    """A FlatBuffers table: fields by number, at offsets that its vtable lists."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data, self._position = data, position
        self._vtable = position - self._number("<i", position)
        self._size = self._number("<H", self._vtable)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data)[0])

    def number(self, field: int, layout: str) -> int:
        """Return a number, or 0 where the field is absent."""
        position = self._field(field)
        return self._number(layout, position) if position else 0

    def table(self, field: int) -> _Table | None:
        position = self._field(field)
        return _Table(self._data, position + self._number("<I", position)) if position else None

    def structs(self, field: int, layout: str) -> list[tuple[int, ...]]:
        """Return the entries of a vector of structs."""
        position = self._field(field)
        if not position:
            return []
        start = position + self._number("<I", position)
        size = struct.calcsize(layout) * self._number("<I", start)
        if start + 4 + size > len(self._data):
            raise struct.error("a vector exceeds the metadata")
        return list(struct.iter_unpack(layout, self._data[start + 4 : start + 4 + size]))

    def _field(self, field: int) -> int:
        entry = 4 + 2 * field
        offset = self._number("<H", self._vtable + entry) if entry + 2 <= self._size else 0
        return self._position + offset if offset else 0

    def _number(self, layout: str, position: int) -> int:
        if position < 0:  # `unpack_from` counts negative positions from the end
            raise struct.error("an offset points outside of the metadata")
        return int(struct.unpack_from(layout, self._data, position)[0])


class ArrowBatches:
    """Iterate over the record batches of a file or stream; each is returned as a stream of its own.

    A batch that is compressed, inside the file or together with it, may expand to `BATCH` times the longest record.
    Other batches are limited by the size of the file.

    Args:
        stream: The bytes, decompressed if the file is.
        name: The file name, for errors and to know whether it was compressed.
        max_record: Longest record in bytes.
    """

    def __init__(self, stream: IO[bytes], name: str, max_record: int) -> None:
        self._stream, self._name, self._max_record = stream, name, max_record
        self._limit = BATCH * max_record
        self._packed = bool(compression_of(Path(name)))

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._batches()
        except (struct.error, OverflowError) as error:
            raise self._damaged(f"its metadata are damaged: {error}") from error

    def _batches(self) -> Iterator[bytes]:
        start = self._stream.read(len(MAGIC) + 2)
        messages = self._file_messages(start) if start.startswith(MAGIC) else self._stream_messages(start)
        kept: list[bytes] = []
        total, batches = 0, 0
        for metadata, body in messages:
            message = _Table.root(metadata)
            kind, header = message.number(1, "<B"), message.table(2)
            framed = CONTINUATION + struct.pack("<i", len(metadata)) + metadata + body
            if kind == RECORD_BATCH and header:
                self._check(header, body)
                batches += 1
                yield b"".join([*kept, framed, END_OF_STREAM])
                continue
            if kind == DICTIONARY and header and (data := header.table(1)):
                total += self._check(data, body)
                if self._packed and total > self._limit:
                    raise self._too_large()
            kept.append(framed)
        if not batches and kept:
            yield b"".join([*kept, END_OF_STREAM])  # the columns can be wrong without any row

    def _stream_messages(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield metadata and body of the messages of a stream."""
        stream = io.BufferedReader(_Resumed(start, self._stream), CHUNK)
        while prefix := stream.read(4):
            # Streams from before version 0.15 have no continuation mark.
            length = prefix if prefix != CONTINUATION else stream.read(4)
            if length == bytes(4):
                return
            size = struct.unpack("<i", length)[0]
            if not 0 < size <= self._max_record:
                raise self._damaged(f"its metadata claim {size:,} bytes")
            metadata = self._exactly(stream, size)
            yield metadata, self._exactly(stream, self._body_length(metadata))

    def _file_messages(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield metadata and body of the messages that the footer of a file lists, the schema first."""
        with self._seekable(start) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(end - len(MAGIC) - 4, 0))
            tail = file.read()
            size = struct.unpack_from("<i", tail)[0]
            if not tail.endswith(MAGIC) or not 0 < size <= min(end - len(tail), self._max_record):
                raise self._damaged("its end is missing or damaged")
            file.seek(end - len(tail) - size)
            footer = _Table.root(file.read(size))
            dictionaries, batches = ([_Block(*block) for block in footer.structs(n, "<qi4xq")] for n in (2, 3))
            first = min([block.offset for block in (*dictionaries, *batches)], default=end - len(tail) - size)
            if not len(start) < first <= min(end, self._max_record):
                raise self._damaged(f"its first batch is said to begin at byte {first:,}")
            file.seek(len(start))
            yield _bare_metadata(file.read(first - len(start))), b""
            for block in (*dictionaries, *batches):
                if block.offset < 0 or not 0 < block.metadata <= self._max_record:
                    raise self._damaged(f"a message is said to have {block.metadata:,} bytes of metadata")
                file.seek(block.offset)
                metadata = _bare_metadata(self._exactly(file, block.metadata))
                yield metadata, self._exactly(file, self._body_length(metadata))

    @contextmanager
    def _seekable(self, start: bytes) -> Iterator[IO[bytes]]:
        """Yield a file with random access; what was compressed is copied to a temporary one, up to the limit."""
        if not self._packed and self._stream.seekable():
            yield self._stream
            return
        with tempfile.TemporaryFile() as copy:
            size = copy.write(start)
            while chunk := self._stream.read(CHUNK):
                size += copy.write(chunk)
                if self._packed and size > self._limit:
                    raise self._too_large()
            yield copy

    def _body_length(self, metadata: bytes) -> int:
        size = _Table.root(metadata).number(3, "<q")
        if size < 0:
            raise self._damaged(f"a batch is said to have {size:,} bytes")
        if self._packed and size > self._limit:
            raise self._too_large()
        return size

    def _exactly(self, stream: IO[bytes], size: int) -> bytes:
        """Read piece by piece, because memory for a false length would be reserved at once."""
        pieces, missing = [], size
        while missing:
            piece = stream.read(min(missing, CHUNK))
            if not piece:
                raise self._damaged(f"it ends {missing:,} bytes before the end of a batch")
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def _check(self, batch: _Table, body: bytes) -> int:
        """Return the bytes that a batch expands to; raise an error beyond the limit."""
        size = len(body)
        if batch.table(3):  # compressed buffers begin with their size; -1 marks one that is stored as it is
            starts = [offset for offset, length in batch.structs(2, "<qq") if length >= 8]
            if any(not 0 <= start <= len(body) - 8 for start in starts):
                raise self._damaged("a buffer is outside of its batch")
            sizes = [struct.unpack_from("<q", body, start)[0] for start in starts]
            size = len(body) + sum(max(size, 0) for size in sizes)
            if size > self._limit:
                raise self._too_large()
        rows = batch.number(0, "<q")
        if not 0 <= rows <= max(FEW_ROWS, ROWS_PER_BYTE * size):
            raise self._damaged(f"a batch of {size:,} bytes is said to have {rows:,} rows")
        return size

    def _too_large(self) -> FormatError:
        return FormatError(
            f"{self._name}: a compressed record batch expands to more than {self._limit:,} bytes",
            hint=f"write smaller batches; {BATCH} times `max_record=` are allowed",
        )

    def _damaged(self, reason: str) -> FormatError:
        return FormatError(f"{self._name}: not a valid Arrow file ({reason})", hint="download or write the file again")


class _Resumed(io.RawIOBase):
    """The bytes that were read already, followed by the rest of a stream."""

    def __init__(self, start: bytes, rest: IO[bytes]) -> None:
        self._start, self._rest = start, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._start[: len(buffer)] or self._rest.read(len(buffer))
        self._start = self._start[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def _bare_metadata(data: bytes) -> bytes:
    """Return metadata without the mark and length before them, which polars leaves out before the schema of a file."""
    return data[8:] if data.startswith(CONTINUATION) else data
