"""Save vectors to one file, or to several files that belong together."""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from evenhand.errors import EvenhandError, FormatError, UsageError, printable
from evenhand.files import keep_mode, output_errors, partial_name, remove_partial, replacing, sweep_partials
from evenhand.models.vectors import history
from evenhand.models.vectors.cache import digest_of
from evenhand.models.vectors.formats import format_for_writing, get
from evenhand.models.vectors.table import Vectors

MAIN = "main"  # name of the vector file inside a commit folder


def save(vectors: Vectors, path: Path, *, format: str | None = None) -> Path:
    """Write the vectors in the format given by the file name; the target is replaced when everything is written.

    A history that the format cannot hold is written to `<file>.history.json`. The new file is renamed over the old one,
    so that there is always one of them. A process that is killed leaves either the previous or the new result: `load`
    completes a save that was interrupted after all files were written.
    """
    path = Path(os.path.expanduser(path))  # noqa: PTH111  does not raise for an unknown home
    writer = get(format) if format else format_for_writing(path)
    if writer.write is None:
        why = writer.why_not_written or "it can only be read"
        raise FormatError(f"{path}: {writer.title} cannot be written: {why}", hint="write .safetensors or .txt")
    if not len(vectors):
        raise UsageError(f"{path}: there are no vectors to write", hint="keep at least one word")
    separate = bool(vectors.history) and not writer.holds_history
    with _staging(path) as staged:
        writer.write(vectors, staged)
        if separate:
            history.write_beside(staged, vectors, digest_of(staged))
    if not separate:
        history.beside(path).unlink(missing_ok=True)
    return path


def complete_interrupted(path: Path) -> None:
    """Complete a save of this file that was interrupted after all its files were written."""
    if "\0" in str(path):
        return
    target = Path(os.path.realpath(path))
    if os.path.isdir(_commit_folder(target)):  # noqa: PTH112  does not raise for a name that is too long
        with output_errors(path):
            _move_into_place(target, path.parent)


@contextlib.contextmanager
def _staging(path: Path) -> Iterator[Path]:
    """Yield the file name inside a hidden folder beside the target; move its files into place on success."""
    target = Path(os.path.realpath(path))  # a link is kept
    folder = target.with_name(partial_name(target))
    try:  # also around its creation, during which Ctrl-C may arrive
        with output_errors(path):
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
            folder.mkdir(parents=True)
            sweep_partials(target.parent, target)
            complete_interrupted(path)
        yield folder / path.name
        with output_errors(path):
            _publish(folder / path.name, target, path.parent)
    except EvenhandError as error:  # it names the file in the hidden folder
        message = error.message.replace(printable(str(folder)), str(path.parent))
        raise type(error)(message, hint=error.hint) from error.__cause__
    finally:
        remove_partial(folder)


def _publish(staged: Path, target: Path, beside: Path) -> None:
    """Replace the target, and its companions (vocabulary, history) if they changed.

    Several files cannot be renamed at once. The complete new set is therefore committed first, by renaming its folder;
    from then on it can be moved into place again after an interruption.
    """
    keep_mode(target, staged)
    for file in list(staged.parent.iterdir()):
        if file != staged and _same(file, beside / file.name):
            file.unlink()
        elif (beside / file.name).is_dir():
            raise IsADirectoryError(errno.EISDIR, f"{file.name} is a folder")
    if len(list(staged.parent.iterdir())) == 1:
        staged.replace(target)
        return
    staged.rename(staged.with_name(MAIN))
    staged.parent.rename(_commit_folder(target))
    _move_into_place(target, beside)


def _commit_folder(target: Path) -> Path:
    return target.with_name(f".{target.name[:200]}.commit")


def _move_into_place(target: Path, beside: Path) -> None:
    """Move the files of a committed save into place, over the old ones; the vector file is never missing."""
    folder = _commit_folder(target)
    places = {file: Path(os.path.realpath(beside / file.name)) for file in folder.iterdir() if file.name != MAIN}
    if (folder / MAIN).exists():
        for file, place in places.items():
            if not file.name.endswith(history.ENDING) and place.exists():
                keep_mode(place, file)
                place.unlink()  # so that no program reads the new matrix with the old words
        (folder / MAIN).replace(target)
    for file, place in places.items():
        _move(file, place)
    shutil.rmtree(folder, ignore_errors=True)


def _move(file: Path, target: Path) -> None:
    keep_mode(target, file)
    try:
        file.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with replacing(target) as partial:  # the target is a link to another file system
            shutil.copyfile(file, partial)
        file.unlink()


def _same(one: Path, other: Path) -> bool:
    return other.is_file() and filecmp.cmp(one, other, shallow=False)
