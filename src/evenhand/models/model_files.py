"""Read the JSON and safetensors files of models without torch.

numpy has no bfloat16, so the safetensors package cannot return such tensors as arrays; they are widened here.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import EvenhandError, FormatError, InputMissingError, shown
from evenhand.files import existing

JSONObject = dict[str, Any]
FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
LONGEST_HEADER = 100_000_000  # the limit of the safetensors package
LARGEST_JSON = 50_000_000  # bytes


def read_json(path: Path) -> JSONObject:
    """Return the object that a JSON file holds.

    Raises:
        InputMissingError: If the file does not exist or cannot be read.
        FormatError: If it is not a JSON object, too large or too deeply nested.
    """
    content = read_json_value(path)
    if not isinstance(content, dict):
        raise FormatError(f"{path}: holds a {type(content).__name__}, expected a JSON object")
    return content


def read_unchanged_json(path: Path) -> Mapping[str, object]:
    """Return the object that a JSON file holds, parsed once while time, size and identity of the file stay the same."""
    try:
        state = path.stat()
    except OSError:
        return read_json(path)  # its error says what is wrong
    return _parsed(path, state.st_ino, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=32)
def _parsed(path: Path, *state: int) -> Mapping[str, object]:
    return MappingProxyType(read_json(path))


def read_json_value(path: Path) -> object:
    """Return the value of any type that a JSON file holds, with the errors of `read_json`."""
    if not path.is_file():
        raise InputMissingError(f"{path} does not exist or is not a regular file", hint="fetch the whole folder")
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise FormatError(f"{path}: larger than {LARGEST_JSON:,} bytes", hint="name the folder of a model")
        content: object = json.loads(path.read_bytes())
    except OSError as error:
        raise InputMissingError(f"{path}: cannot be read ({error.strerror})", hint="check its permissions") from error
    except RecursionError as error:
        raise FormatError(f"{path}: the JSON is nested too deeply", hint="fetch the file again") from error
    except ValueError as error:  # UnicodeDecodeError, JSONDecodeError, integers of thousands of digits
        if isinstance(error, EvenhandError):
            raise
        raise FormatError(f"{path}: not valid JSON ({error})", hint="fetch the file again") from error
    return content


def parse_metadata(path: Path, text: str) -> dict[str, object]:
    """Parse JSON from the metadata of a safetensors file.

    Raises:
        FormatError: If it is not a JSON object of valid Unicode text, or is nested too deeply.
    """
    try:
        content = json.loads(text)
        json.dumps(content, ensure_ascii=False).encode()  # lone surrogates cannot be printed or written
    except RecursionError as error:
        raise FormatError(f"{path}: the metadata is nested too deeply", hint="write or fetch the file again") from error
    except ValueError as error:  # JSONDecodeError, UnicodeEncodeError, integers of thousands of digits
        raise FormatError(f"{path}: the metadata is not valid JSON ({error})", hint="fetch the file again") from error
    if not isinstance(content, dict):
        raise FormatError(f"{path}: the metadata is not a JSON object, got {shown(content)}")
    return content


class TensorInfo(NamedTuple):
    """The file, type, shape and byte range of a tensor."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def read_header(path: Path) -> dict[str, TensorInfo]:
    """Return the tensors of a file by name; the data are checked to lie within the file but not read."""
    if not existing(path, what="weights file").is_file():
        raise FormatError(f"{path}: not a regular file", hint="name a .safetensors file")
    size = path.stat().st_size
    with path.open("rb") as stream:
        prefix = stream.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
        if not 2 <= length <= min(LONGEST_HEADER, size - 8):
            raise _damaged(path, "its first eight bytes are not the length of a header")
        text = stream.read(length)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "its header is not JSON") from error
    if not isinstance(header, dict):
        raise _damaged(path, "its header is not a JSON object")
    header.pop("__metadata__", None)
    return {name: _parse_entry(path, name, entry, 8 + length, size) for name, entry in header.items()}


def _parse_entry(path: Path, name: str, entry: object, origin: int, size: int) -> TensorInfo:
    try:
        dtype, shape, (start, stop) = entry["dtype"], entry["shape"], entry["data_offsets"]  # type: ignore[index]
        whole = all(type(number) is int and 0 <= number < 1 << 48 for number in (*shape, start, stop))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"tensor {name!r} lacks a type, a shape or offsets") from error
    if not whole or not isinstance(dtype, str) or not start <= stop <= size - origin:
        raise _damaged(path, f"the data of tensor {name!r} are not inside the file")
    return TensorInfo(path, dtype, tuple(shape), origin + start, origin + stop)


def read_tensor(info: TensorInfo, name: str, rows: Sequence[int] | None = None) -> NDArray[np.float32]:
    """Return a floating-point tensor, or some of its rows, as float32.

    Raises:
        FormatError: If the type is not float64, float32, float16 or bfloat16, or the size does not fit the shape.
    """
    if info.dtype not in FLOATS:
        raise FormatError(
            f"{info.path}: tensor {name!r} is stored as {info.dtype}, supported are {', '.join(FLOATS)}",
            hint="load the model with transformers and save it in bfloat16 or float32",
        )
    dtype = np.dtype(FLOATS[info.dtype])
    if math.prod(info.shape) * dtype.itemsize != info.stop - info.start:
        raise _damaged(info.path, f"tensor {name!r} has {info.stop - info.start} bytes for the shape {info.shape}")
    if not math.prod(info.shape):
        return np.empty(info.shape, dtype=np.float32)
    raw = np.memmap(info.path, dtype=np.uint8, mode="r", offset=info.start, shape=(info.stop - info.start,))
    values = raw.view(dtype).reshape(info.shape)
    values = values if rows is None else values[np.asarray(rows, dtype=np.int64)]
    if info.dtype == "BF16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return np.array(values, dtype=np.float32)


def _damaged(path: Path, reason: str) -> FormatError:
    return FormatError(f"{path}: not a complete safetensors file: {reason}", hint="fetch or write the file again")
