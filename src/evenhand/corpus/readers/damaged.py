"""Compressed files that are cut off or damaged: everything up to the break, and only then the error.

A decompressor that fails hands out nothing of what it had done in that call, and buffers above it drop what they had
gathered. So a file that breaks is gone through again, its last stretch byte by byte.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, TypeAlias

from evenhand.files import BROKEN_STREAM, compression_of

CHUNK = 1 << 14  # compressed bytes at a time
Packed: TypeAlias = Callable[[], AbstractContextManager[IO[bytes]]]  # opens the file as it is stored


class UpToBreak(io.RawIOBase):
    """The bytes of a decompressed stream; where it fails, the error comes behind the last byte that can be had."""

    def __init__(self, stream: IO[bytes], packed: Packed, name: str) -> None:
        self._stream, self._packed, self._name = stream, packed, name
        self._given, self._ready = 0, b""
        self._error: Exception | None = None
        self._rest: Iterator[bytes] = iter(())

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes."""
        found = self._next(len(buffer))
        buffer[: len(found)] = found
        self._given += len(found)
        return len(found)

    def _next(self, most: int) -> bytes:
        if self._error is None:
            try:
                return bytes(self._stream.read1(most))  # type: ignore[attr-defined]
            except BROKEN_STREAM as error:
                self._error = error
                self._rest = _behind(self._given, up_to_break(self._packed, self._name))
        while not self._ready:
            try:
                self._ready = next(self._rest)
            except StopIteration:
                raise self._error from None
        found, self._ready = self._ready[:most], self._ready[most:]
        return found


def up_to_break(packed: Packed, name: str) -> Iterator[bytes]:
    """All that can be decompressed of a damaged file: in chunks, and the chunk with the damage byte by byte."""
    whole = 0
    with packed() as file:
        unpack = _Members(name)
        while chunk := file.read(CHUNK):
            try:
                yield unpack(chunk)
            except unpack.failures:
                break
            whole += len(chunk)
        else:
            return
    with packed() as file:
        unpack = _Members(name)
        while whole:
            whole -= len(chunk := file.read(min(CHUNK, whole)))
            unpack(chunk)
        for byte in file.read(CHUNK):
            try:
                yield unpack(bytes([byte]))
            except unpack.failures:
                return


class _Members:
    """Decompresses what it is fed, one compressed stream after another."""

    def __init__(self, name: str) -> None:
        self._begin, self.failures = _KINDS[compression_of(Path(name))]()
        self._member: Any = None

    def __call__(self, chunk: bytes) -> bytes:
        found = []
        while chunk:
            self._member = self._member or self._begin()
            found.append(self._member.decompress(chunk))
            chunk = self._member.unused_data if self._member.eof else b""
            self._member = None if self._member.eof else self._member
        return b"".join(found)


_Kind: TypeAlias = tuple[Callable[[], Any], tuple[type[Exception], ...]]


def _zstd() -> _Kind:
    import zstandard

    return lambda: zstandard.ZstdDecompressor().decompressobj(), (zstandard.ZstdError,)


_KINDS: dict[str, Callable[[], _Kind]] = {
    ".gz": lambda: (lambda: zlib.decompressobj(31), BROKEN_STREAM),  # 31: with the head and the check sum of gzip
    ".xz": lambda: (lzma.LZMADecompressor, BROKEN_STREAM),
    ".bz2": lambda: (bz2.BZ2Decompressor, BROKEN_STREAM),
    ".zst": _zstd,
}


def _behind(place: int, parts: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes from a place on."""
    for part in parts:
        yield part[place:]
        place = max(0, place - len(part))
