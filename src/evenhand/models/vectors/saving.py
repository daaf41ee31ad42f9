"""Save vectors to one file, or to several files that belong together."""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from evenhand.errors import EvenhandError, FormatError, UsageError
from evenhand.files import keep_mode, partial_name, replacing, told_as_output
from evenhand.models.vectors import history
from evenhand.models.vectors.cache import digest_of
from evenhand.models.vectors.formats import format_for_writing, get
from evenhand.models.vectors.table import Vectors


def save(vectors: Vectors, path: Path, *, format: str | None = None) -> Path:
    """Write the vectors in the format that the name says; the target is replaced only when all is written.

    A history that the format has no place for goes into `<file>.history.json`.
    """
    path = Path(os.path.expanduser(path))  # noqa: PTH111  does not raise on a home that nobody has
    chosen = get(format) if format else format_for_writing(path)
    if chosen.write is None:
        why = chosen.why_not_written or "it is only read"
        raise FormatError(f"{path}: {chosen.title} is not written: {why}", hint="write .safetensors or .txt")
    if not len(vectors):
        raise UsageError(f"{path}: there are no vectors to write", hint="keep at least one word")
    apart = bool(vectors.history) and not chosen.holds_history
    with _together(path) as staged:
        chosen.write(vectors, staged)
        if apart:
            history.write_beside(staged, vectors, digest_of(staged))
    if not apart:
        history.beside(path).unlink(missing_ok=True)
    return path


@contextlib.contextmanager
def _together(path: Path) -> Iterator[Path]:
    """The same file name in a hidden folder beside the target; what lies there at the end is put into its place.

    No rename moves two files at once. When companions (a vocabulary, a history) change, the old target is therefore
    removed before and the new one set last: a kill in between leaves none, never a matrix with another's words.
    """
    target = Path(os.path.realpath(path))  # through a link, so that the link stays
    folder = target.with_name(partial_name(target))
    with told_as_output(path):
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        folder.mkdir(parents=True)
    try:
        yield folder / path.name
        with told_as_output(path):
            _publish(folder / path.name, target, path.parent)
    except EvenhandError as error:  # it names the file in the hidden folder, which nobody asked for
        message = error.message.replace(str(folder), str(path.parent))
        raise type(error)(message, hint=error.hint) from error.__cause__
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _publish(staged: Path, target: Path, beside: Path) -> None:
    keep_mode(target, staged)
    companions = [file for file in staged.parent.iterdir() if file != staged]
    changed = [file for file in companions if not _same(file, beside / file.name)]
    if changed:
        target.unlink(missing_ok=True)
    for file in changed:
        with replacing(beside / file.name) as partial:
            shutil.copyfile(file, partial)
    staged.replace(target)


def _same(one: Path, other: Path) -> bool:
    return other.exists() and filecmp.cmp(one, other, shallow=False)
