"""The record that describes a file format, and detection of formats by content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from evenhand.arrays import Matrix
from evenhand.errors import FormatError
from evenhand.registry import Registry

if TYPE_CHECKING:
    from evenhand.models.vectors.table import Vectors


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
Writer = Callable[["Vectors", Path], None]


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
        cached: whether the parsed file is stored, so that the next load is fast; not for memory-mapped formats.
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
