"""Read and write files: compression by file name, limits on records, atomic replacement, errors that name the file.

The longest record that a reader accepts is bounded, so a damaged or hostile file cannot fill the memory.
"""

from __future__ import annotations

import bz2
import contextlib
import csv
import errno
import functools
import glob
import gzip
import hashlib
import io
import lzma
import os
import secrets
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, cast

from evenhand.errors import EvenhandError, FormatError, InputMissingError, OutputError

if TYPE_CHECKING:
    from typing_extensions import Buffer


STALE_SECONDS = 86_400.0  # after which a temporary file counts as left behind
PARTIAL_DIGITS = 12  # random hexadecimal digits in the name of a temporary file
SKIPPABLE_FRAME = 0x184D2A5  # a zstd magic number without its last four bits
MAX_EXPANSION, LEAST_EXPANSION = 200, 32 << 20  # of a compressed file kept in memory: a factor, or bytes if more
OPEN_STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")  # standard input and process substitution


class _ZstdFrames:
    """The compressed bytes of a zstd stream on their way to the decompressor, with the position inside the frames.

    The reader of zstandard bounds its output, but accepts a stream that ends inside a frame. This class follows frame
    and block headers (RFC 8878, section 3.1), which costs a few operations per block.
    """

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._header = b""  # bytes of an incomplete header
        self._skip = 0  # content bytes up to the next header
        self._state: Literal["frame", "descriptor", "block", "size"] = "frame"
        self._checksum = 0

    def read(self, size: int = -1) -> bytes:
        chunk = self._raw.read(size)
        if not chunk and not self.complete:
            raise EOFError("the stream ends inside a frame")
        self._follow(chunk)
        return chunk

    @property
    def complete(self) -> bool:
        """True between two frames."""
        return self._state == "frame" and not self._header and not self._skip

    def _follow(self, chunk: bytes) -> None:
        position = 0
        while position < len(chunk):
            if self._skip:
                step = min(self._skip, len(chunk) - position)
                self._skip -= step
                position += step
                continue
            step = {"frame": 4, "descriptor": 1, "block": 3, "size": 4}[self._state] - len(self._header)
            self._header += chunk[position : position + step]
            position += step
            if position <= len(chunk):
                self._next_state(self._header)
                self._header = b""

    def _next_state(self, header: bytes) -> None:
        value = int.from_bytes(header, "little")
        if self._state == "frame":
            self._state = "size" if value >> 4 == SKIPPABLE_FRAME else "descriptor"
        elif self._state == "size":
            self._skip, self._state = value, "frame"
        elif self._state == "descriptor":
            single, content_size = value >> 5 & 1, value >> 6
            self._checksum = 4 * (value >> 2 & 1)
            self._skip = (1 - single) + (0, 1, 2, 4)[value & 3] + (single, 2, 4, 8)[content_size]
            self._state = "block"
        else:
            last, run = value & 1, value >> 1 & 3 == 1  # a run-length block holds one byte
            self._skip = (1 if run else value >> 3) + (self._checksum if last else 0)
            self._state = "frame" if last else "block"


class _ZstdReader(io.RawIOBase):
    """A decompressed zstd stream; each read returns at most the requested number of bytes."""

    def __init__(self, raw: IO[bytes]) -> None:
        import zstandard  # imported on use: needed for .zst files only

        self._broken = zstandard.ZstdError
        self._stream = zstandard.ZstdDecompressor().stream_reader(
            cast(IO[bytes], _ZstdFrames(raw)), read_across_frames=True, closefd=False
        )

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        try:
            return int(self._stream.readinto(buffer))
        except self._broken as error:
            raise ValueError(str(error)) from error


def _zstd_writer(raw: IO[bytes]) -> IO[bytes]:
    import zstandard

    return cast(IO[bytes], zstandard.ZstdCompressor(level=3).stream_writer(raw, closefd=False))


Opener = Callable[[IO[bytes]], IO[bytes]]

DECOMPRESSORS: dict[str, Opener] = {
    ".gz": lambda raw: cast(IO[bytes], gzip.GzipFile(fileobj=raw)),
    ".zst": lambda raw: cast(IO[bytes], io.BufferedReader(_ZstdReader(raw), 1 << 20)),
    ".xz": lambda raw: cast(IO[bytes], lzma.LZMAFile(raw)),
    ".bz2": lambda raw: cast(IO[bytes], bz2.BZ2File(raw)),
}
COMPRESSORS: dict[str, Opener] = {
    ".gz": lambda raw: cast(IO[bytes], gzip.GzipFile("", fileobj=raw, mode="wb", compresslevel=6, mtime=0)),
    ".zst": _zstd_writer,
    ".xz": lambda raw: cast(IO[bytes], lzma.LZMAFile(raw, "wb", preset=1)),
    ".bz2": lambda raw: cast(IO[bytes], bz2.BZ2File(raw, "wb")),
}
# Exceptions that the four decompressors raise for damaged or truncated input.
BROKEN_STREAM = (EOFError, OSError, lzma.LZMAError, zlib.error, ValueError)


def compression_of(path: Path) -> str:
    """Return the compression suffix of a file name, or the empty string."""
    return path.suffix.lower() if path.suffix.lower() in DECOMPRESSORS else ""


def bare_name(path: Path) -> str:
    """Return the file name in lower case without its compression suffix."""
    name = path.name.lower()
    return name.removesuffix(compression_of(path))


def existing(path: Path, *, what: str = "file") -> Path:
    """Return the path if it is a readable file; raise `InputMissingError` otherwise."""
    if not os.path.exists(path):  # noqa: PTH110  Path.exists raises on names that are too long
        raise InputMissingError(f"{what} {str(path)!r} does not exist", hint="check the spelling of the path")
    if path.is_dir():
        raise InputMissingError(f"{str(path)!r} is a folder, not a {what}", hint="name a file inside it")
    if not path.is_file() and not str(path).startswith(OPEN_STREAMS):
        # Opening a named pipe waits until somebody writes to it, possibly forever.
        raise InputMissingError(
            f"{str(path)!r} is a pipe or a device, not a {what}", hint="write it to a file first, or use /dev/stdin"
        )
    if not os.access(path, os.R_OK):
        raise InputMissingError(f"{what} {str(path)!r} is not readable", hint="check its permissions")
    return path


class _Unpacked(io.RawIOBase):
    """A decompressed stream that reports damage as a `FormatError` naming the file."""

    def __init__(self, raw: IO[bytes], path: Path, suffix: str, most: int | None) -> None:
        self._path, self._suffix, self._most, self._size = path, suffix, most, 0
        self._stream = cast(io.BufferedReader, DECOMPRESSORS[suffix](raw))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        try:
            size = int(self._stream.readinto1(buffer))  # not `readinto`, which drops what it read before damage
        except BROKEN_STREAM as error:
            raise FormatError(
                f"{self._path}: not a complete {self._suffix} stream ({error})",
                hint=f"fetch the file again, or rename it if it is not {self._suffix}-compressed",
            ) from error
        self._size += size
        if self._most is not None and self._size > self._most:
            raise FormatError(
                f"{self._path}: expands to more than {self._most:,} bytes",
                hint="check the file; if it is valid, decompress it first",
            )
        return size

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


@contextlib.contextmanager
def open_bytes(path: Path, *, kept: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for reading and decompress it by suffix; damage raises a `FormatError` that names the file.

    Args:
        path: the file.
        kept: whether the reader keeps the content in memory; a compressed file may then expand `MAX_EXPANSION`-fold.
    """
    suffix = compression_of(existing(path))
    if suffix and not path.stat().st_size:
        raise FormatError(f"{path}: the file is empty, not a {suffix} stream", hint="fetch it again")
    try:
        with path.open("rb") as raw:
            if suffix:
                most = max(MAX_EXPANSION * path.stat().st_size, LEAST_EXPANSION) if kept else None
                with io.BufferedReader(_Unpacked(raw, path, suffix, most), 1 << 20) as stream:
                    yield cast(IO[bytes], stream)
            else:
                yield raw
    except EvenhandError:
        raise
    except OSError as error:
        raise InputMissingError(
            f"{path}: could not be read ({error.strerror or error})", hint="check the disk and the permissions"
        ) from error


def read_utf8(path: Path) -> str:
    """Return the text of a file, decompressed; one that is not UTF-8 or expands implausibly raises `FormatError`."""
    with open_bytes(path, kept=True) as stream:
        raw = stream.read()
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not UTF-8 text (byte {error.start:,})", hint="convert the file first") from error


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside the target; rename it to the target on success, remove it on failure.

    A killed process leaves the old file or none, never a partial one: `os.replace` is atomic, and a leftover temporary
    file starts with a dot and ends with `.partial`. Symbolic links are followed.
    """
    target = Path(os.path.realpath(path))
    partial = target.with_name(partial_name(target))
    try:  # also around its creation, during which Ctrl-C may arrive
        with output_errors(path):
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
            if target.exists() and not target.is_file():  # renaming would replace a device or a pipe
                raise OSError(errno.EINVAL, "it is not a regular file")
            target.parent.mkdir(parents=True, exist_ok=True)
            _sweep_once(target.parent)
            # Not mkstemp, which creates private files: here the umask applies.
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield partial
        with output_errors(path):
            keep_mode(target, partial)
            partial.replace(target)
    finally:
        remove_partial(partial)


def remove_partial(partial: Path) -> None:
    """Remove a temporary file or folder, also when a signal arrives meanwhile.

    What cannot be removed is left: the reason, such as a read-only disk, prevented the writing too, and that error
    says more.
    """
    try:
        _remove(partial)
    except KeyboardInterrupt:
        _remove(partial)
        raise


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


@functools.lru_cache(maxsize=64)
def _sweep_once(folder: Path) -> None:
    """Remove leftover temporary files of a folder, once in a process: an audit writes thousands of files."""
    sweep_partials(folder)


def sweep_partials(folder: Path, target: Path | None = None) -> None:
    """Remove temporary files and folders that killed processes left behind: older than a day, of this target or any."""
    hexadecimal = "[0-9a-f]" * PARTIAL_DIGITS  # of `partial_name`: other programs use the same ending
    pattern = f".{glob.escape(target.name[:40]) if target else '*'}.{hexadecimal}.partial"
    with contextlib.suppress(OSError):
        for leftover in folder.glob(pattern):
            if time.time() - leftover.lstat().st_mtime > STALE_SECONDS:
                _remove(leftover)


def partial_name(path: Path) -> str:
    """Return a hidden temporary name; long names are cut because file systems allow 255 bytes."""
    return f".{path.name[:40]}.{secrets.token_hex(PARTIAL_DIGITS // 2)}.partial"


def keep_mode(old: Path, new: Path) -> None:
    """Copy the permissions of the file to be replaced to the new file."""
    if old.exists():
        new.chmod(old.stat().st_mode & 0o777)


@contextlib.contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Convert an `OSError` raised while writing into an `OutputError` that names the file."""
    try:
        yield
    except EvenhandError:
        raise
    except Exception as error:
        if not isinstance(error, OSError) and not _is_failed_write(error):
            raise
        why = error.strerror or error if isinstance(error, OSError) else error
        raise OutputError(
            f"{path}: could not be written ({why})",
            hint="check the folder, its permissions and the free space; the previous content is unchanged",
        ) from error


def _is_failed_write(error: Exception) -> bool:
    """Return True for what safetensors raises in place of an `OSError` when a disk is full."""
    said = ("Error while serializing: I/O error", "Error while serializing: IoError")  # the latter before 0.5
    return type(error).__name__ == "SafetensorError" and str(error).startswith(said)


def require_folder(path: Path) -> None:
    """Raise `OutputError` if a folder can neither be used nor created, before long work; creates nothing."""
    with output_errors(path):
        parent = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
        if not parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{parent} is not a folder")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"no permission to write into {parent}")


def require_inside(path: Path, folder: Path) -> Path:
    """Return the path of an output in a folder; raise `OutputError` if a link there leads out of the folder."""
    target = os.path.realpath(path)
    if not Path(target).is_relative_to(os.path.realpath(folder)):
        raise OutputError(f"{path}: a link leads to {target!r}, outside of the folder", hint="remove the link")
    return path


@contextlib.contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for atomic writing, compressed by suffix and synced to disk before the rename."""
    suffix = compression_of(path)
    with output_errors(path), replacing(path) as partial, partial.open("wb") as raw:
        if suffix:
            with COMPRESSORS[suffix](raw) as stream:
                yield stream
        else:
            yield raw
        raw.flush()
        os.fsync(raw.fileno())


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with writing(path) as out:
        out.write(text.encode())


def cache_folder() -> Path:
    """Return the folder for parsed vectors and downloads: `EVENHAND_CACHE`, or the user's cache folder."""
    # os.path.expanduser keeps an unknown home as it is, whereas Path.expanduser raises.
    if folder := os.environ.get("EVENHAND_CACHE"):
        return Path(os.path.expanduser(folder))  # noqa: PTH111
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "evenhand"  # noqa: PTH111


MAX_RECORD = 128 << 20  # bytes
BLOCK = 1 << 20
LARGEST_FIELD = (1 << 31) - 1  # what csv accepts on every platform; the limit of the row is the smaller one


def record_too_long(where: str, limit: int) -> FormatError:
    """Return the error for a record that exceeds the limit."""
    return FormatError(
        f"{where}: a record or word is longer than {limit:,} bytes",
        hint="check the file; a larger `max_record=` allows it",
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
