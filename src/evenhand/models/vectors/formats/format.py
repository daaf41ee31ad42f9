"""What a file format is: a row in a table, with a reader and perhaps a writer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from evenhand.arrays import Matrix
from evenhand.errors import FormatError

if TYPE_CHECKING:
    from evenhand.models.vectors.table import Vectors


class Composer(Protocol):
    """Makes vectors for words that are not in the vocabulary, as fastText does from character n-grams."""

    def __call__(self, words: Sequence[str]) -> Matrix:
        """One row for each word."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read; the same for every format, and part of the cache key."""

    encoding_errors: Literal["strict", "replace"] = "strict"
    limit: int | None = None
    vocabulary: Path | None = None
    allow_pickle: bool = False


@dataclass(frozen=True)
class Parsed:
    """What a reader returns: words and rows as the file has them, not yet checked."""

    words: Sequence[str]
    matrix: Matrix
    notes: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)
    history: Sequence[Mapping[str, Any]] = ()
    compose: Composer | None = None
    first_line: int = 0  # line number of row 0 in a text file, 0 where lines mean nothing


Reader = Callable[[Path, ReadOptions], Parsed]
Writer = Callable[["Vectors", Path], None]


@dataclass(frozen=True)
class Format:
    """A supported file format."""

    id: str
    title: str
    suffixes: tuple[str, ...]
    read: Reader
    write: Writer | None = None
    cached: bool = True  # worth parsing once and keeping; memory-mapped formats are not
    why_not_written: str = ""
    holds_history: bool = False  # otherwise it goes into a file beside


SNIFFED_BYTES = 4096
PICKLE = "a Python pickle, which may run any code when it is opened"
PICKLE_HINT = "if you trust it: --allow-pickle (needs gensim); or convert it to .txt where it was made"
RENAME = "give its name the usual suffix, so that it is decompressed: "

# First bytes of files that are no vectors: what they are, and what to do.
FOREIGN: dict[bytes, tuple[str, str]] = {
    **{b"\x80" + bytes([protocol]): (PICKLE, PICKLE_HINT) for protocol in (2, 3, 4, 5)},
    b"PK\x03\x04": ("a zip archive (.zip or .npz)", "unpack it and name the file inside"),
    b"\x1f\x8b": ("gzip-compressed", RENAME + ".gz"),
    b"\x28\xb5\x2f\xfd": ("zstd-compressed", RENAME + ".zst"),
    b"\xfd7zXZ\x00": ("xz-compressed", RENAME + ".xz"),
    **{b"BZh%d1AY&SY" % level: ("bzip2-compressed", RENAME + ".bz2") for level in range(1, 10)},
    b"<!doctype html": ("a web page, perhaps in place of a download", "fetch the file again"),
    b"<html>": ("a web page, perhaps in place of a download", "fetch the file again"),
    b"version https://git-lfs": ("a pointer of git-lfs, not the file itself", "run git lfs pull"),
}
FASTTEXT_MAGIC = (793712314).to_bytes(4, "little")
HEADER_LINE = re.compile(rb"\d{1,11}[ \t]\d{1,11}\s*?\n")


def refuse_foreign(start: bytes, path: Path) -> None:
    """Refuse a file that is empty, or that these first bytes show to be something else."""
    if not start:
        raise FormatError(f"{path}: the file is empty", hint="fetch it again")
    if by_content(start) == "safetensors":  # it begins with a length, which may look like any magic number
        return
    for magic, (what, hint) in FOREIGN.items():
        if start[: len(magic)].lower() == magic.lower():
            raise FormatError(f"{path}: {what}", hint=hint)
    if path.suffix.lower() in (".pkl", ".pickle"):  # older pickles begin with letters
        raise FormatError(f"{path}: {PICKLE}", hint=PICKLE_HINT)


def by_content(start: bytes) -> str | None:
    """The id of the format that the first bytes show, or None."""
    if start.startswith(FASTTEXT_MAGIC):
        return "fasttext-bin"
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if start.startswith(b"PAR1"):
        return "parquet-npy"
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= 100_000_000:
        return "safetensors"
    # No text has a NUL; four kilobytes of float32 nearly always have one.
    return "word2vec-bin" if b"\0" in start and HEADER_LINE.match(start) else None
