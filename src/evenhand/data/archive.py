"""Extract named members from a wheel, zip or tar archive."""

from __future__ import annotations

import gzip
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from evenhand.data.catalog import File, is_plain_path
from evenhand.data.local_copies import check
from evenhand.errors import FetchError
from evenhand.files import replacing

# RuntimeError: an encrypted zip file. NotImplementedError: an unsupported compression method.
BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    EOFError,
    OSError,
    UnicodeDecodeError,
    RuntimeError,
    NotImplementedError,
)


@dataclass(frozen=True)
class Wanted:
    """Target path and expected content of a member."""

    target: Path
    expected: File


def extract(archive: Path, wanted: Mapping[str, Wanted]) -> None:
    """Write each wanted member to its target path and verify it.

    Member names are never used as paths on disk and links are refused, so an archive cannot write elsewhere. A member
    `x.gz` is decompressed if its target does not end in `.gz`.
    """
    if unsafe := [member for member in wanted if not is_plain_path(member)]:
        raise FetchError(f"the path {unsafe[0]!r} points outside its archive")
    missing = dict(wanted)
    with _readable(archive):
        members = _from_zip if zipfile.is_zipfile(archive) else _from_tar
        with closing(members(archive, wanted)) as matches:
            for name, stream in matches:
                if name in missing:
                    _write(stream, name, missing.pop(name))
                if not missing:
                    return
    raise FetchError(f"{archive.name} does not contain {next(iter(missing))!r}")


def _from_zip(archive: Path, wanted: Mapping[str, Wanted]) -> Generator[tuple[str, IO[bytes]], None, None]:
    with zipfile.ZipFile(archive) as zipped:
        for info in zipped.infolist():
            if info.filename.rstrip("/") in wanted:
                mode = info.external_attr >> 16
                _require_regular(not info.is_dir() and not stat.S_ISLNK(mode), info.filename)
                with zipped.open(info) as stream:
                    yield info.filename, stream


def _from_tar(archive: Path, wanted: Mapping[str, Wanted]) -> Generator[tuple[str, IO[bytes]], None, None]:
    # Read as a stream, because seeking back would decompress the archive again.
    with tarfile.open(archive, "r|*") as tarred:
        for info in tarred:
            if info.name in wanted:
                _require_regular(info.isreg(), info.name)
                with cast(IO[bytes], tarred.extractfile(info)) as stream:
                    yield info.name, stream


def _require_regular(regular: bool, name: str) -> None:
    if not regular:
        raise FetchError(f"{name!r} in the archive is a link or a folder, not a regular file")


def _write(stream: IO[bytes], member: str, wanted: Wanted) -> None:
    with replacing(wanted.target) as partial:
        with partial.open("wb") as out:
            if member.endswith(".gz") and wanted.target.suffix != ".gz":
                stream = cast(IO[bytes], gzip.GzipFile(fileobj=stream))
            _copy(stream, out, limit=wanted.expected.size)
        check(partial, wanted.expected)


def _copy(stream: IO[bytes], out: IO[bytes], *, limit: int) -> None:
    """Copy the stream, stopping soon after the expected size so that a bomb cannot fill the disk."""
    if not limit:
        shutil.copyfileobj(stream, out, 1 << 20)
        return
    while out.tell() <= limit and (chunk := stream.read(1 << 20)):
        out.write(chunk)


@contextmanager
def _readable(archive: Path) -> Iterator[None]:
    try:
        yield
    except FetchError:
        raise
    except BROKEN as error:
        raise FetchError(f"{archive.name} could not be unpacked ({type(error).__name__}: {error})") from error
