"""From what a caller names (files, folders, globs, addresses) to the files themselves, and how each is opened."""

from __future__ import annotations

import contextlib
import glob
import io
import os
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, TypeAlias

from evenhand.errors import EvenhandError, FormatError, InputMissingError, MissingExtraError, UsageError
from evenhand.files import BROKEN_STREAM, DECOMPRESSORS, compression_of, open_bytes

Paths: TypeAlias = "str | Path | Iterable[str | Path]"

# What is read out of a folder; a file named by itself may be called anything and is plain text unless its name says so.
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
    """Every file meant, in a fixed order: as given, and sorted inside a folder or a glob; each once."""
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if not given:
        raise UsageError("no file to read", hint="name files, folders or globs such as 'corpus/*.jsonl.gz'")
    return tuple(dict.fromkeys(file for path in given for file in _files(path)))


def _files(path: str | Path) -> list[str]:
    if not isinstance(path, (str, Path)):
        raise UsageError(f"{type(path).__name__} is no path", hint="texts in memory go through corpus.Texts([...])")
    name = str(path)
    if "://" in name:
        return _remote(name)
    place = Path(os.path.expanduser(name))  # noqa: PTH111  leaves a home that nobody has as it is
    if place.is_dir():
        return _inside(place)
    if not os.path.lexists(place) and glob.has_magic(name):
        found = sorted(hit for hit in glob.glob(str(place), recursive=True) if not os.path.isdir(hit))  # noqa: PTH112, PTH207
        if not found:
            raise InputMissingError(f"no file matches {name!r}", hint="check the pattern; ** goes into folders")
        return found
    if not place.exists():
        raise InputMissingError(f"{name!r} does not exist", hint="check the spelling of the path")
    return [str(place)]


def _inside(folder: Path) -> list[str]:
    found = sorted(str(file) for file in folder.rglob("*") if file.is_file() and _readable(file))
    if not found:
        raise InputMissingError(f"{folder}: no text file in this folder", hint=f"known: {' '.join(IN_FOLDERS)}")
    return found


def _readable(file: Path) -> bool:
    kind = suffix(file.name)
    return kind in IN_FOLDERS and file.name not in NOT_TEXT and not file.name.startswith(".")


def suffix(name: str) -> str:
    """The suffix that tells the format, without that of the compression; `.warc.wet` is `.wet`."""
    place = PurePosixPath(name.lower())
    return (place.with_suffix("") if place.suffix in DECOMPRESSORS else place).suffix


class Size(NamedTuple):
    """Bytes as they are stored, None where nobody can tell, and whether reading may begin in the middle."""

    stored: int | None
    divisible: bool


def size_of(address: str) -> Size:
    """How large a file is, to share out the work; what is compressed can be read from its beginning only."""
    plain = not compression_of(Path(address))
    if "://" not in address:
        try:
            return Size(os.stat(address).st_size, plain)  # noqa: PTH116
        except OSError:
            return Size(None, False)
    try:
        files, path = _fsspec().core.url_to_fs(address)
        about = files.info(path)
    except (*BROKEN_STREAM, ImportError):  # said with the right words when it is read
        return Size(None, False)
    stored = about.get("size")
    # Some web servers hand out whole files only, and fsspec then says so.
    return Size(stored, plain and stored is not None and about.get("partial", True))


@contextlib.contextmanager
def opened(address: str) -> Iterator[IO[bytes]]:
    """A stream of the decompressed bytes, from this machine or through fsspec."""
    if "://" not in address:
        with open_bytes(Path(address)) as stream:
            yield stream
        return
    try:
        with _fsspec().open(address, "rb") as raw:
            packing = compression_of(Path(address))
            yield io.BufferedReader(DECOMPRESSORS[packing](raw)) if packing else raw  # type: ignore[type-var]
    except EvenhandError:
        raise
    except ImportError as error:
        raise _no_package(address, error) from error
    except BROKEN_STREAM as error:
        raise FormatError(f"{address}: could not be read ({error})", hint="check the address and the file") from error


def stored(address: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    """A stream of the bytes as they are stored, compressed or not."""
    found: contextlib.AbstractContextManager[IO[bytes]] = (
        _fsspec().open(address, "rb") if "://" in address else Path(address).open("rb")
    )
    return found


def _remote(address: str) -> list[str]:
    if not glob.has_magic(address):
        return [address]
    try:
        return sorted(file.full_name for file in _fsspec().open_files(address, "rb"))
    except EvenhandError:
        raise
    except ImportError as error:
        raise _no_package(address, error) from error
    except BROKEN_STREAM as error:
        raise InputMissingError(f"{address}: could not be listed ({error})", hint="check the address") from error


def _no_package(address: str, error: ImportError) -> MissingExtraError:
    """What fsspec says: it brings some kinds of address and names the package that it needs for another."""
    return MissingExtraError(f"{address}: a package for such addresses is missing", hint=f"{error} (pip install it)")


def _fsspec() -> Any:
    try:
        return import_module("fsspec")
    except ImportError as error:
        raise MissingExtraError("addresses need the package 'fsspec'", hint="pip install fsspec") from error
