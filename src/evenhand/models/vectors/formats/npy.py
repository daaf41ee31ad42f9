"""A numpy .npy matrix with its vocabulary beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from evenhand.arrays import Matrix
from evenhand.errors import FormatError, InputMissingError
from evenhand.files import compression_of, existing, open_bytes, writing
from evenhand.models.vectors.formats.format import Parsed, ReadOptions
from evenhand.models.vectors.formats.vocabulary import join_words, read_vocabulary
from evenhand.models.vectors.table import Vectors


def read(path: Path, options: ReadOptions) -> Parsed:
    """Map the matrix when it is not compressed; object arrays, which are pickles, are refused."""
    return Parsed(read_vocabulary(path, options), _matrix(path))


def _matrix(path: Path) -> Matrix:
    try:
        if not compression_of(path):
            matrix = np.load(existing(path), mmap_mode="r", allow_pickle=False)
        else:
            with open_bytes(path) as stream:
                matrix = np.lib.format.read_array(stream, allow_pickle=False)
    except (ValueError, EOFError, OSError, SyntaxError, OverflowError, MemoryError) as error:
        if isinstance(error, InputMissingError | FormatError):
            raise
        raise FormatError(
            f"{path}: not a readable .npy matrix ({error})", hint="fetch or write the file again"
        ) from error
    if not isinstance(matrix, np.ndarray):
        raise FormatError(f"{path}: an archive of arrays (.npz), not one matrix", hint="save the matrix as .npy")
    return matrix


def write(vectors: Vectors, path: Path) -> None:
    """Write the matrix and, beside it, `<name>.vocab`. The vocabulary goes first: a matrix is never without words."""
    suffix = compression_of(path)
    stem = path.name.removesuffix(suffix).removesuffix(".npy")
    with writing(path.with_name(stem + ".vocab")) as out:
        out.write(join_words(vectors.words))
    with writing(path) as out:
        np.lib.format.write_array(out, np.ascontiguousarray(vectors.matrix), allow_pickle=False)


def read_parquet(path: Path, options: ReadOptions) -> Parsed:
    """A parquet column of words and one .npy matrix in the same folder (the layout of the kumo packages)."""
    matrices = sorted(path.parent.glob("*.npy"))
    if len(matrices) != 1:
        raise InputMissingError(f"{path}: expected one .npy matrix in the same folder, found {len(matrices)}")
    try:
        frame = pl.read_parquet(existing(path))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FormatError(f"{path}: not a readable parquet file ({error})", hint="fetch it again") from error
    columns = [name for name, kind in frame.schema.items() if kind == pl.String]
    if len(columns) != 1 or frame[columns[0]].null_count():
        raise FormatError(f"{path}: expected one column of words without gaps, found {columns}")
    return Parsed(frame[columns[0]].to_list(), _matrix(matrices[0]))
