"""Bring a data set onto this disk: the user's folder, the cache, the origin, then the registry mirrors."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.parse import urlsplit

from evenhand.data import local_copies
from evenhand.data.catalog import Entry, File, Source, get
from evenhand.data.digest import is_intact, sha256_of
from evenhand.data.local_copies import Place
from evenhand.errors import EvenhandError, EvenhandWarning, FetchError, UsageError


@dataclass(frozen=True)
class Fetched:
    """A data set that is here, and where it came from: a source, "cache" or "EVENHAND_DATA"."""

    entry: Entry
    place: Place
    source: str


class DownloadProgress(Protocol):
    """Called now and then with the bytes that are here and, where the server says it, how many there will be."""

    def __call__(self, done: int, total: int | None, /) -> None:
        """Take note of the bytes done so far."""


def silent(done: int, total: int | None, /) -> None:
    """Report nothing."""


def fetch(name: str, *, offline: bool | None = None, force: bool = False, progress: DownloadProgress = silent) -> Path:
    """The path of a data set's file or folder, downloaded if it is not here yet.

    Args:
        name: an id of the catalog.
        offline: never touch the network; default: `EVENHAND_OFFLINE`.
        force: download again even if a copy is here.
        progress: called with (bytes done, total or None) during a download from the web.
    """
    return obtain(get(name), offline=offline, force=force, progress=progress).place.path


def obtain(
    entry: Entry,
    *,
    offline: bool | None = None,
    force: bool = False,
    verify: bool = False,
    progress: DownloadProgress = silent,
) -> Fetched:
    """Like `fetch`, and say where the copy came from; `verify` also hashes a copy that was here already."""
    offline = is_offline() if offline is None else offline
    if force and offline:
        raise UsageError(f"cannot download {entry.id!r} again while offline", hint="drop force, or go online")
    if not force and (found := _here(entry, verify=verify)):
        return found
    _refuse_if_unreachable(entry, offline=offline)
    with local_copies.one_at_a_time(local_copies.entry_folder(entry)):
        # Another process may have brought it while this one waited.
        if not force and (place := _in_cache(entry, verify=verify)):
            return Fetched(entry, place, "cache")
        return _from_first_that_works(entry, progress)


def is_offline() -> bool:
    """Whether `EVENHAND_OFFLINE` asks for no network."""
    return os.environ.get("EVENHAND_OFFLINE", "").strip().lower() not in {"", "0", "false", "no"}


def _here(entry: Entry, *, verify: bool) -> Fetched | None:
    if place := local_copies.in_data_folder(entry):
        if verify:
            for path, file in zip(place.files, entry.files, strict=True):
                if file.size == path.stat().st_size and not is_intact(path, file):
                    local_copies.warn_of_other_content(entry, path)
    else:
        place = _in_cache(entry, verify=verify)
    return Fetched(entry, place, place.name) if place else None


def _in_cache(entry: Entry, *, verify: bool) -> Place | None:
    place = local_copies.in_cache(entry)
    if place and verify and not all(map(is_intact, place.files, entry.files)):
        return None
    return place


def _refuse_if_unreachable(entry: Entry, *, offline: bool) -> None:
    wanted = f"$EVENHAND_DATA/{local_copies.data_path(entry)}"
    if not entry.sources:
        raise FetchError(
            f"{entry.id!r} has no address to fetch it from; it can only come from {wanted}",
            hint=f"set EVENHAND_DATA to a folder that has it. {entry.note}".rstrip(),
        )
    if offline:
        raise FetchError(
            f"{entry.id!r} is not here and evenhand is offline",
            hint=f"unset EVENHAND_OFFLINE (or drop --offline), or put it at {wanted}",
        )


def _from_first_that_works(entry: Entry, progress: DownloadProgress) -> Fetched:
    failures = []
    for source in entry.sources:
        try:
            _take(source, entry, progress)
        except UsageError:
            raise
        except (EvenhandError, OSError) as error:
            failures.append(f"{source}: {_reason(error)}")
        else:
            place = local_copies.cache_place(entry)
            _warn_if_unverified(entry, place)
            return Fetched(entry, place, str(source))
    raise FetchError(
        "\n  ".join([f"could not fetch {entry.id!r}; tried {len(failures)}:", *failures]),
        hint=f"try again later, or put it at $EVENHAND_DATA/{local_copies.data_path(entry)}. {entry.note}".rstrip(),
    )


def _reason(error: Exception) -> str:
    if isinstance(error, EvenhandError):
        return f"{error.message} ({error.hint})" if error.hint else error.message
    return str(error)


def _take(source: Source, entry: Entry, progress: DownloadProgress) -> None:
    """Bring every file of the entry from one source; only whole, checked files get their final name."""
    # These load ssl, tarfile and subprocess, which a run that finds its data here does not need.
    from evenhand.data import archive, http

    folder = local_copies.entry_folder(entry)
    if not source.member:
        for file in entry.files:
            http.download(source.address_of(file.name), folder / file.name, expected=file, progress=progress)
        return
    wanted = {source.member_of(file.name): archive.Wanted(folder / file.name, file) for file in entry.files}
    with _package(source, folder, progress) as packed:
        archive.extract(packed, wanted)


@contextmanager
def _package(source: Source, folder: Path, progress: DownloadProgress) -> Iterator[Path]:
    """The archive of a source, for as long as it takes to unpack it."""
    from evenhand.data import http, packages

    if source.kind != "web":
        with tempfile.TemporaryDirectory(prefix=".package-", dir=folder) as scratch:
            yield packages.download(source, Path(scratch))
        return
    name = _archive_name(source)
    packed = http.download(source.where, folder / name, expected=File(name), progress=progress)
    try:
        yield packed
    finally:
        packed.unlink(missing_ok=True)


def _archive_name(source: Source) -> str:
    return "." + (PurePosixPath(urlsplit(source.where).path).name or "archive")


def _warn_if_unverified(entry: Entry, place: Place) -> None:
    for path, file in zip(place.files, entry.files, strict=True):
        if not file.sha256:
            warnings.warn(
                f"no sha256 is known for {file.name!r} of {entry.id!r}; the one fetched has {sha256_of(path)}",
                EvenhandWarning,
                stacklevel=5,
            )
