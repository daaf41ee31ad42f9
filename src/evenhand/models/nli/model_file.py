"""The file of a model of ours: named arrays as safetensors, and in its metadata what kind of model they make."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import FormatError
from evenhand.files import existing, writing
from evenhand.models.nli.protocol import LABELS

FORMAT = 1
METADATA = "evenhand-nli"


class ModelFile(NamedTuple):
    """What a file holds: which model, its arrays, and its settings."""

    kind: str
    arrays: dict[str, Matrix]
    config: dict[str, Any]


def write(
    path: Path, *, kind: str, arrays: Mapping[str, Matrix], config: Mapping[str, Any], dtype: str = "float32"
) -> Path:
    """Write the arrays in that precision; `config` goes into the metadata."""
    from safetensors.numpy import save as to_bytes

    about = {"format": FORMAT, "kind": kind, "labels": list(LABELS), "config": dict(config)}
    tensors = {name: np.ascontiguousarray(array, dtype=dtype) for name, array in arrays.items()}
    with writing(path) as out:
        out.write(to_bytes(tensors, metadata={METADATA: json.dumps(about, sort_keys=True)}))
    return path


def read(path: Path, *, kind: str | None = None) -> ModelFile:
    """Read a file back; anything but a whole file of ours, or of another kind, is a `FormatError` that names it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(existing(path, what="model file"), framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        about = json.loads(metadata[METADATA])
        found = ModelFile(str(about["kind"]), arrays, dict(about["config"]))
        version, labels = about["format"], about["labels"]
    except SafetensorError as error:
        raise FormatError(f"{path}: not a whole safetensors file ({error})", hint="fetch or write it again") from error
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: holds tensors but no NLI model of ours", hint="write it with save()") from error
    if version != FORMAT or labels != list(LABELS) or found.kind != (kind or found.kind):
        wanted = f"{kind or found.kind!r} of format {FORMAT}"
        raise FormatError(f"{path}: a {found.kind!r} of format {version}, expected {wanted} with the labels {LABELS}")
    return found


def is_model_file(path: Path) -> bool:
    """Return whether a safetensors file names an evenhand NLI model in its metadata; tensors are not read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return METADATA in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors about what the file holds say which file."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{path}: {error.message}", hint=error.hint) from error


def flags(config: Mapping[str, Any]) -> dict[str, bool]:
    """How words are looked up, which every model over vectors must know."""
    try:
        return {name: bool(config[name]) for name in ("lower", "normalise")}
    except KeyError as error:
        raise FormatError(f"its config lacks {error.args[0]!r}") from error
