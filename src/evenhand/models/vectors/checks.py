"""What a reader found, made fit to measure: repeated words dropped and told, numbers that are no numbers refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from evenhand.errors import FormatError
from evenhand.models.vectors.formats import Parsed

ROWS_AT_ONCE = 50_000


def checked(parsed: Parsed, path: Path) -> Parsed:
    """The same content with one row a word, every number finite, and a note for whatever was odd."""
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
    _refuse_not_finite(parsed, path)
    return _note_zero_rows(_drop_repeats(parsed, path), path)


def _place(parsed: Parsed, row: int) -> str:
    word = parsed.words[row]
    return f"line {parsed.first_line + row:,} ({word!r})" if parsed.first_line else f"row {row + 1:,} ({word!r})"


def _refuse_not_finite(parsed: Parsed, path: Path) -> None:
    for start in range(0, len(parsed.matrix), ROWS_AT_ONCE):
        block = parsed.matrix[start : start + ROWS_AT_ONCE]
        with np.errstate(over="ignore"):  # a float64 beyond float32's range becomes infinite, and is told so
            narrow = block.astype(np.float32, copy=False)
        # One NaN or infinity makes the whole sum so, and float32 numbers cannot overflow a double's range.
        if np.isfinite(narrow.sum(dtype=np.float64)):
            continue
        bad = np.flatnonzero(~np.isfinite(narrow).all(axis=1))
        if len(bad):
            raise FormatError(
                f"{path}, {_place(parsed, start + int(bad[0]))}: NaN or infinity among its numbers",
                hint="remove the row, or write the vectors again; no measure is defined on such a row",
            )


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
    return replace(parsed, words=list(first), matrix=parsed.matrix[rows], notes=(*parsed.notes, note))


def _note_zero_rows(parsed: Parsed, path: Path) -> Parsed:
    zero = [
        start + np.flatnonzero(~parsed.matrix[start : start + ROWS_AT_ONCE].any(axis=1))
        for start in range(0, len(parsed.matrix), ROWS_AT_ONCE)
    ]
    rows = np.concatenate(zero)
    if not len(rows):
        return parsed
    note = (
        f"{path.name}: {len(rows):,} rows are all zero, the first at {parsed.words[rows[0]]!r}; "
        "their cosine with any word is taken as 0"
    )
    return replace(parsed, notes=(*parsed.notes, note))
