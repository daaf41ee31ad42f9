"""Read compressed files that are truncated or damaged up to the damage, and raise the error only then.

A decompressor that fails discards the output of the failing call, and buffers above it discard what they had gathered.
A damaged file is therefore read again, its last chunk byte by byte. Output comes in bounded pieces, however much a
chunk expands.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Protocol, TypeAlias

from evenhand.files import BROKEN_STREAM, compression_of

CHUNK = 1 << 14  # compressed bytes at a time
OUTPUT = 1 << 20  # decompressed bytes at a time
# A zstd block of 4 bytes may stand for 128 KB: slices of this size keep the output of one step below 16 MB.
ZSTD_SLICE = 1 << 8
OpenStored: TypeAlias = Callable[[], AbstractContextManager[IO[bytes]]]


class UpToDamage(io.RawIOBase):
    """A decompressed stream that fails only after the last byte that can be recovered."""

    def __init__(self, stream: IO[bytes], open_stored: OpenStored, name: str) -> None:
        self._stream, self._open_stored, self._name = stream, open_stored, name
        self._position, self._ready = 0, memoryview(b"")
        self._error: Exception | None = None
        self._rest: Iterator[bytes] = iter(())

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read the next bytes into a buffer."""
        data = self._next(len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _next(self, size: int) -> bytes | memoryview:
        if self._error is None:
            try:
                return bytes(self._stream.read1(size))  # type: ignore[attr-defined]
            except BROKEN_STREAM as error:
                self._error = error
                self._rest = _skip(self._position, recover(self._open_stored, self._name))
        while not self._ready:
            try:
                self._ready = memoryview(next(self._rest))
            except StopIteration:
                raise self._error from None
        data, self._ready = self._ready[:size], self._ready[size:]
        return data


def recover(open_stored: OpenStored, name: str) -> Iterator[bytes]:
    """Yield everything that can be decompressed: in chunks, and the damaged chunk byte by byte."""
    whole = in_chunk = 0
    with open_stored() as file:
        members = _Members(name)
        while chunk := file.read(CHUNK):
            in_chunk = 0
            try:
                for output in members.feed(chunk):
                    in_chunk += len(output)
                    yield output
            except members.failures:
                break
            whole += len(chunk)
        else:
            return
    with open_stored() as file:
        members = _Members(name)
        while whole:
            chunk = file.read(min(CHUNK, whole))
            whole -= len(chunk)
            for _ in members.feed(chunk):
                pass
        yield from _skip(in_chunk, _byte_by_byte(members, file.read(CHUNK)))


def _byte_by_byte(members: _Members, chunk: bytes) -> Iterator[bytes]:
    for byte in chunk:
        try:
            yield from members.feed(bytes([byte]))
        except members.failures:
            return


class Member(Protocol):
    """One compressed stream of a file, which may hold several."""

    @property
    def eof(self) -> bool:
        """True at the end of the stream."""

    @property
    def unused_data(self) -> bytes:
        """Bytes after the end of the stream."""


class _Members:
    """Decompresses a file of one or more compressed streams, in pieces of bounded size."""

    def __init__(self, name: str) -> None:
        self._begin, self._pieces, self.failures = _KINDS[compression_of(Path(name))]()
        self._member: Member | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the output of the next compressed bytes."""
        while chunk:
            member = self._member = self._member or self._begin()
            yield from self._pieces(member, chunk)
            chunk = member.unused_data if member.eof else b""
            self._member = None if member.eof else member


def _pieces_zlib(member: zlib._Decompress, chunk: bytes) -> Iterator[bytes]:
    while True:
        output = member.decompress(chunk, OUTPUT)
        yield output
        chunk = member.unconsumed_tail
        if member.eof or (not chunk and len(output) < OUTPUT):
            return


def _pieces_blocks(member: bz2.BZ2Decompressor | lzma.LZMADecompressor, chunk: bytes) -> Iterator[bytes]:
    yield member.decompress(chunk, OUTPUT)
    while not member.eof and not member.needs_input:
        yield member.decompress(b"", OUTPUT)


class _ZstdMember:
    """A zstd frame; it has no output limit, so that the input comes in small slices."""

    def __init__(self) -> None:
        import zstandard

        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self.unused_data = b""

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        for start in range(0, len(chunk), ZSTD_SLICE):
            yield self._frame.decompress(chunk[start : start + ZSTD_SLICE])
            if self._frame.eof:
                self.unused_data = self._frame.unused_data + chunk[start + ZSTD_SLICE :]
                return


_Kind: TypeAlias = tuple[Callable[[], Member], Callable[..., Iterator[bytes]], tuple[type[Exception], ...]]


def _zstd() -> _Kind:
    import zstandard

    return _ZstdMember, _ZstdMember.pieces, (zstandard.ZstdError,)


_KINDS: dict[str, Callable[[], _Kind]] = {
    ".gz": lambda: (lambda: zlib.decompressobj(31), _pieces_zlib, BROKEN_STREAM),  # 31: gzip header and check sum
    ".xz": lambda: (lzma.LZMADecompressor, _pieces_blocks, BROKEN_STREAM),
    ".bz2": lambda: (bz2.BZ2Decompressor, _pieces_blocks, BROKEN_STREAM),
    ".zst": _zstd,
}


def _skip(count: int, parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the bytes after the first `count`."""
    for part in parts:
        yield part[count:] if count else part
        count = max(0, count - len(part))
