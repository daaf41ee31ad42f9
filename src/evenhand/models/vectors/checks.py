"""What a reader found, made fit to measure: repeated words dropped and told, numbers that are no numbers refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from evenhand.errors import FormatError
from evenhand.models.vectors.formats import Parsed
from evenhand.models.vectors.validity import ROWS_AT_ONCE, first_not_finite, first_odd_word, let_go_of_large


def checked(parsed: Parsed, path: Path, *, limit: int | None = None) -> Parsed:
    """The first `limit` rows, one row a word, every number finite, and a note for whatever was odd."""
    refuse_misshapen(parsed, path)
    parsed = replace(parsed, words=parsed.words[:limit], matrix=parsed.matrix[:limit])
    if (odd := first_odd_word(parsed.words)) is not None:
        row, why = odd
        raise FormatError(f"{path}, {_place(parsed, row)}: {why}", hint='read it with encoding_errors="replace"')
    if (bad := first_not_finite(parsed.matrix)) is not None:
        raise FormatError(
            f"{path}, {_place(parsed, bad)}: NaN or infinity among its numbers",
            hint="remove the row, or write the vectors again; no measure is defined on such a row",
        )
    return _note_zero_rows(_drop_repeats(parsed, path), path)


def refuse_misshapen(parsed: Parsed, path: Path) -> None:
    """Refuse anything but a matrix of numbers with one row for each word."""
    if parsed.matrix.ndim != 2 or parsed.matrix.dtype.kind not in "fiu":
        kind = f"{parsed.matrix.dtype} of shape {parsed.matrix.shape}"
        raise FormatError(f"{path}: {kind} is no matrix of numbers", hint="expected one row of numbers for each word")
    if len(parsed.words) != len(parsed.matrix):
        raise FormatError(
            f"{path}: {len(parsed.words):,} words but {len(parsed.matrix):,} rows",
            hint="the vocabulary belongs to another matrix, or one of the two files is cut off",
        )
    if not parsed.matrix.size:
        raise FormatError(f"{path}: no vectors inside", hint="fetch the file again")


def _place(parsed: Parsed, row: int) -> str:
    word = parsed.words[row]
    return f"line {parsed.first_line + row:,} ({word!r})" if parsed.first_line else f"row {row + 1:,} ({word!r})"


def _drop_repeats(parsed: Parsed, path: Path) -> Parsed:
    if len(set(parsed.words)) == len(parsed.words):
        return parsed
    first: dict[str, int] = {}
    again: list[int] = []
    for row, word in enumerate(parsed.words):
        if first.setdefault(word, row) != row:
            again.append(row)
    where = _place(parsed, again[0])
    note = f"{path.name}: {len(again):,} rows repeat an earlier word and were dropped, the first at {where}"
    rows = np.fromiter(first.values(), dtype=np.int64)
    # Lines are no longer counted: after the first dropped row they would be wrong.
    return replace(parsed, words=list(first), matrix=parsed.matrix[rows], notes=(*parsed.notes, note), first_line=0)


def _note_zero_rows(parsed: Parsed, path: Path) -> Parsed:
    zero = []
    for start in range(0, len(parsed.matrix), ROWS_AT_ONCE):
        zero.append(start + np.flatnonzero(~parsed.matrix[start : start + ROWS_AT_ONCE].any(axis=1)))
        let_go_of_large(parsed.matrix)
    rows = np.concatenate(zero)
    if not len(rows):
        return parsed
    note = (
        f"{path.name}: {len(rows):,} rows are all zero, the first at {_place(parsed, int(rows[0]))}; "
        "their cosine with any word is taken as 0"
    )
    return replace(parsed, notes=(*parsed.notes, note))
