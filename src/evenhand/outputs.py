"""Which existing files a command may replace: those that evenhand wrote and nobody changed since.

A command remembers the files that it wrote, by place, size and time, in the cache folder. The same command can be run
again, and a file of the user, or one that the user edited, stays unless `--overwrite` is given.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from evenhand.errors import EvenhandError, OutputError
from evenhand.files import cache_folder, write_text

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
    """Raise `OutputError` if record or page of an audit would replace other files."""
    require_own_folder(folder, ("audit.json", "report.html"), _is_run)


def remember(path: Path) -> None:
    """Note that evenhand wrote a file; without a writable cache the next command asks for --overwrite."""
    target = Path(os.path.expanduser(path))  # noqa: PTH111
    if target.is_file():
        with contextlib.suppress(EvenhandError, OSError):
            write_text(_note_of(target), json.dumps({"path": os.path.realpath(target), **_mark(target)}) + "\n")


def _hint(path: Path) -> str:
    return f"name another file than {path.name}, or add --overwrite"


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
