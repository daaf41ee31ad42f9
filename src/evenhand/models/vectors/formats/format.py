"""The record that describes a file format, detection of formats by content and name, and the JSON that files hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import FormatError
from evenhand.files import bare_name, open_bytes
from evenhand.registry import Registry


class WordMatrix(Protocol):
    """What a writer reads: words with one row each, where they came from, and what was done to them."""

    @property
    def words(self) -> Sequence[str]:
        """The words."""

    @property
    def matrix(self) -> Matrix:
        """One row per word."""

    @property
    def dim(self) -> int:
        """Number of columns."""

    @property
    def source(self) -> Mapping[str, object]:
        """Where the vectors came from."""

    @property
    def history(self) -> Sequence[Mapping[str, object]]:
        """What was done to them."""

    def __len__(self) -> int:
        """Number of words."""


class Composer(Protocol):
    """Composes vectors of out-of-vocabulary words, as fastText does from character n-grams."""

    def __call__(self, words: Sequence[str]) -> Matrix:
        """Return one row per word."""


MAX_RECORD = 32 << 20  # bytes of a line, an entry or a vocabulary word
MAX_EXPANSION = 200  # of a compressed matrix; real vectors shrink to a half or a tenth


def check_expansion(path: Path, needed: int) -> None:
    """Raise `FormatError` if a compressed file claims implausibly many decompressed bytes."""
    size = path.stat().st_size
    if needed > max(MAX_EXPANSION * size, MAX_RECORD):
        raise FormatError(
            f"{path}: {size:,} compressed bytes would expand to {needed:,}, more than {MAX_EXPANSION}-fold",
            hint="check the file; if it is valid, decompress it first",
        )


@dataclass(frozen=True)
class ReadOptions:
    """Options of the readers; `encoding_errors` is part of the cache key."""

    encoding_errors: Literal["strict", "replace"] = "strict"
    limit: int | None = None
    vocabulary: Path | None = None
    allow_pickle: bool = False
    max_record: int = MAX_RECORD


@dataclass(frozen=True)
class Parsed:
    """The result of a reader: words and rows of the file, not yet validated."""

    words: Sequence[str]
    matrix: Matrix
    notes: tuple[str, ...] = ()
    source: Mapping[str, object] = field(default_factory=dict)
    history: Sequence[Mapping[str, object]] = ()
    compose: Composer | None = None
    first_line: int = 0  # line number of row 0 in a text file, 0 for other formats


Reader = Callable[[Path, ReadOptions], Parsed]
Writer = Callable[[WordMatrix, Path], None]


@dataclass(frozen=True, repr=False)
class Format:
    """A supported file format.

    Args:
        id: kebab-case name, stable.
        title: name for tables and messages.
        suffixes: endings of file names in this format, without those of compression.
        read: reads a file.
        write: writes vectors; None for a format that can only be read.
        matches: whether the first bytes of a file are in this format; None if they do not tell.
        cached: whether the parsed file is stored, so the next load is fast; not for memory-mapped formats.
        why_not_written: the reason, where `write` is None.
        holds_history: whether the file holds the history of the vectors; if not, a separate file is written.
        separate_words: whether the words of a file can be in another one, the vocabulary file.
    """

    id: str
    title: str
    suffixes: tuple[str, ...]
    read: Reader
    write: Writer | None = None
    matches: Callable[[bytes], bool] | None = None
    cached: bool = True
    why_not_written: str = ""
    holds_history: bool = False
    separate_words: bool = False

    def __repr__(self) -> str:
        return f"Format({self.id!r}, read by {self.read.__module__}.{self.read.__qualname__})"


FORMATS: Registry[Format] = Registry("vector format", (__package__,), group="evenhand.formats")


def register_format(format: Format) -> Format:
    """Add a format to those that are read and written; call it in the module that defines the reader."""
    FORMATS.add(format.id, format)
    return format


SNIFFED_BYTES = 4096
PICKLE = "a Python pickle, which can run arbitrary code when it is opened"
PICKLE_HINT = (
    "if you trust the file, open it with `allow_pickle=True` (requires gensim), or convert it to .txt at its origin"
)
RENAME = "add the usual suffix to its name so that it is decompressed: "

# First bytes of files that are not vector files, with a description and a hint.
FOREIGN: dict[bytes, tuple[str, str]] = {
    **{b"\x80" + bytes([protocol]): (PICKLE, PICKLE_HINT) for protocol in (2, 3, 4, 5)},
    b"PK\x03\x04": ("a zip archive (.zip or .npz)", "extract it and name the file inside"),
    b"\x1f\x8b": ("gzip-compressed", RENAME + ".gz"),
    b"\x28\xb5\x2f\xfd": ("zstd-compressed", RENAME + ".zst"),
    b"\xfd7zXZ\x00": ("xz-compressed", RENAME + ".xz"),
    **{b"BZh%d1AY&SY" % level: ("bzip2-compressed", RENAME + ".bz2") for level in range(1, 10)},
    b"<!doctype html": ("an HTML page, possibly instead of a download", "fetch the file again"),
    b"<html>": ("an HTML page, possibly instead of a download", "fetch the file again"),
    b"version https://git-lfs": ("a git-lfs pointer, not the file itself", "run git lfs pull"),
}


def refuse_foreign(start: bytes, path: Path) -> None:
    """Raise `FormatError` if the file is empty or not a vector file."""
    if not start:
        raise FormatError(f"{path}: the file is empty", hint="fetch it again")
    if by_content(start):  # a safetensors file starts with a length, which can equal a magic number below
        return
    for magic, (what, hint) in FOREIGN.items():
        if start[: len(magic)].lower() == magic.lower():
            raise FormatError(f"{path}: {what}", hint=hint)
    if path.suffix.lower() in (".pkl", ".pickle"):  # protocols 0 and 1 have no magic number
        raise FormatError(f"{path}: {PICKLE}", hint=PICKLE_HINT)


def by_content(start: bytes) -> Format | None:
    """Return the format detected from the first bytes, or None."""
    return next((format for format in FORMATS.values() if format.matches and format.matches(start)), None)


def get(format_id: str) -> Format:
    """Return the format with this id."""
    return FORMATS.get(format_id)


def _by_suffix(path: Path) -> Format | None:
    name = bare_name(path)
    matches = [
        (len(suffix), format) for format in FORMATS.values() for suffix in format.suffixes if name.endswith(suffix)
    ]
    return max(matches, key=lambda pair: pair[0])[1] if matches else None


def format_for_reading(path: Path) -> Format:
    """Return the format of an existing file, detected from its first bytes or else from its name."""
    with open_bytes(path) as stream:
        start = stream.read(SNIFFED_BYTES)
    refuse_foreign(start, path)
    return by_content(start) or _by_suffix(path) or get("glove")


def format_for_writing(path: Path) -> Format:
    """Return the format that matches a file name."""
    format = _by_suffix(path)
    if format is None:
        known = ", ".join(suffix for format in FORMATS.values() if format.write for suffix in format.suffixes)
        raise FormatError(f"{path}: the file name has no suffix of a vector format", hint=f"use one of {known}")
    return format


def as_json(record: object) -> str:
    """Serialise a source or a history; numpy arrays and scalars become lists and numbers."""
    try:
        return json.dumps(record, sort_keys=True, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(
            f"the source or history of the vectors cannot be written as JSON ({error})",
            hint="use only strings, numbers, lists and dicts",
        ) from error


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot be serialised")


def source_from(text: str) -> dict[str, object]:
    """Parse a source written by `as_json`; raise `ValueError` if it is invalid."""
    source = _parse(text)
    if not isinstance(source, dict) or not isinstance(source.get("notes", []), list):
        raise ValueError("its source is not a JSON object with a list of notes")
    return source


def notes_of(source: Mapping[str, object]) -> tuple[str, ...]:
    """Return the notes that a source carries."""
    notes = source.get("notes", ())
    return tuple(map(str, notes)) if isinstance(notes, list | tuple) else ()


def history_from(text: str) -> tuple[Mapping[str, object], ...]:
    """Parse a history written by `as_json`; raise `ValueError` if it is invalid."""
    return as_steps(_parse(text))


def as_steps(steps: object) -> tuple[Mapping[str, object], ...]:
    """Return the steps of a history; raise `ValueError` if they are not a list of objects."""
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise ValueError("its history is not a JSON list of objects")
    return tuple(steps)


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error
