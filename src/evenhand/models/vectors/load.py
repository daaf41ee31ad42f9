"""Load `Vectors` from a path or a catalog id."""

from __future__ import annotations

import functools
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Literal, TypedDict, get_args

from evenhand import data
from evenhand.errors import EvenhandWarning, FormatError, InputMissingError, UsageError
from evenhand.files import bare_name, existing
from evenhand.language import language as rules_of
from evenhand.models.vectors import cache as parse_cache
from evenhand.models.vectors import history
from evenhand.models.vectors.checks import checked
from evenhand.models.vectors.formats import Format, Parsed, ReadOptions, format_for_reading, get
from evenhand.models.vectors.formats.format import MAX_RECORD
from evenhand.models.vectors.formats.spacy_vocab import KEYS, MATRIX
from evenhand.models.vectors.lookup import Case
from evenhand.models.vectors.saving import complete_interrupted
from evenhand.models.vectors.table import Vectors

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
        cache: store the parsed file under `EVENHAND_CACHE`, so that the next load memory-maps it.
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
        from evenhand.models.vectors.formats.gensim_kv import read as read_gensim

        if options.vocabulary:
            raise _words_of_its_own(path, None)
        return _vectors(checked(read_gensim(path, options), path), path, case, language)
    chosen = get(format) if format else format_for_reading(path)
    if options.vocabulary and not chosen.separate_words:
        raise _words_of_its_own(path, chosen)
    parsed = _read(path, chosen, options, cache=cache and chosen.cached and limit is None)
    if not chosen.holds_history and history.beside(path).exists():
        digest = parse_cache.content_hash(path) if cache else parse_cache.digest_of(path)
        steps, note = history.read_beside(path, digest)
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
    notes = [*history.notes_of(parsed.source), *parsed.notes]
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
    """Return the file name; all key tables of spaCy have the same one, so that the folder names them."""
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
