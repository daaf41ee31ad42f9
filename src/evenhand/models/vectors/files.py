"""Load `Vectors` from a path or a catalog id, and save them to one file or to several that belong together.

The history of vectors is stored inside evenhand's safetensors files, and in `<file>.history.json` for other formats.
That file contains the hash of the vector file, so it is ignored once the vector file has been replaced.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import functools
import os
import shutil
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, get_args

from evenhand import data
from evenhand.errors import EvenhandError, EvenhandWarning, FormatError, InputMissingError, UsageError, printable
from evenhand.files import (
    bare_name,
    existing,
    keep_mode,
    output_errors,
    partial_name,
    remove_partial,
    replacing,
    sweep_partials,
    write_text,
)
from evenhand.language import language as rules_of
from evenhand.models.vectors import cache as parse_cache
from evenhand.models.vectors.cache import digest_of
from evenhand.models.vectors.checks import checked
from evenhand.models.vectors.formats import Format, Parsed, ReadOptions, format_for_reading, format_for_writing, get
from evenhand.models.vectors.formats.format import MAX_RECORD, as_json, as_steps, notes_of, source_from
from evenhand.models.vectors.lookup import Case
from evenhand.models.vectors.table import Vectors

if TYPE_CHECKING:
    from evenhand.models.vectors.table import History


EMBEDDED = "glove-embedded"
EncodingErrors = Literal["strict", "replace"]


class LoadOptions(TypedDict, total=False):
    """Keyword arguments of `load`."""

    format: str | None
    cache: bool
    limit: int | None
    vocabulary: str | os.PathLike[str] | None
    encoding_errors: EncodingErrors
    allow_pickle: bool
    max_record: int
    case: Case
    language: str


def load(
    source: str | os.PathLike[str],
    *,
    format: str | None = None,
    cache: bool = True,
    limit: int | None = None,
    vocabulary: str | os.PathLike[str] | None = None,
    encoding_errors: EncodingErrors = "strict",
    allow_pickle: bool = False,
    max_record: int = MAX_RECORD,
    case: Case = "auto",
    language: str = "",
) -> Vectors:
    """Load a vector file, or a catalog data set by its id.

    Args:
        source: a path, a catalog id (see `evenhand list data`), or "glove-embedded".
        format: a format id (see `evenhand list formats`); detected from the content and the name by default.
        cache: store the parsed file under `EVENHAND_CACHE`, so the next load memory-maps it.
        limit: load only the first rows, which are the most frequent words in most files.
        vocabulary: a file with one word per line, for a matrix without words.
        encoding_errors: "replace" substitutes U+FFFD for bytes that are not valid UTF-8.
        allow_pickle: open gensim files, which are pickles and can run code; only for trusted files.
        max_record: longest line, entry or vocabulary word in bytes; longer ones are an error (default 32 MB).
        case: case policy of word look-up; see `Vectors.locate`.
        language: ISO code of the language of the words; that of the catalog entry by default.
    """
    if language:
        rules_of(language)  # refuses what is not a code
    if encoding_errors not in get_args(EncodingErrors) or (limit is not None and limit < 1) or max_record < 1:
        raise UsageError(
            f"{encoding_errors=}, {limit=}, {max_record=}",
            hint='use "strict" or "replace", and a limit and a max_record of 1 or more',
        )
    if str(source) == EMBEDDED:
        reading = {
            "format": format, "vocabulary": vocabulary, "allow_pickle": allow_pickle or None,
            "encoding_errors": encoding_errors if encoding_errors != "strict" else None,
        }  # fmt: skip
        if useless := [f"`{name}=`" for name, value in reading.items() if value is not None]:
            raise UsageError(f"{', '.join(useless)} does not apply to the embedded vectors", hint="leave it out")
        embedded = default()
        return _with_case(embedded if limit is None else embedded.head(limit), case)
    path = _path(source)
    if not language and str(source) in data.catalog() and not os.path.exists(source):  # noqa: PTH110  long names
        language = data.catalog()[str(source)].language
    options = ReadOptions(encoding_errors, limit, Path(vocabulary) if vocabulary else None, allow_pickle, max_record)
    if allow_pickle and _is_gensim_file(path):
        from evenhand.models.vectors.formats.word2vec import read_gensim

        if options.vocabulary:
            raise _words_of_its_own(path, None)
        return _vectors(checked(read_gensim(path, options), path), path, case, language)
    chosen = get(format) if format else format_for_reading(path)
    if options.vocabulary and not chosen.separate_words:
        raise _words_of_its_own(path, chosen)
    parsed = _read(path, chosen, options, cache=cache and chosen.cached and limit is None)
    if not chosen.holds_history and history_file(path).exists():
        digest = parse_cache.content_hash(path) if cache else parse_cache.digest_of(path)
        steps, note = read_history_file(path, digest)
        parsed = replace(parsed, history=steps, notes=(*parsed.notes, note) if note else parsed.notes)
    return _vectors(parsed, path, case, language)


def _words_of_its_own(path: Path, chosen: Format | None) -> UsageError:
    """Return the error for a vocabulary file that would be ignored."""
    kind = chosen.title if chosen else "gensim file"
    return UsageError(
        f"{path}: a {kind} has its words in it, and takes no vocabulary file",
        hint="leave out `vocabulary=`; it is for .npy files and for .safetensors of other tools",
    )


def _path(source: str | os.PathLike[str]) -> Path:
    path = Path(os.path.expanduser(source))  # noqa: PTH111  does not raise for an unknown home
    complete_interrupted(path)
    path = _key_table_of(path)
    if os.path.isdir(path):  # noqa: PTH112  does not raise for a name that is too long
        raise _folder_error(path)
    if os.path.exists(path):  # noqa: PTH110  does not raise for a name that is too long
        if not existing(path, what="vector file").is_file():
            raise FormatError(f"{path}: a pipe or a device cannot be read twice", hint="write it to a file first")
        return path
    if str(source) in data.catalog():
        return data.fetch(str(source))
    raise InputMissingError(
        f"there is no vector file and no data set {str(source)!r}",
        hint="check the path; `evenhand list data` shows the data sets",
    )


def _key_table_of(path: Path) -> Path:
    """Return the key table of a spaCy pipeline, given its folder, its vocabulary folder or its matrix."""
    from evenhand.models.vectors.formats.spacy_vocab import (  # the formats are imported when they are needed
        KEYS,
        MATRIX,
    )

    candidates = (path / "vocab" / KEYS, path / KEYS, path.with_name(KEYS) if path.name == MATRIX else path)
    return next((candidate for candidate in candidates if os.path.isfile(candidate)), path)  # noqa: PTH113  long names


def _folder_error(path: Path) -> InputMissingError:
    """Return the error for a folder, with a hint that depends on its content."""
    if (path / "config.json").is_file():
        kind, hint = (
            "a Hugging Face or evenhand model folder",
            f"eh.open('hf:{path}').view('vectors') reads its input table",
        )
    elif (path / "meta.json").is_file() and (path / "vocab").is_dir():
        kind, hint = ("a spaCy pipeline without word vectors", "use one whose name ends in _md or _lg")
    else:
        kind, hint = "a folder, not a vector file", "name a file inside it"
    return InputMissingError(f"{str(path)!r} is {kind}", hint=hint)


def _is_gensim_file(path: Path) -> bool:
    return bare_name(path).endswith((".kv", ".model", ".pkl", ".pickle"))


def _read(path: Path, format_: Format, options: ReadOptions, *, cache: bool) -> Parsed:
    if not cache:
        return _with_source(checked(format_.read(path, options), path, limit=options.limit), format_, "")
    before, size = parse_cache.identity_of(path), path.stat().st_size
    with ThreadPoolExecutor(1) as thread:
        # Hashing runs in parallel with parsing unless the cache has a candidate.
        hashing = thread.submit(parse_cache.content_hash, path)
        if parse_cache.may_hold(size):
            cached = parse_cache.fetch(parse_cache.entry(hashing.result(), size, format_, options))
            if cached is not None:
                return cached
        parsed = checked(format_.read(path, options), path)
    parsed = _with_source(parsed, format_, hashing.result())
    if parse_cache.identity_of(path) == before:  # the file may have changed after it was hashed
        parse_cache.store(parse_cache.entry(hashing.result(), size, format_, options), parsed)
    return parsed


def _with_source(parsed: Parsed, format_: Format, digest: str) -> Parsed:
    origin = {"format": format_.id, **({"sha256": digest} if digest else {})}
    return replace(parsed, source={**origin, **parsed.source})


def _vectors(parsed: Parsed, path: Path, case: Case, language: str) -> Vectors:
    for note in parsed.notes:
        warnings.warn(note, EvenhandWarning, stacklevel=4)
    # A file name that is not valid UTF-8 could not be displayed or written later.
    name = os.fsencode(_title(path)).decode(errors="replace")
    notes = [*notes_of(parsed.source), *parsed.notes]
    return Vectors(
        tuple(parsed.words),
        parsed.matrix,
        name=name,
        source={**parsed.source, "file": name, "notes": notes, **({"language": language} if language else {})},
        history=parsed.history,
        case=case,
        compose=parsed.compose,
        verified=True,
    )


def _title(path: Path) -> str:
    """Return the file name; all key tables of spaCy have the same one, so the folder names them."""
    from evenhand.models.vectors.formats.spacy_vocab import KEYS

    if path.name != KEYS:
        return path.name
    folder = path.absolute().parent
    return (folder.parent if folder.name == "vocab" else folder).name or KEYS


@functools.cache
def default() -> Vectors:
    """Return the embedded subset of GloVe 6B, loaded once per process."""
    with resources.as_file(resources.files("evenhand.data") / "embedded" / "glove.safetensors") as path:
        parsed = get("safetensors").read(path, ReadOptions())
        return Vectors(tuple(parsed.words), parsed.matrix, name=EMBEDDED, source=parsed.source, history=parsed.history)


def _with_case(vectors: Vectors, case: Case) -> Vectors:
    if vectors.case == case:
        return vectors
    return Vectors(
        vectors.words,
        vectors.matrix,
        name=vectors.name,
        source=vectors.source,
        history=vectors.history,
        case=case,
        verified=True,
    )


MAIN = "main"  # name of the vector file inside a commit folder


def save(vectors: Vectors, path: Path, *, format: str | None = None) -> Path:
    """Write the vectors in the format given by the file name; the target is replaced when everything is written.

    A history that the format cannot hold is written to `<file>.history.json`. The new file is renamed over the old one,
    so there is always one of them. A process that is killed leaves either the previous or the new result: `load`
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
            write_history_file(staged, vectors, digest_of(staged))
    if not separate:
        history_file(path).unlink(missing_ok=True)
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
            if not file.name.endswith(ENDING) and place.exists():
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


ENDING = ".history.json"  # of the name of a history file
LAYOUT = "evenhand-history-1"
MAX_BYTES = 64 << 20


def history_file(path: Path) -> Path:
    """Return the path of the history file that belongs to a vector file."""
    return path.with_name(f"{path.name}{ENDING}")


def write_history_file(path: Path, vectors: Vectors, digest: str) -> None:
    """Write the history file of the vector file `path`, whose SHA-256 is `digest`."""
    record = {
        "layout": LAYOUT,
        "file": path.name,
        "sha256": digest,
        "words": len(vectors),
        "dim": vectors.dim,
        "history": list(vectors.history),
    }
    write_text(history_file(path), as_json(record) + "\n")


def read_history_file(path: Path, digest: str) -> tuple[History, str]:
    """Return the history of a file with this SHA-256, and a note if the history file cannot be used."""
    source = history_file(path)
    try:
        if existing(source).stat().st_size > MAX_BYTES:
            raise ValueError("it is too large")
        record = source_from(source.read_text(encoding="utf-8"))
        if record.get("layout") != LAYOUT or record.get("sha256") != digest:
            raise ValueError(f"it describes a different version of {path.name}")
        return as_steps(record.get("history")), ""
    except (OSError, ValueError) as error:
        return (), f"{source.name} was ignored: {error}; remove it, or write the vectors again"
