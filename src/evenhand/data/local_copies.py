"""Where a copy of a data set may already lie: the user's `EVENHAND_DATA` folder, then the cache."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evenhand.data.catalog import Entry, get
from evenhand.errors import EvenhandWarning, FetchError
from evenhand.files import cache_folder

if sys.platform != "win32":
    import fcntl

PlaceName = Literal["EVENHAND_DATA", "cache"]


@dataclass(frozen=True)
class Place:
    """A copy of a data set on this disk: `path` is what a reader opens, `files` go with the entry's files."""

    name: PlaceName
    path: Path
    files: tuple[Path, ...]


def locate(name: str) -> Path | None:
    """Where the data set lies on this disk, or None; downloads nothing."""
    place = here(get(name))
    return place.path if place else None


def here(entry: Entry) -> Place | None:
    """The copy that a fetch would use without downloading."""
    return in_data_folder(entry) or in_cache(entry)


def in_data_folder(entry: Entry) -> Place | None:
    """The copy in the user's own folder. It is taken as it is; one that differs in size gets a warning."""
    root = os.environ.get("EVENHAND_DATA")
    if not root:
        return None
    place = _place("EVENHAND_DATA", entry, Path(root).expanduser() / data_path(entry))
    if not _all_there(place):
        return None
    for path, file in zip(place.files, entry.files, strict=True):
        if file.size and path.stat().st_size != file.size:
            warn_of_other_content(entry, path)
    return place


def warn_of_other_content(entry: Entry, path: Path) -> None:
    """Say that the user's own copy is not the catalogued one."""
    warnings.warn(
        f"{path} is used for {entry.id!r}, though its content is not the catalogued one",
        EvenhandWarning,
        stacklevel=4,
    )


def in_cache(entry: Entry) -> Place | None:
    """The copy fetched before. Files get their final name after the sha256 check, so the size is enough here."""
    place = cache_place(entry)
    if not entry.files or not _all_there(place):
        return None
    sizes = zip(place.files, entry.files, strict=True)
    return place if all(not file.size or path.stat().st_size == file.size for path, file in sizes) else None


def cache_place(entry: Entry) -> Place:
    """Where a fetch stores the data set."""
    folder = entry_folder(entry)
    return _place("cache", entry, folder if entry.is_folder else folder / entry.files[0].name)


def entry_folder(entry: Entry) -> Path:
    """The data set's own folder in the cache."""
    return cache_folder() / "data" / entry.id


def data_path(entry: Entry) -> str:
    """The path, inside an `EVENHAND_DATA` folder, where the data set is looked for."""
    default = entry.id if entry.is_folder else f"{entry.id}/{entry.files[0].name}"
    return entry.data_path or default


def _place(name: PlaceName, entry: Entry, base: Path) -> Place:
    if not entry.is_folder:
        return Place(name, base, (base,))
    return Place(name, base / entry.main if entry.main else base, tuple(base / file.name for file in entry.files))


def _all_there(place: Place) -> bool:
    return place.path.exists() and all(path.is_file() for path in place.files)


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Let a second process that wants the same data set wait, instead of writing into the same partial file.

    The lock goes with the open file, so a killed process leaves none behind.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = folder.with_name(f".{folder.name}.lock").open("ab")
    except OSError as error:
        raise FetchError(
            f"cannot write into {str(folder)!r} ({error.strerror})", hint="set EVENHAND_CACHE to a folder of yours"
        ) from error
    with handle:
        if sys.platform != "win32":
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
