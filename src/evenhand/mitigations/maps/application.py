"""Apply a map to `Vectors`, arrays and tensors, in blocks of rows so that double precision needs little memory.

`layer` makes a torch layer of a map.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from evenhand.arrays import Floats, Matrix, give_back_pages
from evenhand.errors import UsageError, require
from evenhand.files import writing
from evenhand.mitigations.maps.store import arrays_of
from evenhand.mitigations.maps.vectormap import (
    NUMPY,
    Array,
    Backend,
    RowWords,
    Tensor,
    VectorMap,
    is_tensor,
    torch_like,
    wide_tensor,
)
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.formats import format_for_writing
from evenhand.models.vectors.formats.safetensors import write_stream
from evenhand.subjects import Subject

if TYPE_CHECKING:
    import torch

WORTH_THREADS = 2**24  # values; below this, starting threads costs more than it gains
BLOCK_VALUES = 2**18  # 2 MB of float64: blocks that fit the cache make a chain of maps two to three times faster


def apply(vm: VectorMap, x: Array, words: RowWords | str | None = None) -> Array:
    """Apply the map to `Vectors`, a subject, a tensor, or anything numpy can convert to an array."""
    if isinstance(x, Subject):
        return _on_subject(vm, x)
    if isinstance(x, Vectors):
        if words is not None:
            raise UsageError("Vectors have their own words", hint="call the map without words")
        check_dim(vm, x.dim)
        return x.with_matrix(_whole(vm, x.matrix, x.words), step=vm.step())
    if is_tensor(x):
        return _on_tensor(vm, x, words)
    return _on_array(vm, np.asarray(x), words)


def _on_subject(vm: VectorMap, subject: Subject) -> Subject:
    """Return the changed subject; in a transformer the map acts on the word table."""
    from evenhand.mitigations.maps.site_change import SiteChange  # imports this module

    return subject.changed(vm if subject.network is None else SiteChange.at("embeddings", vm))


def apply_blocks(
    vm: VectorMap, matrix: Matrix, words: RowWords | None = None, *, rows: int | None = None
) -> Iterator[Floats]:
    """Yield the mapped rows block by block, in the dtype of the matrix.

    For a matrix that does not fit into memory, pass a memory-mapped one and write each block as it arrives. `rows` is
    the size of a block.
    """
    if matrix.ndim != 2:
        raise UsageError(f"the matrix must have 2 axes, got shape {matrix.shape}")
    check_dim(vm, matrix.shape[1])
    _check_words(vm, words, len(matrix))
    size = rows or max(1, BLOCK_VALUES // matrix.shape[1])
    if size < 1:
        raise UsageError(f"rows must be at least 1, got {rows}")
    return _blocks(vm, matrix, words, size)


def _blocks(vm: VectorMap, matrix: Matrix, words: RowWords | None, size: int) -> Iterator[Floats]:
    for start in range(0, len(matrix), size):
        block = matrix[start : start + size].astype(np.float64)
        block_words = None if words is None else words[start : start + size]
        yield vm.transform(block, NUMPY, block_words).astype(matrix.dtype, copy=False)


def write(vm: VectorMap, vectors: Vectors, path: Path) -> Path:
    """Write the mapped vectors as a .safetensors file; memory-mapped input may be of any size."""
    if format_for_writing(path).id != "safetensors":
        raise UsageError(f"{path}: only .safetensors is written block by block", hint="apply the map, then save")
    blocks = _release_pages(apply_blocks(vm, vectors.matrix, vectors.words), vectors.matrix)
    dim = vm.out_dim_of(vectors.dim) or 0
    history = (*vectors.history, vm.step())
    with writing(path) as out:
        write_stream(out, vectors.words, blocks, dim, source=vectors.source, history=history)
    return path


def _release_pages(blocks: Iterator[Floats], matrix: Matrix) -> Iterator[Floats]:
    """Yield the blocks, releasing pages of a memory-mapped file so that they do not fill the memory."""
    for number, block in enumerate(blocks):
        yield block
        if number % 64 == 63:
            give_back_pages(matrix)


def _whole(vm: VectorMap, matrix: Matrix, words: RowWords | None) -> Floats:
    """Return all mapped rows; a large matrix is mapped in parallel, one part per core."""
    apply_blocks(vm, matrix, words)  # checks the arguments before anything is allocated
    out: Floats = np.empty((len(matrix), vm.out_dim_of(matrix.shape[1]) or 0), dtype=matrix.dtype)
    cores = (os.cpu_count() or 1) if matrix.size >= WORTH_THREADS else 1
    edges = np.linspace(0, len(matrix), cores + 1).astype(int).tolist()
    if cores == 1:
        _fill(out, vm, matrix, words, (0, len(matrix)))
        return out
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(cores) as pool:  # our threads instead of those of BLAS
        list(pool.map(lambda part: _fill(out, vm, matrix, words, part), pairwise(edges)))
    return out


def _fill(out: Floats, vm: VectorMap, matrix: Matrix, words: RowWords | None, part: tuple[int, int]) -> None:
    start, stop = part
    part_words = None if words is None else words[start:stop]
    for block in apply_blocks(vm, matrix[start:stop], part_words):
        out[start : start + len(block)] = block
        start += len(block)


def _on_array(vm: VectorMap, x: Floats, words: RowWords | str | None) -> Floats:
    if x.ndim == 0 or x.dtype.kind not in "fiu":
        raise UsageError(
            f"a map takes Vectors, numbers in rows, or a tensor; got {x.dtype} of shape {x.shape}",
            hint="wrap a vocabulary and its matrix as Vectors(words, matrix)",
        )
    floats = x if x.dtype.kind == "f" else x.astype(np.float64)
    flat = floats.reshape(-1, x.shape[-1])
    return _whole(vm, flat, _row_words(words)).reshape(*x.shape[:-1], -1) if x.size else _empty(vm, floats)


def _empty(vm: VectorMap, x: Floats) -> Floats:
    check_dim(vm, x.shape[-1])
    return np.empty((*x.shape[:-1], vm.out_dim_of(x.shape[-1]) or 0), dtype=x.dtype)


def _on_tensor(vm: VectorMap, x: Tensor, words: RowWords | str | None) -> Tensor:
    if not x.is_floating_point() or x.ndim == 0:
        raise UsageError(f"a map takes tensors of real numbers in rows, got {x.dtype} of shape {tuple(x.shape)}")
    check_dim(vm, x.shape[-1])
    wide = wide_tensor(x)
    rows = wide.reshape(-1, x.shape[-1])
    row_words = _row_words(words)
    _check_words(vm, row_words, rows.shape[0])
    mapped = vm.transform(rows, torch_like(wide), row_words)
    return mapped.reshape(*x.shape[:-1], mapped.shape[-1]).to(x.dtype)


def _row_words(words: RowWords | str | None) -> RowWords | None:
    return (words,) if isinstance(words, str) else words


def check_dim(vm: VectorMap, dim: int) -> None:
    """Raise `UsageError` if the map does not take vectors of this dimension."""
    if vm.in_dim is not None and vm.in_dim != dim:
        raise UsageError(
            f"{vm!r} takes vectors of {vm.in_dim} coordinates, got {dim}",
            hint="fit the method on vectors of the same dimension",
        )


def _check_words(vm: VectorMap, words: Sequence[str] | None, rows: int) -> None:
    if vm.needs_words and words is None:
        raise UsageError(
            f"{vm!r} depends on the words, so it cannot map bare numbers",
            hint="call it on Vectors, or pass words=[...] with one word per row",
        )
    if words is not None and len(words) != rows:
        raise UsageError(f"{len(words):,} words for {rows:,} rows", hint="pass one word per row")


def layer(vm: VectorMap, dtype: torch.dtype | None = None) -> torch.nn.Module:
    """Return a `torch.nn.Module` whose buffers, the map's arrays, follow `.to(device)` and are not trained."""
    if vm.needs_words:
        raise UsageError(f"{vm!r} depends on the word, which a layer does not see")
    torch = require("torch", extra="models")

    class MapLayer(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            for name, array in arrays_of(vm).items():
                values = torch.tensor(np.array(array), dtype=dtype or torch.get_default_dtype())
                self.register_buffer(_buffer(name), values)

        def forward(self, x: Tensor) -> Tensor:
            check_dim(vm, x.shape[-1])
            wide = wide_tensor(x)
            arrays = arrays_of(vm)  # kept alive: buffers are looked up by the identity of these arrays
            buffers = {id(array): getattr(self, _buffer(name)) for name, array in arrays.items()}

            def put(constant: Array) -> Tensor:
                return buffers[id(constant)].to(dtype=wide.dtype, device=wide.device)

            mapped = vm.transform(wide.reshape(-1, x.shape[-1]), Backend(torch, put), None)
            return mapped.reshape(*x.shape[:-1], mapped.shape[-1]).to(x.dtype)

        def extra_repr(self) -> str:
            return repr(vm)

    return MapLayer()


def _buffer(name: str) -> str:
    return name.replace(".", "_")  # torch reserves the dot for nested modules
