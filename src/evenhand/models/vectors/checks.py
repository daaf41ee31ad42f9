"""Validation of parsed vectors: drop repeated words with a note, refuse rows that are not finite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from evenhand.arrays import Matrix, give_back_pages
from evenhand.errors import FormatError
from evenhand.models.vectors.formats import Parsed


def checked(parsed: Parsed, path: Path, *, limit: int | None = None) -> Parsed:
    """Return the first `limit` rows with unique words and finite numbers, and notes about irregularities."""
    refuse_misshapen(parsed, path)
    parsed = replace(parsed, words=parsed.words[:limit], matrix=parsed.matrix[:limit])
    if (odd := first_odd_word(parsed.words)) is not None:
        row, why = odd
        raise FormatError(f"{path}, {_position(parsed, row)}: {why}", hint='read it with encoding_errors="replace"')
    if (bad := first_not_finite(parsed.matrix)) is not None:
        raise FormatError(
            f"{path}, {_position(parsed, bad)}: NaN or infinity among its numbers",
            hint="remove the row, or write the vectors again; no measure is defined on it",
        )
    return _note_zero_rows(_drop_repeats(parsed, path), path)


def refuse_misshapen(parsed: Parsed, path: Path) -> None:
    """Raise `FormatError` unless the matrix is numeric and has one row per word."""
    if parsed.matrix.ndim != 2 or parsed.matrix.dtype.kind not in "fiu":
        kind = f"{parsed.matrix.dtype} of shape {parsed.matrix.shape}"
        raise FormatError(f"{path}: {kind} is not a numeric matrix", hint="expected one row of numbers per word")
    if len(parsed.words) != len(parsed.matrix):
        raise FormatError(
            f"{path}: {len(parsed.words):,} words but {len(parsed.matrix):,} rows",
            hint="the vocabulary belongs to another matrix, or one of the two files is truncated",
        )
    if not parsed.matrix.size:
        raise FormatError(f"{path}: the file contains no vectors", hint="fetch the file again")


def _position(parsed: Parsed, row: int) -> str:
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
    first_repeat = _position(parsed, again[0])
    note = f"{path.name}: {len(again):,} rows repeat an earlier word and were dropped, the first at {first_repeat}"
    rows = np.fromiter(first.values(), dtype=np.int64)
    # Line numbers no longer match after the first dropped row.
    return replace(parsed, words=list(first), matrix=parsed.matrix[rows], notes=(*parsed.notes, note), first_line=0)


def _note_zero_rows(parsed: Parsed, path: Path) -> Parsed:
    zero = []
    for start in range(0, len(parsed.matrix), ROWS_AT_ONCE):
        zero.append(start + np.flatnonzero(~parsed.matrix[start : start + ROWS_AT_ONCE].any(axis=1)))
        release_large(parsed.matrix)
    rows = np.concatenate(zero)
    if not len(rows):
        return parsed
    note = (
        f"{path.name}: {len(rows):,} rows are all zero, the first at {_position(parsed, int(rows[0]))}; "
        "their cosine with any word is taken as 0"
    )
    return replace(parsed, notes=(*parsed.notes, note))


ROWS_AT_ONCE = 50_000
LARGE_BYTES = 1 << 30


def first_odd_word(words: Sequence[str]) -> tuple[int, str] | None:
    """Return the position of the first invalid word and the reason, or None.

    Lone surrogates are invalid because they cannot be encoded. NUL is accepted here; only the text formats refuse it,
    because other programs end a word there.
    """
    try:
        "".join(words).encode()
    except (TypeError, UnicodeEncodeError):
        return next((row, why) for row, word in enumerate(words) if (why := _odd(word)))
    return None


def _odd(word: object) -> str:
    if not isinstance(word, str):
        return f"{word!r} is a {type(word).__name__}, not a word"
    try:
        word.encode()
    except UnicodeEncodeError:
        return f"{word!r} contains a lone surrogate, which is not valid text"
    return ""


def release_large(matrix: Matrix) -> None:
    """Release the pages of a large memory-mapped matrix after a pass over it."""
    if matrix.nbytes > LARGE_BYTES:
        give_back_pages(matrix)


def first_not_finite(matrix: Matrix) -> int | None:
    """Return the first row that contains NaN or infinity as float32, or None."""
    for start in range(0, len(matrix), ROWS_AT_ONCE):
        with np.errstate(over="ignore", invalid="ignore"):  # overflow gives infinity, which is detected below
            block = matrix[start : start + ROWS_AT_ONCE].astype(np.float32, copy=False)
            # NaN and infinity propagate to the sum, and a sum of float32 numbers does not overflow as float64.
            if np.isfinite(block.sum(dtype=np.float64)):
                release_large(matrix)
                continue
        bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
        if len(bad):
            return start + int(bad[0])
    return None


def as_float32(matrix: Matrix | Sequence[Sequence[float]]) -> Matrix:
    """Convert the matrix to float32, without a copy if it already is."""
    try:
        array = np.asarray(matrix)
    except ValueError as error:
        raise FormatError(f"the vectors do not form a matrix ({error})", hint="give rows of equal length") from error
    if array.dtype.kind not in "fiu":
        raise FormatError(f"vectors must be numbers, got dtype {array.dtype}", hint="convert the matrix to float32")
    with np.errstate(over="ignore"):  # overflow gives infinity, which refuse_bad_content reports
        return array.astype(np.float32, copy=False)


def refuse_misfit(words: Sequence[str], matrix: Matrix) -> None:
    """Raise `FormatError` unless there is one row per word."""
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise FormatError(f"vectors must be a matrix with at least one column, got shape {matrix.shape}")
    if len(words) != matrix.shape[0]:
        raise FormatError(f"{len(words):,} words but {matrix.shape[0]:,} rows", hint="give one row per word")


def refuse_bad_content(words: Sequence[str], matrix: Matrix, name: str) -> None:
    """Raise `FormatError` for repeated words, invalid words and rows that are not finite."""
    if (odd := first_odd_word(words)) is not None:
        raise FormatError(f"{name}, row {odd[0] + 1:,}: {odd[1]}")
    if len(set(words)) < len(words):
        repeated = next(word for word, count in Counter(words).items() if count > 1)
        raise FormatError(f"{name}: the vocabulary repeats {repeated!r}", hint="drop the repeated rows")
    if (bad := first_not_finite(matrix)) is not None:
        raise FormatError(
            f"{name}, row {bad + 1:,} ({words[bad]!r}): NaN or infinity among its numbers (as float32)",
            hint="drop or repair the row; no measure is defined on it",
        )
