"""How the lines of a text file of vectors are laid out: told by its header, if it has one, and by its first lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evenhand.errors import FormatError

MAX_DIM = 100_000
LINES_LOOKED_AT = 100
# Python's float() would also take underscores and white space. NaN and infinity are numbers here, and refused later.
NUMBER = re.compile(rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf|infinity)", re.IGNORECASE)

Header = tuple[int, int]  # rows and dimension


@dataclass(frozen=True)
class Layout:
    """How the lines of one file are laid out."""

    path: Path
    dim: int
    separator: bytes = b" "
    trailing: int = 0  # fastText ends each line with a separator
    encoding_errors: str = "strict"
    row_name: str = "line"

    @property
    def fields(self) -> int:
        """Separators on a line whose word contains none."""
        return self.dim + self.trailing


def split_header(start: bytes) -> tuple[Header | None, bytes]:
    """A first line of two whole numbers is word2vec's header: rows and dimension."""
    first, _, rest = start.partition(b"\n")
    fields = first.split()
    if len(fields) == 2 and all(field.isdigit() and len(field) < 12 for field in fields):
        return (int(fields[0]), int(fields[1])), rest
    return None, start


def infer(path: Path, body: bytes, header: Header | None, encoding_errors: str = "strict") -> Layout:
    """The layout of a file that begins with these bytes, header left out."""
    complete = body.rpartition(b"\n")[0] or body
    lines = [line for raw in complete.split(b"\n", LINES_LOOKED_AT)[:LINES_LOOKED_AT] if (line := raw.rstrip(b"\r"))]
    separator = b"\t" if lines and lines[0].count(b"\t") > lines[0].count(b" ") else b" "
    trailing = int(bool(lines) and all(line.endswith(separator) for line in lines))
    rows = [line[: len(line) - trailing].split(separator) for line in lines]
    dim = header[1] if header else _dimension(rows)
    if not 1 <= dim <= MAX_DIM:
        raise FormatError(
            f"{path}: the first lines are no word vectors ({max(dim, 0)} numbers a line)",
            hint="expected lines of a word and its numbers, separated by single spaces or tabs",
        )
    if header:
        _check_dimension(path, rows, dim)
    return Layout(path, dim, separator, trailing, encoding_errors)


def _dimension(rows: Sequence[Sequence[bytes]]) -> int:
    """The number of fields that the fewest rows contradict, for then these rows are at fault.

    Tokens with separators in them only add fields, so a sound file agrees with its shortest row.
    """
    candidates = {len(row) - 1 for row in rows if len(row) > 1}
    if not candidates:
        return 0
    first = len(rows[0]) - 1
    return min(candidates, key=lambda dim: (_contradictions(rows, dim), dim != first, dim))


def _contradictions(rows: Sequence[Sequence[bytes]], dim: int) -> int:
    return sum(len(row) <= dim or has_more_numbers(row, dim) for row in rows)


def has_more_numbers(row: Sequence[bytes], dim: int) -> bool:
    """Whether what ends the word is one more number.

    A whole number may end a token ("catch 22"), unless the row's own numbers are whole as well.
    """
    if len(row) <= dim + 1 or not is_number(row[-dim - 1]):
        return False
    return not _is_whole(row[-dim - 1]) or all(_is_whole(field) for field in row[-dim:])


def _is_whole(field: bytes) -> bool:
    return field.lstrip(b"+-").isdigit()


def _check_dimension(path: Path, rows: Sequence[Sequence[bytes]], dim: int) -> None:
    found = {len(row) - 1 for row in rows}
    more = all(len(row) > dim + 1 and is_number(row[-dim - 1]) for row in rows)
    if rows and (more or max(found) < dim):
        raise FormatError(
            f"{path}, line 1: the header promises {dim:,} numbers a row, the next rows have {min(found):,}",
            hint="correct the header, or fetch the file again",
        )


def is_number(field: bytes) -> bool:
    """Whether a field is a number in decimal notation."""
    return NUMBER.fullmatch(field) is not None
