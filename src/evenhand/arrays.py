"""Array types, basic operations on rows, and rows of plain data as a data frame."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DegenerateError, UsageError

Floats: TypeAlias = NDArray[np.floating]
Matrix: TypeAlias = NDArray[np.floating]  # (rows, columns)
Matrix64: TypeAlias = NDArray[np.float64]
Vector64: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.int64]  # row indices


def as_float64(values: Floats) -> Matrix64:
    """Convert to double precision, which all sums and factorisations use."""
    return np.asarray(values, dtype=np.float64)


def row_norms(matrix: Matrix) -> Vector64:
    """Return the Euclidean norm of each row, accumulated in double precision."""
    wide = as_float64(matrix)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", wide, wide)), dtype=np.float64)


def unit_rows(matrix: Matrix) -> Matrix64:
    """Scale each row to unit length; a zero row stays zero, so its cosine with any row is 0.

    Raises:
        DegenerateError: if a row contains NaN or infinity.
    """
    wide = as_float64(matrix)
    lengths = row_norms(wide)
    if not np.isfinite(lengths).all():
        bad = int(np.argmin(np.isfinite(lengths)))
        raise DegenerateError(f"row {bad} has no finite norm: it contains NaN, infinity or too large a number")
    lengths[lengths == 0] = 1
    return np.divide(wide, lengths[:, None], out=None if np.may_share_memory(wide, matrix) else wide)


def give_back_pages(array: Floats) -> None:
    """Release the resident pages of a memory-mapped array; other arrays are unaffected."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def read_only(array: Floats) -> Floats:
    """Return a read-only view of the array."""
    view = array.view()
    view.flags.writeable = False
    return view


LIBRARIES = ("polars", "pandas")


def is_frame(source: object) -> bool:
    """Return whether an object is a polars or pandas data frame; neither library is imported."""
    return type(source).__module__.partition(".")[0] in LIBRARIES and hasattr(source, "columns")


def columns_of(source: object) -> dict[str, list[object]] | None:
    """Return the columns of a polars or pandas data frame by name; None for other objects.

    >>> import polars as pl
    >>> columns_of(pl.DataFrame({"text": ["she sings", "he sings"]})), columns_of("my.vec")
    ({'text': ['she sings', 'he sings']}, None)
    """
    if not is_frame(source):
        return None
    return {str(name): source[name].to_list() for name in source.columns}  # type: ignore[attr-defined, index]


def frame(rows: Sequence[Mapping[str, object]], library: str = "") -> Any:
    """Return rows as a polars data frame, or a pandas one where polars is not installed or `library="pandas"`."""
    installed = [name for name in ((library,) if library else LIBRARIES) if find_spec(name)]
    if library and library not in LIBRARIES:
        raise UsageError(f"{library!r} is not a data frame library", hint=f"use one of {', '.join(LIBRARIES)}")
    if not installed:
        raise UsageError("no data frame library is installed", hint=f"pip install {library or LIBRARIES[0]}")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    data = {column: [row.get(column) for row in rows] for column in columns}
    module = import_module(installed[0])
    return module.DataFrame(data, strict=False) if installed[0] == "polars" else module.DataFrame(data)
