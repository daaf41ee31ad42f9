"""What a file format is: a row in a table, with a reader and perhaps a writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from evenhand.arrays import Matrix

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
