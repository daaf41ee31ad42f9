"""Line layout of a text vector file, inferred from its header and its first lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evenhand.errors import FormatError

MAX_DIM = 100_000
SAMPLED_LINES = 100
# float() also accepts underscores and white space. NaN and infinity match here and are refused later.
# Possessive quantifiers keep the match linear.
NUMBER = re.compile(rb"[+-]?(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:e[+-]?\d++)?|nan|inf|infinity)", re.IGNORECASE)
LONGEST_NUMBER = 1000  # bytes; converting a decimal takes time quadratic in its length

Header = tuple[int, int]  # rows and dimension


@dataclass(frozen=True)
class Layout:
    """Line layout of a file."""

    path: Path
    dim: int
    separator: bytes = b" "
    trailing: int = 0  # fastText ends each line with a separator
    encoding_errors: str = "strict"
    row_name: str = "line"

    @property
    def fields(self) -> int:
        """Number of separators on a line whose word contains none."""
        return self.dim + self.trailing


def split_header(start: bytes) -> tuple[Header | None, bytes]:
    """Split off a word2vec header: a first line of two integers, rows and dimension."""
    first, _, rest = start.partition(b"\n")
    fields = first.split()
    if len(fields) == 2 and all(field.isdigit() and len(field) < 12 for field in fields):
        return (int(fields[0]), int(fields[1])), rest
    return None, start


def infer(path: Path, body: bytes, header: Header | None, encoding_errors: str = "strict") -> Layout:
    """Infer the layout of a file from its first bytes after the header."""
    complete = body.rpartition(b"\n")[0] or body
    lines = [line for raw in complete.split(b"\n", SAMPLED_LINES)[:SAMPLED_LINES] if (line := raw.rstrip(b"\r"))]
    separator = b"\t" if lines and lines[0].count(b"\t") > lines[0].count(b" ") else b" "
    trailing = int(bool(lines) and all(line.endswith(separator) for line in lines))
    if any(line.count(separator) > 2 * MAX_DIM for line in lines):  # checked before the lines are split
        raise FormatError(
            f"{path}: the first lines have more than {2 * MAX_DIM:,} fields",
            hint=f"expected a word and at most {MAX_DIM:,} numbers on each line",
        )
    rows = [line[: len(line) - trailing].split(separator) for line in lines]
    dim = header[1] if header else _dimension(rows)
    if not 1 <= dim <= MAX_DIM:
        raise FormatError(
            f"{path}: the first lines are not word vectors ({max(dim, 0)} numbers per line)",
            hint="expected a word and its numbers on each line, separated by single spaces or tabs",
        )
    if header:
        _check_dimension(path, rows, dim)
    return Layout(path, dim, separator, trailing, encoding_errors)


def _dimension(rows: Sequence[Sequence[bytes]]) -> int:
    """Return the dimension that contradicts the fewest rows.

    Tokens that contain separators only add fields, so a valid file agrees with its shortest row.
    """
    candidates = {len(row) - 1 for row in rows if len(row) > 1}
    if not candidates:
        return 0
    first = len(rows[0]) - 1
    return min(candidates, key=lambda dim: (_contradictions(rows, dim), dim != first, dim))


def _contradictions(rows: Sequence[Sequence[bytes]], dim: int) -> int:
    return sum(len(row) <= dim or has_more_numbers(row, dim) for row in rows)


def has_more_numbers(row: Sequence[bytes], dim: int) -> bool:
    """Return True if the field before the last `dim` fields is a number as well.

    An integer may belong to the token ("catch 22"), unless all numbers of the row are integers.
    """
    if len(row) <= dim + 1 or not is_number(row[-dim - 1]):
        return False
    return not _is_whole(row[-dim - 1]) or all(_is_whole(field) for field in row[-dim:])


def _is_whole(field: bytes) -> bool:
    return field.lstrip(b"+-").isdigit()


def _check_dimension(path: Path, rows: Sequence[Sequence[bytes]], dim: int) -> None:
    lengths = {len(row) - 1 for row in rows}
    more = all(len(row) > dim + 1 and is_number(row[-dim - 1]) for row in rows)
    if rows and (more or max(lengths) < dim):
        raise FormatError(
            f"{path}, line 1: the header states {dim:,} numbers per row, the next rows have {min(lengths):,}",
            hint="correct the header, or fetch the file again",
        )


def is_number(field: bytes) -> bool:
    """Return True if a field is a decimal number."""
    return len(field) <= LONGEST_NUMBER and NUMBER.fullmatch(field) is not None
