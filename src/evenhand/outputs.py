"""Where results go: which existing files a command may replace, and folders that are replaced as a whole.

A command remembers the files that it wrote, by place, size and time, in the cache folder. The same command can be run
again, and a file of the user, or one that the user edited, stays unless it is told to overwrite it. A process that is
killed while it replaces a folder leaves the old one or the new one, never a mixture and never none.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from evenhand.errors import EvenhandError, OutputError
from evenhand.files import (
    cache_folder,
    output_errors,
    partial_name,
    remove_partial,
    require_folder,
    sweep_partials,
    write_text,
)

REMEMBERED = "outputs"  # folder in the cache


@contextlib.contextmanager
def output_file(path: Path | None, *, sources: Iterable[str | Path] = (), overwrite: bool = False) -> Iterator[None]:
    """Refuse to replace what evenhand did not write; remember the file when it is written.

    Args:
        path: the file; nothing is checked for None, or where a folder or nothing is written.
        sources: what is read; a source is never replaced without `overwrite`.
        overwrite: replace any file.
    """
    if path is None:
        yield
        return
    require_replaceable(path, sources=sources, overwrite=overwrite)
    yield
    remember(path)


def require_replaceable(path: Path, *, sources: Iterable[str | Path] = (), overwrite: bool = False) -> None:
    """Raise `OutputError` if a file exists that must not be replaced."""
    target = Path(os.path.expanduser(path))  # noqa: PTH111  does not raise for an unknown home
    if overwrite or not target.is_file():
        return
    if any(_is_same_file(target, source) for source in sources):
        raise OutputError(f"{path} is read by this command and would be replaced", hint=_hint(path))
    if not _is_remembered(target):
        raise OutputError(f"{path} exists, and evenhand did not write it or it was changed since", hint=_hint(path))


def require_own_folder(folder: Path, names: Iterable[str], is_own: Callable[[Path], bool]) -> None:
    """Raise `OutputError` if a folder has one of the files that will be written and is not of evenhand."""
    present = [name for name in names if (folder / name).exists()]
    if present and not is_own(folder):
        raise OutputError(
            f"{folder} has a file {present[0]!r} that evenhand did not write", hint="name another folder, or remove it"
        )


def require_run_folder(folder: Path) -> None:
    """Raise `OutputError` if a folder cannot hold a run, or record or page of an audit would replace other files."""
    require_folder(folder)
    require_own_folder(folder, ("audit.json", "report.html"), _is_run)


def remember(path: Path) -> None:
    """Note that evenhand wrote a file; without a writable cache the next command asks for --overwrite."""
    target = Path(os.path.expanduser(path))  # noqa: PTH111
    if target.is_file():
        with contextlib.suppress(EvenhandError, OSError):
            write_text(_note_of(target), json.dumps({"path": os.path.realpath(target), **_mark(target)}) + "\n")


def _hint(path: Path) -> str:
    return f"name another file than {path.name}, or give `overwrite=True`"


def _is_same_file(target: Path, source: str | Path) -> bool:
    text = str(source)
    place = text.partition(":")[2] if ":" in text and not os.path.exists(text) else text  # noqa: PTH110  long names
    return os.path.realpath(os.path.expanduser(place)) == os.path.realpath(target)  # noqa: PTH111


def _note_of(target: Path) -> Path:
    name = hashlib.sha256(os.fsencode(os.path.realpath(target))).hexdigest()[:32]
    return cache_folder() / REMEMBERED / f"{name}.json"


def _mark(target: Path) -> dict[str, int]:
    status = target.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns}


def _is_remembered(target: Path) -> bool:
    try:
        noted = json.loads(_note_of(target).read_text(encoding="utf-8"))
        return {name: noted[name] for name in ("size", "mtime_ns")} == _mark(target)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _is_run(folder: Path) -> bool:
    """Return whether a folder holds an audit: its record, or the cells of one that was stopped."""
    try:
        with (folder / "audit.json").open("rb") as file:
            start = file.read(200)
    except OSError:
        start = b""
    return (b'"schema"' in start and b'"manifest"' in start) or (folder / "cells").is_dir()


AT_FDCWD, RENAME_EXCHANGE = -100, 2  # <fcntl.h>, <linux/fs.h>
RENAME_SWAP = 2  # <sys/stdio.h> of macOS
UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


@contextlib.contextmanager
def replacing_folder(folder: Path, *, keep_others: bool = False) -> Iterator[Path]:
    """Yield a hidden folder beside the target that takes its place on success and is removed on failure.

    Args:
        folder: the target; links are followed.
        keep_others: keep what the old folder holds under names that the new one does not have, such as checkpoints.
    """
    target = Path(os.path.realpath(folder))
    partial = target.with_name(partial_name(target))
    try:  # also around its creation, during which Ctrl-C may arrive
        with output_errors(folder):
            if target.exists() and not target.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "it is a file, not a folder")
            target.parent.mkdir(parents=True, exist_ok=True)
            sweep_partials(target.parent, target)
            partial.mkdir()
            yield partial
            if keep_others and target.is_dir():
                _link_others(target, partial)
            put_in_place(partial, target)
    finally:
        remove_partial(partial)


def put_in_place(partial: Path, target: Path) -> None:
    """Rename a complete folder to its final name; an older one ends up under the name of the new one."""
    for file in partial.rglob("*"):
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
    if not target.exists():
        partial.rename(target)
    elif not _exchange(partial, target):
        # Two renames: a process that is killed between them leaves the old folder under this name.
        previous = target.with_name(f".{target.name[:200]}.previous")
        shutil.rmtree(previous, ignore_errors=True)
        target.rename(previous)
        partial.rename(target)
        shutil.rmtree(previous, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; return False where the system or the file system cannot."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            failed = library.renamex_np(os.fsencode(one), os.fsencode(other), RENAME_SWAP)
        else:
            failed = library.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)
    except (AttributeError, OSError, TypeError):  # no such function, or no C library to look it up in
        return False
    if not failed:
        return True
    code = ctypes.get_errno()
    if code in UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code))


def _link_others(old: Path, new: Path) -> None:
    """Give the new folder the entries of the old one that it does not have."""
    for entry in old.iterdir():
        place = new / entry.name
        if place.exists() or place.is_symlink() or entry.name.endswith(".partial"):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, place, symlinks=True, copy_function=_link)
        else:
            _link(entry, place)


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target, follow_symlinks=False)
