"""Names for array shapes, and the few row operations that everything else is built from."""

from __future__ import annotations

import mmap
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DegenerateError

Floats: TypeAlias = NDArray[np.floating[Any]]
Matrix: TypeAlias = NDArray[np.floating[Any]]  # (rows, columns)
Matrix64: TypeAlias = NDArray[np.float64]
Vector64: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.int64]  # indices of rows


def as_float64(values: Floats) -> Matrix64:
    """The values in double precision: sums and factorisations never run in single."""
    return np.asarray(values, dtype=np.float64)


def row_norms(matrix: Matrix) -> Vector64:
    """Euclidean length of each row, accumulated in double precision."""
    wide = as_float64(matrix)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", wide, wide)), dtype=np.float64)


def unit_rows(matrix: Matrix) -> Matrix64:
    """Each row divided by its length; a zero row stays zero, so that its cosine with anything is 0, never NaN.

    A row with NaN or infinity in it has no direction and is an error: as a zero row it would pass for a measured 0.
    """
    wide = as_float64(matrix)
    lengths = row_norms(wide)
    if not np.isfinite(lengths).all():
        bad = int(np.argmin(np.isfinite(lengths)))
        raise DegenerateError(f"row {bad} has no length: NaN, infinity or too large a number in it")
    return np.divide(wide, lengths[:, None], out=np.zeros_like(wide), where=lengths[:, None] > 0)


def give_back_pages(array: Floats) -> None:
    """Let go of what was read of a mapped file; it is read again when needed. Other arrays keep what they have."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def read_only(array: Floats) -> Floats:
    """The same memory, marked so that nobody writes into it by accident."""
    view = array.view()
    view.flags.writeable = False
    return view
