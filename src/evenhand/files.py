"""Reading and writing files so that nothing is ever half written: compression by name, temporary file, rename."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from evenhand.errors import FormatError, InputMissingError


class _ZstdFrames(io.RawIOBase):
    """Frame after frame. The package's own reader takes a stream that stops inside a frame for complete."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._frame: Any = None
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = self._raw.read(1 << 18)
            if not chunk:
                if self._frame is not None:
                    raise EOFError("the stream stops inside a frame")
                return 0
            self._ready = b"".join(self._decompress(chunk))
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def _decompress(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            yield self._frame.decompress(chunk)
            chunk = self._frame.unused_data
            if self._frame.eof:
                self._frame = None


Opener = Callable[[IO[bytes]], IO[bytes]]

DECOMPRESSORS: dict[str, Opener] = {
    ".gz": lambda raw: cast(IO[bytes], gzip.GzipFile(fileobj=raw)),
    ".zst": lambda raw: cast(IO[bytes], io.BufferedReader(_ZstdFrames(raw), 1 << 20)),
    ".xz": lambda raw: cast(IO[bytes], lzma.LZMAFile(raw)),
    ".bz2": lambda raw: cast(IO[bytes], bz2.BZ2File(raw)),
}
COMPRESSORS: dict[str, Opener] = {
    ".gz": lambda raw: cast(IO[bytes], gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0)),
    ".zst": lambda raw: cast(IO[bytes], zstandard.ZstdCompressor(level=3).stream_writer(raw, closefd=False)),
    ".xz": lambda raw: cast(IO[bytes], lzma.LZMAFile(raw, "wb", preset=1)),
    ".bz2": lambda raw: cast(IO[bytes], bz2.BZ2File(raw, "wb")),
}
# What the four decompressors raise on bytes that are not theirs, or that stop too early.
BROKEN_STREAM = (EOFError, OSError, lzma.LZMAError, zlib.error, zstandard.ZstdError, ValueError)


def compression_of(path: Path) -> str:
    """The compression suffix of a file name, or the empty string."""
    return path.suffix.lower() if path.suffix.lower() in DECOMPRESSORS else ""


def bare_name(path: Path) -> str:
    """The file name without its compression suffix, in lower case."""
    name = path.name.lower()
    return name.removesuffix(compression_of(path))


def existing(path: Path, *, what: str = "file") -> Path:
    """The path itself, or a clear error when there is nothing there."""
    if not path.exists():
        raise InputMissingError(f"{what} {str(path)!r} does not exist", hint="check the spelling of the path")
    if path.is_dir():
        raise InputMissingError(f"{str(path)!r} is a folder, not a {what}", hint="name a file inside it")
    if not os.access(path, os.R_OK):
        raise InputMissingError(f"{what} {str(path)!r} may not be read", hint="check its permissions")
    return path


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open for reading, decompressed by suffix; a damaged stream becomes a `FormatError` that names the file."""
    suffix = compression_of(existing(path))
    with path.open("rb") as raw:
        if not suffix:
            yield raw
            return
        try:
            with DECOMPRESSORS[suffix](raw) as stream:
                yield stream
        except FormatError:
            raise
        except BROKEN_STREAM as error:
            raise FormatError(
                f"{path}: not a complete {suffix} stream ({error})",
                hint=f"fetch the file again, or rename it if it is not {suffix}-compressed",
            ) from error


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside the target, renamed onto it only when the block ends well, removed otherwise.

    Whoever kills the process leaves either the old file or none, never half of a new one: `os.replace` is atomic, and
    a stray temporary file carries a dot and a `.partial` suffix.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        _copy_mode(path, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _copy_mode(old: Path, new: Path) -> None:
    """Mkstemp makes files private; an output should have the mode of the file it replaces, or the usual one."""
    umask = os.umask(0)
    os.umask(umask)
    new.chmod(old.stat().st_mode & 0o777 if old.exists() else 0o666 & ~umask)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open for atomic writing, compressed by the suffix of the final name, flushed to the disk before the rename."""
    suffix = compression_of(path)
    with replacing(path) as partial, partial.open("wb") as raw:
        if suffix:
            with COMPRESSORS[suffix](raw) as stream:
                yield stream
        else:
            yield raw
        raw.flush()
        os.fsync(raw.fileno())


def write_text(path: Path, text: str) -> None:
    """Write a whole UTF-8 text file atomically."""
    with writing(path) as out:
        out.write(text.encode())


def cache_folder() -> Path:
    """Where parsed vectors and fetched data are kept: `EVENHAND_CACHE`, or the user's cache folder."""
    given: Any = os.environ.get("EVENHAND_CACHE")
    if given:
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "evenhand"
