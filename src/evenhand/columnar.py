"""Texts of one column of an Arrow or Parquet table, decoded by pyarrow a few rows at a time.

pyarrow allocates what a file declares. So the sizes that a file declares are checked before anything is decoded: those
of the buffers of an Arrow batch, and those of the pages of a Parquet column.
"""

from __future__ import annotations

import io
import mmap
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import EvenhandError, FormatError
from evenhand.files import compression_of

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 1 << 20  # bytes read or written at a time
SLICE = 1 << 24  # bytes of text that become Python objects at a time
ROWS = 1 << 14  # of a table that become Python objects at a time
MOST_ENTRIES = 1 << 17  # columns, or row groups, of a Parquet file; memory for a false number would be reserved at once
LEAST = 1 << 25  # bytes that a page may always have
LARGEST_FOOTER = 1 << 22  # bytes, where all columns of a Parquet file are read
MAGIC = b"ARROW1"
CONTINUATION = b"\xff\xff\xff\xff"
END_OF_STREAM = CONTINUATION + bytes(4)
DICTIONARY, RECORD_BATCH = 2, 3
ROWS_PER_BYTE, FEW_ROWS = 8, 1 << 16  # truth values take a bit; a short column of nulls takes no bytes at all


class ColumnRows(NamedTuple):
    """Rows of a column: texts, with None in place of other values."""

    texts: list[str | None]
    others: dict[int, str]
    """What stands in place of a text, by its place in the list; empty for a text that is too long."""


class MissingColumnError(Exception):
    """The table lacks the column.

    Attributes:
        columns: names and types of the columns.
        texts: names of the columns of texts.
    """

    def __init__(self, columns: dict[str, str], texts: list[str]) -> None:
        super().__init__(f"no such column among {', '.join(columns)}")
        self.columns, self.texts = columns, texts


@dataclass(frozen=True)
class TextColumn:
    """Which texts of a table are read, and within which limits.

    Attributes:
        name: name of the file in errors; a suffix such as .gz says that it was compressed.
        column: name of the column; None for the only column of texts.
        longest: bytes of a text, and of the description of a table.
        limit: bytes that a compressed record batch, or a page of a Parquet file, may expand to.
        total: characters of all texts; None for no limit.
    """

    name: str
    column: str | None
    longest: int
    limit: int
    total: int | None = None

    def arrow(self, stream: IO[bytes]) -> Iterator[ColumnRows]:
        """Yield the rows of an Arrow file or stream, one record batch at a time."""
        from pyarrow import ipc

        with self._errors():
            place = None
            for batch in ArrowBatches(stream, self.name, self.longest, self.limit):
                if place is None:
                    schema = ipc.open_stream(batch).schema
                    place = schema.get_field_index(self._chosen(schema))
                options = ipc.IpcReadOptions(use_threads=False, included_fields=[place])
                yield from self._limited(part.column(0) for part in ipc.open_stream(batch, options=options))

    def parquet(self, path: Path) -> Iterator[ColumnRows]:
        """Yield the rows of a Parquet file, one row group after the other."""
        import pyarrow.parquet as pq
        from pyarrow import types

        with self._errors():
            limits = {"thrift_container_size_limit": MOST_ENTRIES, "thrift_string_size_limit": max(self.longest, CHUNK)}
            table = pq.ParquetFile(path, memory_map=True, pre_buffer=False, arrow_extensions_enabled=False, **limits)
            column = self._chosen(table.schema_arrow)
            shares = types.is_dictionary(table.schema_arrow.field(column).type)
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                leaves = [table.schema.column(number).path for number in range(len(table.schema))]
                chunks = self._chunks(content, leaves.index(column))
                for number in range(table.num_row_groups):
                    rows = self._rows_at_once(content, chunks, column, number, shares=shares)
                    parts = table.iter_batches(rows, row_groups=[number], columns=[column], use_threads=False)
                    yield from self._limited(part.column(0) for part in parts)

    def _chosen(self, schema: pa.Schema) -> str:
        """Return the requested column, or without a request the only one of texts."""
        from pyarrow import types

        texts = [field.name for field in schema if _is_text(field.type)]
        names = [name for name in schema.names if name == self.column] if self.column is not None else texts
        if len(names) != 1:
            raise MissingColumnError({field.name: str(field.type) for field in schema}, texts)
        name, kind = str(names[0]), schema.field(names[0]).type
        if types.is_nested(kind):
            raise self.damaged(f"column {name!r} holds {_kind(kind)} in each row, not a text")
        return name

    def _limited(self, columns: Iterator[pa.Array]) -> Iterator[ColumnRows]:
        """Yield the rows of columns; raise an error beyond the total."""
        sent = 0
        for column in columns:
            column.validate(full=True)  # offsets and indices point outside of a damaged batch
            for rows in self._rows(column):
                sent += sum(map(len, filter(None, rows.texts)))
                if self.total is not None and sent > self.total:
                    raise self.damaged(f"its texts have more than {self.total:,} characters")
                yield rows

    def _rows(self, column: pa.Array) -> Iterator[ColumnRows]:
        """Yield the rows of a column in parts. Many rows may share one long text, so the parts are limited in bytes."""
        from pyarrow import types

        if not _is_text(column.type):
            kind = _kind(column.type)
            for start in range(0, len(column), ROWS):
                kinds = [kind if valid else "null" for valid in column[start : start + ROWS].is_valid().to_pylist()]
                yield ColumnRows([None] * len(kinds), dict(enumerate(kinds)))
            return
        lengths = _lengths(column)
        ends = np.cumsum(lengths)
        start = 0
        while start < len(column):
            full = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + SLICE, side="right"))
            stop = min(max(full, start + 1), start + ROWS)
            part, long = column[start:stop], set(np.flatnonzero(lengths[start:stop] > self.longest).tolist())
            if long:
                texts = [None if place in long else part[place].as_py() for place in range(len(part))]
            elif types.is_dictionary(part.type):
                numbers = part.indices.to_pylist()
                entries = {number: part.dictionary[number].as_py() for number in set(numbers) - {None}}
                texts = [entries.get(number) for number in numbers]
            else:
                texts = part.to_pylist()
            nulls = [place for place, text in enumerate(texts) if text is None]
            yield ColumnRows(texts, dict.fromkeys(nulls, "null") | dict.fromkeys(long, ""))
            start = stop

    def _rows_at_once(self, content: mmap.mmap, chunks: Numbers, column: str, number: int, *, shares: bool) -> int:
        """Return how many rows of a row group take no more than a quarter of the limit.

        A row takes at most a page: a text of its own, an entry of the dictionary, or a beginning shared with the row
        before. A page has at most the size that its header declares, which pyarrow checks while it decompresses. Rows
        of a column that keeps its dictionary share the entries. pyarrow keeps rows several times, hence a quarter.
        """
        pages = list(self._pages(content, chunks, number))
        limit = max(self.limit, LEAST)
        if max((page.size for page in pages), default=0) > limit:
            raise FormatError(
                f"{self.name}: a page of column {column!r} expands to more than {limit:,} bytes",
                hint="write smaller pages, or allow longer records with `max_record=`",
            )
        largest = max((page.size for page in pages if not (page.shared and shares)), default=1)
        return max(1, min(ROWS, limit // 4 // max(largest, 1)))

    def _chunks(self, content: mmap.mmap, leaf: int) -> Numbers:
        """Return the numbers of the footer about a column. pyarrow's own classes abort on some damaged ones."""
        every = self._footer(content, leaf).items()
        return {(path[1], path[5]): number for path, number in every if path[2::2] == (COLUMNS, COLUMN)}

    def _footer(self, content: mmap.mmap | bytes, leaf: int | None) -> Numbers:
        size, magic = FOOTER.unpack_from(content, max(0, len(content) - FOOTER.size))
        footer = _Thrift(content, len(content) - FOOTER.size - size, leaf)
        try:
            if footer.position < 0 or magic != b"PAR1":
                raise ValueError("its length or its last bytes are wrong")
            footer.struct()
        except (LookupError, ValueError) as error:
            raise self.damaged(f"its footer is damaged: {error}") from error
        return footer.numbers

    def _pages(self, content: mmap.mmap | bytes, chunks: Numbers, number: int) -> Iterator[_Page]:
        """Yield the pages of a column in a row group, as their headers declare them."""
        position, stored = chunks.get((number, DATA_PAGES), 0), chunks.get((number, STORED), 0)
        if 0 < chunks.get((number, DICTIONARY_PAGES), 0) < position:
            position = chunks[number, DICTIONARY_PAGES]
        if position <= 0:
            raise self.damaged("a column begins nowhere")
        end = min(position + stored, len(content))
        while position < end:
            try:
                header = _Thrift(content, position)
                header.struct()
                page = _Page.of(header.numbers)
            except (LookupError, ValueError) as error:
                raise self.damaged(f"a page header is damaged: {error}") from error
            if page.size < 0 or page.stored < 0:
                raise self.damaged(f"a page declares {min(page.size, page.stored):,} bytes")
            yield page
            position = header.position + page.stored

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn what pyarrow raises into an error that names the file."""
        import pyarrow as pa

        try:
            yield
        except (EvenhandError, MissingColumnError):
            raise
        except (pa.ArrowException, ValueError, LookupError, OverflowError, MemoryError, OSError) as error:
            raise self.damaged(f"{type(error).__name__}: {error}"[:500]) from error

    def damaged(self, reason: str) -> FormatError:
        """Return the error for a file that cannot be read."""
        return FormatError(f"{self.name}: could not be read ({reason})", hint="download or write the file again")


def check_expansion(content: bytes, name: str, most: int, cells: int) -> None:
    """Raise an error for a Parquet file that declares too much, before anything is decoded.

    Args:
        content: the file.
        name: its name, for errors.
        most: bytes that its pages may expand to.
        cells: values that it may hold beside one for each byte; repeated values take no room.
    """
    table, chunks, rows = TextColumn(name, None, 0, 0), dict[int, Numbers](), 0
    if len(content) < FOOTER.size or FOOTER.unpack_from(content, len(content) - FOOTER.size)[0] > LARGEST_FOOTER:
        raise table.damaged(f"its footer is longer than {LARGEST_FOOTER:,} bytes, or missing")
    for path, number in table._footer(content, None).items():
        if path[2::2] == (COLUMNS, COLUMN):
            chunks.setdefault(path[3], {})[path[1], path[5]] = number
        rows = max(rows, number) if path == (ROWS,) else rows
    groups = [(own, group) for own in chunks.values() for group in {key[0] for key in own}]
    pages = [page for place in groups for page in table._pages(content, *place)]
    size, values = sum(page.size for page in pages), max(sum(page.values for page in pages), rows * len(chunks))
    if size > most or values > cells + len(content):
        raise FormatError(
            f"{name}: {len(content):,} bytes expand to {size:,} bytes or {values:,} values, which is too much",
            hint="write the table without compression, or leave out the columns that are not measured",
        )


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    texts = (types.is_string, types.is_large_string, types.is_string_view)
    return any(is_text(kind) for is_text in texts) or (types.is_dictionary(kind) and _is_text(kind.value_type))


def _kind(kind: pa.DataType) -> str:
    """Return the kind of values that are no texts, in the words of JSON."""
    from pyarrow import types

    named = {
        types.is_null: "null", types.is_boolean: "true or false", types.is_integer: "a number",
        types.is_floating: "a number", types.is_decimal: "a number", types.is_struct: "an object",
        types.is_map: "an object", types.is_nested: "a list",
    }  # fmt: skip
    return next((name for holds, name in named.items() if holds(kind)), f"a value of type {kind}")


def _lengths(column: pa.Array) -> NDArray[np.int64]:
    """Return the length of each text in bytes; 0 for nulls."""
    import pyarrow.compute as pc
    from pyarrow import types

    lengths: NDArray[np.int64]
    if types.is_dictionary(column.type):
        numbers = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        lengths = np.append(_lengths(column.dictionary), 0)[numbers]
    elif types.is_string_view(column.type):  # 16 bytes each, of which the first four are the length
        views = np.frombuffer(column.buffers()[1], np.int32, 4 * (column.offset + len(column)))
        lengths = views[4 * column.offset :: 4].astype(np.int64)
    else:
        lengths = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    lengths[~column.is_valid().to_numpy(zero_copy_only=False)] = 0
    return lengths


# Parquet: page headers in the compact protocol of Thrift -----------------------------------------------------------

TRUE_OR_FALSE, BYTE, INTEGERS, DOUBLE, BINARY, LISTS, STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
MOST_NESTED = 12  # fields and places of lists that lead to a number in a footer
DICTIONARY_PAGE, INDICES = 2, (2, 8)
FOOTER = struct.Struct("<I4s")  # its length and the magic bytes, at the end of a file
ROWS, ROW_GROUPS, COLUMNS, COLUMN = 3, 4, 1, 3  # fields of the footer, of a row group, and of a column chunk
STORED, DATA_PAGES, DICTIONARY_PAGES = 7, 9, 11  # fields of the metadata of a column chunk
Numbers: TypeAlias = dict[tuple[int, ...], int]  # by the fields, and places in lists, that lead there


class _Page(NamedTuple):
    """A page as its header declares it, see parquet.thrift.

    Attributes:
        size: Bytes, decompressed.
        stored: Bytes in the file.
        shared: Whether it holds a dictionary, or indices into one.
        values: How many it holds.
    """

    size: int
    stored: int
    shared: bool
    values: int

    @classmethod
    def of(cls, header: Numbers) -> _Page:
        """Return the page of a header; the encoding of its values is in the struct of its kind."""
        encoding = header.get((5, 2), header.get((8, 4)))
        values = max(header.get((kind, 1), 0) for kind in (5, 7, 8))
        return cls(header[2,], header[3,], header[1,] == DICTIONARY_PAGE or encoding in INDICES, values)


class _Thrift:
    """Reads the integers of a struct in the compact protocol of Thrift; `leaf` names the only column that is kept."""

    def __init__(self, content: mmap.mmap | bytes, position: int, leaf: int | None = None) -> None:
        self._content, self.position, self._leaf = content, position, leaf
        self.numbers: Numbers = {}

    def struct(self, path: tuple[int, ...] = ()) -> None:
        """Read the fields of a struct."""
        last = 0
        if len(path) > MOST_NESTED:
            raise ValueError("too deep")
        while head := self._byte():
            last = last + (head >> 4) if head >> 4 else self._integer()
            if head & 15 not in TRUE_OR_FALSE:  # whose value is the type itself
                self._value(head & 15, (*path, last))

    def _value(self, kind: int, path: tuple[int, ...]) -> None:
        if kind in INTEGERS:
            number = self._integer()
            if self._leaf is None or (path[0] == ROW_GROUPS and path[3:4] == (self._leaf,)):
                self.numbers[path] = number
        elif kind == STRUCT:
            self.struct(path)
        elif kind in LISTS:
            head = self._byte()
            for place in range(self._varint() if head >> 4 == 15 else head >> 4):
                self._value(head & 15, (*path, place))
        elif kind in (BYTE, DOUBLE, BINARY, *TRUE_OR_FALSE):
            size = self._varint() if kind == BINARY else 8 if kind == DOUBLE else 1
            self.position += size
        else:
            raise ValueError(f"a field of type {kind}")

    def _byte(self) -> int:
        self.position += 1
        return self._content[self.position - 1]

    def _integer(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _varint(self) -> int:
        number = 0
        for shift in range(0, 64, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise ValueError("a number without an end")


# Arrow: messages of streams and files, with metadata as FlatBuffers ------------------------------------------------
# https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc


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

    A batch that is compressed, inside the file or together with it, may expand to `limit` bytes. Other batches are
    limited by the size of the file.

    Args:
        stream: The bytes, decompressed if the file is.
        name: The file name, for errors and to know whether it was compressed.
        longest: Bytes of the metadata of a message.
        limit: Bytes that a compressed batch may expand to.
    """

    def __init__(self, stream: IO[bytes], name: str, longest: int, limit: int) -> None:
        self._stream, self._name, self._longest, self._limit = stream, name, longest, limit
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
            if not 0 < size <= self._longest:
                raise self._damaged(f"its metadata declare {size:,} bytes")
            metadata = self._exactly(stream, size)
            yield metadata, self._exactly(stream, self._body_length(metadata))

    def _file_messages(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield metadata and body of the messages that the footer of a file lists, the schema first."""
        with self._seekable(start) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(end - len(MAGIC) - 4, 0))
            tail = file.read()
            size = struct.unpack_from("<i", tail)[0]
            if not tail.endswith(MAGIC) or not 0 < size <= min(end - len(tail), self._longest):
                raise self._damaged("its end is missing or damaged")
            file.seek(end - len(tail) - size)
            footer = _Table.root(file.read(size))
            dictionaries, batches = ([_Block(*block) for block in footer.structs(n, "<qi4xq")] for n in (2, 3))
            first = min([block.offset for block in (*dictionaries, *batches)], default=end - len(tail) - size)
            if not len(start) < first <= min(end, self._longest):
                raise self._damaged(f"its first batch begins at byte {first:,}")
            file.seek(len(start))
            yield _bare_metadata(file.read(first - len(start))), b""
            for block in (*dictionaries, *batches):
                if block.offset < 0 or not 0 < block.metadata <= self._longest:
                    raise self._damaged(f"a message declares {block.metadata:,} bytes of metadata")
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
            raise self._damaged(f"the file declares a batch of {size:,} bytes")
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
            raise self._damaged(f"a batch of {size:,} bytes declares {rows:,} rows")
        return size

    def _too_large(self) -> FormatError:
        return FormatError(
            f"{self._name}: a compressed record batch expands to more than {self._limit:,} bytes",
            hint="write smaller batches, or allow longer records with `max_record=`",
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
    """Return metadata without the mark and length before them, which polars omits before the schema of a file."""
    return data[8:] if data.startswith(CONTINUATION) else data
