"""safetensors files with matrix, vocabulary, source and history.

The safetensors package reads tensors into memory. Vector files should be memory-mapped instead, so this module parses
the header itself (eight bytes of length, JSON, then the raw tensors). Any safetensors reader opens files written here.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import FormatError, UsageError
from evenhand.files import compression_of, open_bytes, writing
from evenhand.models.vectors.formats.format import (
    Format,
    Parsed,
    ReadOptions,
    WordMatrix,
    as_json,
    check_expansion,
    history_from,
    register_format,
    source_from,
)
from evenhand.models.vectors.formats.npy import join_words, read_vocabulary, split_words

LAYOUT = "evenhand-vectors-1"
# Tensors of types that numpy lacks (bfloat16, float8) are skipped.
DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "U8": "|u1", "I8": "|i1", "I32": "<i4", "I64": "<i8"}
ROWS_AT_ONCE = 20_000
LONGEST_HEADER = 100_000_000  # as in the safetensors package


def is_safetensors(start: bytes) -> bool:
    """Return whether a file starts with a plausible header length and a JSON object."""
    return start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= LONGEST_HEADER


def read(path: Path, options: ReadOptions) -> Parsed:
    """Read matrix and words. A safetensors file not written by evenhand needs a separate vocabulary file."""
    tensors, metadata = open_tensors(path)
    matrix = _main_matrix(tensors, path)
    if metadata.get("layout") != LAYOUT:
        return Parsed(read_vocabulary(path, options), matrix)
    if options.vocabulary:
        raise UsageError(
            f"{path} was written by evenhand and has its words: {str(options.vocabulary)!r} does not apply",
            hint="leave out `vocabulary=`",
        )
    if "vocabulary" not in tensors:
        raise _broken(path, "the vocabulary is missing")
    words = split_words(tensors["vocabulary"].tobytes(), path)
    try:
        source = source_from(metadata.get("source", "{}"))
        history = history_from(metadata.get("history", "[]"))
    except ValueError as error:
        raise _broken(path, str(error)) from error
    return Parsed(words, matrix, source=source, history=history)


def open_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return all tensors of the file, memory-mapped unless compressed, and the metadata."""
    with open_bytes(path) as stream:
        header, offset = _header(stream, path)
        raw = _decompress(stream, path, header) if compression_of(path) else np.memmap(path, np.uint8, "r")[offset:]
    metadata = header.pop("__metadata__", None) or {}
    try:
        tensors = {name: _tensor(raw, spec) for name, spec in header.items() if spec["dtype"] in DTYPES}
        return tensors, {str(key): str(value) for key, value in metadata.items()}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _broken(path, str(error)) from error


def _decompress(stream: IO[bytes], path: Path, header: Mapping[str, Any]) -> np.ndarray:
    """Read the tensors that the header states, and no more."""
    try:
        size = max((int(spec["data_offsets"][1]) for name, spec in header.items() if name != "__metadata__"), default=0)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise _broken(path, str(error)) from error
    check_expansion(path, size)
    data = stream.read(max(size, 0))
    if stream.read(1):
        raise _broken(path, "more data follow the tensors")
    return np.frombuffer(data, np.uint8)


def _header(stream: IO[bytes], path: Path) -> tuple[dict[str, Any], int]:
    prefix = stream.read(8)
    length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else -1
    if not 2 <= length <= LONGEST_HEADER:
        raise _broken(path, "the first eight bytes are not a header length")
    text = stream.read(length)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _broken(path, "the header is truncated or not JSON") from error
    if not isinstance(header, dict) or len(text) < length:
        raise _broken(path, "the header is truncated or not a JSON object")
    return header, 8 + length


def _tensor(raw: np.ndarray, spec: Mapping[str, Any]) -> np.ndarray:
    (begin, end), shape = spec["data_offsets"], spec["shape"]
    dtype = np.dtype(DTYPES[spec["dtype"]])
    if not all(type(number) is int and 0 <= number < 1 << 48 for number in (begin, end, *shape)):
        raise ValueError(f"offsets {begin}:{end} or shape {shape} are not valid sizes")
    if not begin <= end <= len(raw) or end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"bytes {begin}:{end} of {len(raw)} do not hold {shape} numbers of {dtype.itemsize} bytes")
    return raw[begin:end].view(dtype).reshape(shape)


def _broken(path: Path, why: str) -> FormatError:
    return FormatError(f"{path}: not a valid safetensors file: {why}", hint="fetch or write the file again")


def _main_matrix(tensors: Mapping[str, np.ndarray], path: Path) -> Matrix:
    if "vectors" in tensors:
        return tensors["vectors"]
    tables = [tensor for tensor in tensors.values() if tensor.ndim == 2 and tensor.dtype.kind == "f"]
    if len(tables) != 1:
        raise FormatError(
            f"{path}: contains {len(tables)} float matrices, expected one, or one named 'vectors'",
            hint="for the embeddings of a transformer use evenhand.interop.huggingface",
        )
    return tables[0]


def write(vectors: WordMatrix, path: Path, *, dtype: str = "F32") -> None:
    """Write matrix, vocabulary, source and history, converting rows block by block."""
    blocks = (vectors.matrix[i : i + ROWS_AT_ONCE] for i in range(0, len(vectors), ROWS_AT_ONCE))
    with writing(path) as out:
        write_stream(
            out, vectors.words, blocks, vectors.dim, source=vectors.source, history=vectors.history, dtype=dtype
        )


class ByteSink(Protocol):
    """What a file is written to."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Take the next bytes."""


def write_stream(
    out: ByteSink,
    words: Sequence[str],
    blocks: Iterable[Matrix],
    dim: int,
    *,
    source: Mapping[str, object],
    history: Sequence[Mapping[str, object]],
    dtype: str = "F32",
) -> None:
    """Write rows from an iterable of blocks, so the matrix may be larger than memory."""
    vocabulary = join_words(words)
    size = len(words) * dim * np.dtype(DTYPES[dtype]).itemsize
    header = {
        "__metadata__": {"layout": LAYOUT, "source": as_json(source), "history": as_json(history)},
        "vectors": {"dtype": dtype, "shape": [len(words), dim], "data_offsets": [0, size]},
        "vocabulary": {"dtype": "U8", "shape": [len(vocabulary)], "data_offsets": [size, size + len(vocabulary)]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the format requires tensors aligned to eight bytes
    out.write(struct.pack("<Q", len(text)) + text)
    for block in blocks:
        out.write(np.ascontiguousarray(block, DTYPES[dtype]).data)
    out.write(vocabulary)


register_format(
    Format(
        "safetensors",
        "evenhand safetensors",
        (".safetensors",),
        read,
        write,
        is_safetensors,
        cached=False,
        holds_history=True,
        separate_words=True,
    )
)
