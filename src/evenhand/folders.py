"""Replace folders as a whole: a killed process leaves the old folder or the new one, never a mixture and never none."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from evenhand.files import output_errors, partial_name, remove_partial, sweep_partials

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
