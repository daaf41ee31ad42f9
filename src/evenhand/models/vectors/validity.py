"""What words and numbers may be, so that every look-up, measure and writer can rely on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from evenhand.arrays import Matrix, give_back_pages
from evenhand.errors import FormatError

ROWS_AT_ONCE = 50_000
LARGE_BYTES = 1 << 30


def first_odd_word(words: Sequence[str]) -> tuple[int, str] | None:
    """Position of the first word that is no text, and why; None when all are.

    Half of a surrogate pair is refused because no file, terminal or page can hold it. A NUL is a character like others;
    only the text formats refuse it, because other programs end a word there.
    """
    try:
        "".join(words).encode()
    except (TypeError, UnicodeEncodeError):
        return next((row, why) for row, word in enumerate(words) if (why := _odd(word)))
    return None


def _odd(word: object) -> str:
    if not isinstance(word, str):
        return f"{word!r} is no word but a {type(word).__name__}"
    try:
        word.encode()
    except UnicodeEncodeError:
        return f"{word!r} holds half a surrogate pair, which is no text"
    return ""


def let_go_of_large(matrix: Matrix) -> None:
    """A mapped file too large to keep in memory is not kept there by looking it through."""
    if matrix.nbytes > LARGE_BYTES:
        give_back_pages(matrix)


def first_not_finite(matrix: Matrix) -> int | None:
    """The first row with NaN or infinity in it once it is float32, or None."""
    for start in range(0, len(matrix), ROWS_AT_ONCE):
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows becomes infinite, and is found
            block = matrix[start : start + ROWS_AT_ONCE].astype(np.float32, copy=False)
            # One NaN or infinity makes the whole sum so, and float32 numbers cannot overflow a double's range.
            if np.isfinite(block.sum(dtype=np.float64)):
                let_go_of_large(matrix)
                continue
        bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
        if len(bad):
            return start + int(bad[0])
    return None


def as_float32(matrix: Matrix | Sequence[Sequence[float]]) -> Matrix:
    """The matrix as float32; the same memory when it is that already."""
    try:
        array = np.asarray(matrix)
    except ValueError as error:
        raise FormatError(f"the vectors are no matrix ({error})", hint="give rows of equal length") from error
    if array.dtype.kind not in "fiu":
        raise FormatError(f"vectors must be numbers, got dtype {array.dtype}", hint="convert the matrix to float32")
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite, which the check of content names
        return array.astype(np.float32, copy=False)


def refuse_misfit(words: Sequence[str], matrix: Matrix) -> None:
    """Refuse anything but one row for each word."""
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise FormatError(f"vectors must be a matrix with at least one column, got shape {matrix.shape}")
    if len(words) != matrix.shape[0]:
        raise FormatError(f"{len(words):,} words but {matrix.shape[0]:,} rows", hint="give one row for each word")


def refuse_bad_content(words: Sequence[str], matrix: Matrix, name: str) -> None:
    """Refuse repeated words, words that are no text and rows that are not finite."""
    if (odd := first_odd_word(words)) is not None:
        raise FormatError(f"{name}, row {odd[0] + 1:,}: {odd[1]}")
    if len(set(words)) < len(words):
        repeated = next(word for word, count in Counter(words).items() if count > 1)
        raise FormatError(f"{name}: the vocabulary repeats {repeated!r}", hint="drop the repeated rows")
    if (bad := first_not_finite(matrix)) is not None:
        raise FormatError(
            f"{name}, row {bad + 1:,} ({words[bad]!r}): NaN or infinity among its numbers (as float32)",
            hint="drop the row, or mend what made it; no measure is defined on such a row",
        )
