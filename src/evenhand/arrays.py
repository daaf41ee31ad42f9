"""Array types, basic operations on rows, and rows of plain data as a data frame."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DegenerateError, FormatError, UsageError, few, foreign_errors, shown

if TYPE_CHECKING:
    import polars as pl

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


def as_frame(source: object) -> pl.DataFrame | None:
    """Return a polars or pandas table as a polars data frame; None for other objects.

    This is the only place that decides what a data frame is. Lazy frames are collected. A single column is called
    "text". Values that pandas calls missing are null, and its row index is left out. Columns of mixed types are text.

    >>> import polars as pl
    >>> as_frame(pl.Series("body", ["she sings"])).columns, as_frame("my.vec")
    (['text'], None)

    Raises:
        FormatError: If there are no rows, or columns share a name, have names of several levels, or hold objects
            without a text.
    """
    kinds = {(each.__module__.partition(".")[0], each.__name__) for each in type(source).__mro__}
    if not kinds & {(library, kind) for library in LIBRARIES for kind in ("DataFrame", "LazyFrame", "Series")}:
        return None
    import polars as pl

    with foreign_errors("the lazy data frame cannot be computed", hint="collect it first, and open the result"):
        table: Any = source.collect() if isinstance(source, pl.LazyFrame) else source
    if not hasattr(table, "columns"):
        table = table.to_frame("text")
    names = [str(name) for name in table.columns]
    if getattr(table.columns, "nlevels", 1) > 1:
        raise FormatError("the columns of the data frame have names of several levels", hint="give each one name")
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise FormatError(f"the data frame has several columns called {repeated!r}", hint="rename or drop all but one")
    if not len(table):
        raise FormatError("the data frame has no rows", hint="check how it was filtered")
    if isinstance(table, pl.DataFrame):
        mixed = [name for name, dtype in table.schema.items() if dtype == pl.Object]
        return table.with_columns(_plain_column(name, table[name].to_list()) for name in mixed) if mixed else table
    return pl.DataFrame([_column_of(name, table[given]) for name, given in zip(names, table.columns, strict=True)])


def _column_of(name: str, values: Any) -> pl.Series:
    """Return a column of pandas."""
    import polars as pl

    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "iufb":
        return pl.Series(name, values.to_numpy(), nan_to_null=True)
    return _plain_column(name, values.astype(object).where(values.notna(), None).to_list())


def _plain_column(name: str, values: list[object]) -> pl.Series:
    """Return a column of any values, as text where polars has no type for all of them."""
    import polars as pl

    with suppress(pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        column = pl.Series(name, values, strict=False)
        if column.dtype != pl.Object and column.null_count() == values.count(None):  # nothing was lost
            return column
    for value in values:
        if type(value).__str__ is object.__str__ and type(value).__repr__ is object.__repr__:
            raise FormatError(f"column {name!r} of the data frame holds {shown(value)}", hint="make it text or numbers")
    with foreign_errors(f"column {name!r} of the data frame cannot be read", hint="make it text or numbers"):
        return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)


def texts_of(source: object, *names: str) -> list[str] | None:
    """Return the texts of a data frame in the first of these columns that it has; None for other objects."""
    if (table := as_frame(source)) is None:
        return None
    found = next((name for name in names if name in table.columns), None)
    if found is None:
        wanted = " or ".join(map(repr, names))
        raise UsageError(
            f"the data frame has no column {wanted}", hint=f"rename one of its columns: {few(table.columns)}"
        )
    texts: list[object] = table[found].to_list()
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            problem = f"row {row} of the column {found!r} is {shown(text)}, not a text"
            raise FormatError(problem, hint="fill it in, or leave the row out")
    return [str(text) for text in texts]


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
