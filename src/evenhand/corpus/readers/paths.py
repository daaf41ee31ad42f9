"""Expand files, folders, globs and addresses to a list of files, and open them."""

from __future__ import annotations

import contextlib
import glob
import io
import os
import stat
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import IO, NamedTuple, TypeAlias

from evenhand.errors import EvenhandError, FormatError, InputMissingError, MissingExtraError, UsageError
from evenhand.files import BROKEN_STREAM, DECOMPRESSORS, compression_of, open_bytes

Paths: TypeAlias = "str | Path | Iterable[str | Path]"

# Suffixes read from a folder; a file named by itself may have any name and is plain text by default.
IN_FOLDERS = (
    ".txt",
    ".text",
    ".tokens",
    ".raw",
    ".jsonl",
    ".ndjson",
    ".json",
    ".csv",
    ".tsv",
    ".parquet",
    ".arrow",
    ".wet",
)
NOT_TEXT = ("dataset_info.json", "state.json", "dataset_dict.json")  # beside the tables of a Hugging Face data set


def expand(paths: Paths) -> tuple[str, ...]:
    """Return every file once, in a fixed order: as listed, and sorted inside a folder or a glob."""
    names = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if not names:
        raise UsageError("no file to read", hint="name files, folders or globs such as 'corpus/*.jsonl.gz'")
    return tuple(dict.fromkeys(file for path in names for file in _files(path)))


def _files(path: str | Path) -> list[str]:
    if not isinstance(path, (str, Path)):
        raise UsageError(f"a {type(path).__name__} is not a path", hint="pass texts in memory as corpus.Texts([...])")
    name = str(path)
    if "://" in name:
        return _remote(name)
    file = Path(os.path.expanduser(name))  # noqa: PTH111  leaves an unknown home directory as it is
    if file.is_dir():
        return _inside(file)
    if not os.path.lexists(file) and glob.has_magic(name):
        matches = sorted(hit for hit in glob.glob(str(file), recursive=True) if not os.path.isdir(hit))  # noqa: PTH112, PTH207
        if not matches:
            raise InputMissingError(f"no file matches {name!r}", hint="check the pattern; ** descends into folders")
        return [_regular(match) for match in matches]
    if not file.exists():
        raise InputMissingError(f"{name!r} does not exist", hint="check the spelling of the path")
    return [_regular(str(file))]


def _regular(name: str) -> str:
    """Return the name of a regular file; a pipe could block for ever and cannot be read twice."""
    if not stat.S_ISREG(os.stat(name).st_mode):  # noqa: PTH116
        raise UsageError(f"{name!r} is not a regular file", hint="write its contents to a file and name that")
    return name


def _inside(folder: Path) -> list[str]:
    files = sorted(str(file) for file in folder.rglob("*") if file.is_file() and _readable(file))
    if not files:
        raise InputMissingError(f"{folder}: no text file in this folder", hint=f"suffixes: {' '.join(IN_FOLDERS)}")
    return files


def _readable(file: Path) -> bool:
    kind = suffix(file.name)
    return kind in IN_FOLDERS and file.name not in NOT_TEXT and not file.name.startswith(".")


def suffix(name: str) -> str:
    """Return the suffix that determines the format, without that of the compression; `.warc.wet` is `.wet`."""
    path = PurePosixPath(name.lower())
    return (path.with_suffix("") if path.suffix in DECOMPRESSORS else path).suffix


class Size(NamedTuple):
    """Stored bytes of a file (None if unknown), and whether reading can begin in the middle."""

    stored: int | None
    divisible: bool


def size_of(address: str) -> Size:
    """Return the size of a file; compressed files can be read from the beginning only."""
    plain = not compression_of(Path(address))
    if "://" not in address:
        try:
            return Size(os.stat(address).st_size, plain)  # noqa: PTH116
        except OSError:
            return Size(None, False)
    try:
        files, path = _fsspec().core.url_to_fs(address)
        info = files.info(path)
    except (*BROKEN_STREAM, ImportError):  # reported when the file is read
        return Size(None, False)
    stored = info.get("size")
    # Some web servers send whole files only, which fsspec reports.
    return Size(stored, plain and stored is not None and info.get("partial", True))


@contextlib.contextmanager
def open_stream(address: str) -> Iterator[IO[bytes]]:
    """Open the decompressed bytes of a local file or of an address (through fsspec)."""
    if "://" not in address:
        with open_bytes(Path(address)) as stream:
            yield stream
        return
    try:
        with _fsspec().open(address, "rb") as raw:
            compression = compression_of(Path(address))
            yield io.BufferedReader(DECOMPRESSORS[compression](raw)) if compression else raw  # type: ignore[type-var]
    except EvenhandError:
        raise
    except ImportError as error:
        raise _missing_package(address, error) from error
    except BROKEN_STREAM as error:
        raise FormatError(f"{address}: could not be read ({error})", hint="check the address and the file") from error


def _remote(address: str) -> list[str]:
    if not glob.has_magic(address):
        return [address]
    try:
        return sorted(file.full_name for file in _fsspec().open_files(address, "rb"))
    except EvenhandError:
        raise
    except ImportError as error:
        raise _missing_package(address, error) from error
    except BROKEN_STREAM as error:
        raise InputMissingError(f"{address}: could not be listed ({error})", hint="check the address") from error


def _missing_package(address: str, error: ImportError) -> MissingExtraError:
    """Return the error for an address whose fsspec package is missing; fsspec names the package."""
    return MissingExtraError(f"{address}: a package for such addresses is missing", hint=f"{error} (pip install it)")


def _fsspec() -> ModuleType:
    try:
        return import_module("fsspec")
    except ImportError as error:
        raise MissingExtraError("addresses need the package 'fsspec'", hint="pip install fsspec") from error
