"""From a path or a catalog id to `Vectors`, and back to a file."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from evenhand import data
from evenhand.errors import EvenhandWarning, FormatError, InputMissingError
from evenhand.files import bare_name, existing
from evenhand.models.vectors import cache as parse_cache
from evenhand.models.vectors.checks import checked
from evenhand.models.vectors.formats import Format, Parsed, ReadOptions, format_for_reading, format_for_writing, get
from evenhand.models.vectors.lookup import Case
from evenhand.models.vectors.table import Vectors

EMBEDDED = "glove-embedded"


def load(
    source: str | os.PathLike[str],
    *,
    format: str | None = None,
    cache: bool = True,
    limit: int | None = None,
    vocabulary: str | os.PathLike[str] | None = None,
    encoding_errors: Literal["strict", "replace"] = "strict",
    allow_pickle: bool = False,
    case: Case = "auto",
) -> Vectors:
    """Read a vector file, or a data set of the catalog by its id.

    Args:
        source: a path, a catalog id (`evenhand list data`), or "glove-embedded".
        format: a format id where the name and the first bytes do not tell (`evenhand list formats`).
        cache: keep the parsed file under `EVENHAND_CACHE`, so that the next load maps it.
        limit: only the first rows, the most frequent words of most files.
        vocabulary: the file of words for a matrix that has none of its own.
        encoding_errors: "replace" reads words that are not valid UTF-8, with a mark in place of the bad bytes.
        allow_pickle: open gensim's own files, which are pickles: only if you trust where they come from.
        case: how a word of a list is looked up; see `Vectors.locate`.
    """
    if str(source) == EMBEDDED:
        return default()
    path = _path(source)
    options = ReadOptions(encoding_errors, limit, Path(vocabulary) if vocabulary else None, allow_pickle)
    if allow_pickle and _is_gensim_file(path):
        from evenhand.models.vectors.formats.gensim_kv import read as read_gensim

        return _vectors(checked(read_gensim(path, options), path), path, case)
    chosen = get(format) if format else format_for_reading(path)
    parsed = _read(path, chosen, options, cache=cache and chosen.cached and limit is None)
    return _vectors(parsed, path, case)


def _path(source: str | os.PathLike[str]) -> Path:
    path = Path(source).expanduser()
    if path.exists():
        return existing(path, what="vector file")
    if str(source) in data.catalog():
        return data.fetch(str(source))
    raise InputMissingError(
        f"there is no vector file {str(source)!r}, and no data set of that name",
        hint="check the path, or see `evenhand list data` for what `evenhand fetch` can get",
    )


def _is_gensim_file(path: Path) -> bool:
    return bare_name(path).endswith((".kv", ".model", ".pkl", ".pickle"))


def _read(path: Path, format_: Format, options: ReadOptions, *, cache: bool) -> Parsed:
    if not cache:
        return _with_source(checked(format_.read(path, options), path), format_, "")
    digest = parse_cache.content_hash(path)
    target = parse_cache.entry(digest, format_, options)
    if target.exists():
        try:
            return get("safetensors").read(target, options)
        except FormatError:  # a damaged entry is parsed again and overwritten
            target.unlink(missing_ok=True)
    parsed = _with_source(checked(format_.read(path, options), path), format_, digest)
    parse_cache.store(target, parsed, {**parsed.source, "notes": list(parsed.notes)})
    return parsed


def _with_source(parsed: Parsed, format_: Format, digest: str) -> Parsed:
    origin: Mapping[str, Any] = {"format": format_.id, **({"sha256": digest} if digest else {})}
    return replace(parsed, source={**origin, **parsed.source})


def _vectors(parsed: Parsed, path: Path, case: Case) -> Vectors:
    for note in parsed.notes:
        warnings.warn(note, EvenhandWarning, stacklevel=4)
    source = {**parsed.source, "file": path.name, "notes": list(parsed.notes)}
    words = tuple(parsed.words)
    return Vectors(
        words,
        parsed.matrix,
        name=path.name,
        source=source,
        history=parsed.history,
        case=case,
        compose=parsed.compose,
    )


@functools.cache
def default() -> Vectors:
    """The embedded cut of GloVe 6B, read once a process."""
    with resources.as_file(resources.files("evenhand.data") / "embedded" / "glove.safetensors") as path:
        parsed = get("safetensors").read(path, ReadOptions())
        return Vectors(tuple(parsed.words), parsed.matrix, name=EMBEDDED, source=parsed.source, history=parsed.history)


def save(vectors: Vectors, path: Path, *, format: str | None = None) -> Path:
    """Write the vectors in the format that the name says; the target is replaced only when all is written."""
    chosen = get(format) if format else format_for_writing(path)
    if chosen.write is None:
        why = chosen.why_not_written or "it is only read"
        raise FormatError(f"{path}: {chosen.title} is not written: {why}", hint="write .safetensors or .txt")
    chosen.write(vectors, path)
    return path
