"""Existing copies of data sets: the user's `EVENHAND_DATA` folder, the cache, then the package."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evenhand.data.catalog import CatalogEntry, File, get
from evenhand.errors import EvenhandWarning, FetchError
from evenhand.files import cache_folder, sha256_of

if sys.platform != "win32":
    import fcntl

CopyOrigin = Literal["EVENHAND_DATA", "cache", "package"]
PACKAGED = {"rg-65": "similarity/rg-65.tsv", "mc-30": "similarity/mc-30.tsv"}  # below data/embedded


@dataclass(frozen=True)
class LocalCopy:
    """A copy of a data set on disk: `path` is the file or folder to open, `files` parallels the entry's files."""

    origin: CopyOrigin
    path: Path
    files: tuple[Path, ...]


def locate(name: str) -> Path | None:
    """Return the path of a data set on disk, or None; downloads nothing."""
    copy = find_copy(get(name))
    return copy.path if copy else None


def find_copy(entry: CatalogEntry) -> LocalCopy | None:
    """Return the copy that `fetch` uses without a download, or None."""
    return in_data_folder(entry) or in_cache(entry) or in_package(entry)


def in_package(entry: CatalogEntry) -> LocalCopy | None:
    """Return the copy that is part of evenhand; its rows are those of the catalog's file, its bytes are not."""
    if entry.id not in PACKAGED:
        return None
    path = Path(__file__).parent / "embedded" / PACKAGED[entry.id]
    return LocalCopy("package", path, (path,)) if path.is_file() else None


def in_data_folder(entry: CatalogEntry) -> LocalCopy | None:
    """Return the copy in `EVENHAND_DATA`; it is used as it is, with a warning if its size differs."""
    root = os.environ.get("EVENHAND_DATA")
    if not root:
        return None
    copy = _copy("EVENHAND_DATA", entry, Path(root).expanduser() / data_path(entry))
    if not _is_complete(copy):
        return None
    for path, file in zip(copy.files, entry.files, strict=True):
        if file.size and path.stat().st_size != file.size:
            warn_of_other_content(entry, path)
    return copy


def warn_of_other_content(entry: CatalogEntry, path: Path) -> None:
    """Warn that the user's copy differs from the catalog."""
    warnings.warn(
        f"{path} is used for {entry.id!r}, although its content differs from the catalog",
        EvenhandWarning,
        stacklevel=4,
    )


def in_cache(entry: CatalogEntry) -> LocalCopy | None:
    """Return the cached copy. Files are verified before they get their final name, so only the size is checked."""
    copy = cached_copy(entry)
    if not entry.files or not _is_complete(copy):
        return None
    sizes = zip(copy.files, entry.files, strict=True)
    return copy if all(not file.size or path.stat().st_size == file.size for path, file in sizes) else None


def cached_copy(entry: CatalogEntry) -> LocalCopy:
    """Return the paths under which a download is stored."""
    folder = entry_folder(entry)
    return _copy("cache", entry, folder if entry.is_folder else folder / entry.files[0].name)


def entry_folder(entry: CatalogEntry) -> Path:
    """Return the folder of a data set in the cache."""
    return cache_folder() / "data" / entry.id


def data_path(entry: CatalogEntry) -> str:
    """Return the path of a data set inside an `EVENHAND_DATA` folder."""
    default = entry.id if entry.is_folder else f"{entry.id}/{entry.files[0].name}"
    return entry.data_path or default


def _copy(origin: CopyOrigin, entry: CatalogEntry, base: Path) -> LocalCopy:
    if not entry.is_folder:
        return LocalCopy(origin, base, (base,))
    return LocalCopy(origin, base / entry.main if entry.main else base, tuple(base / file.name for file in entry.files))


def _is_complete(copy: LocalCopy) -> bool:
    return copy.path.exists() and all(path.is_file() for path in copy.files)


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Lock a folder, so that two processes do not write the same partial file.

    The lock is released with the open file, also when the process is killed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = folder.with_name(f".{folder.name}.lock").open("ab")
    except OSError as error:
        raise FetchError(
            f"cannot write into {str(folder)!r} ({error.strerror})", hint="set EVENHAND_CACHE to a writable folder"
        ) from error
    with handle:
        if sys.platform != "win32":
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def is_intact(path: Path, expected: File) -> bool:
    """Return True if size and SHA-256 agree with the catalog, as far as they are known."""
    return not _difference(path, expected)


def check(path: Path, expected: File) -> None:
    """Raise `FetchError` if size or SHA-256 differ from the catalog."""
    if why := _difference(path, expected):
        raise FetchError(f"{expected.name}: {why}")


def _difference(path: Path, expected: File) -> str:
    size = path.stat().st_size
    if expected.size and size != expected.size:
        return f"has {size:,} bytes, expected {expected.size:,}"
    if expected.sha256 and (actual := sha256_of(path)) != expected.sha256:
        return f"its sha256 is {actual}, expected {expected.sha256}"
    return ""
