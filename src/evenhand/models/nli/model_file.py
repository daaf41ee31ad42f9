"""Files of evenhand NLI models: named arrays as safetensors, with the kind of model and its settings as metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import FormatError, shown
from evenhand.files import existing, writing
from evenhand.models.model_files import parse_metadata, read_header, read_tensor
from evenhand.models.nli.protocol import LABELS

FORMAT = 1
METADATA = "evenhand-nli"


class ModelFile(NamedTuple):
    """The contents of a file: kind of model, arrays and settings."""

    kind: str
    arrays: dict[str, Matrix]
    config: dict[str, object]


class LookupOptions(TypedDict):
    """How words are looked up in the vectors."""

    lower: bool
    normalise: bool


def write(
    path: Path, *, kind: str, arrays: Mapping[str, Matrix], config: Mapping[str, object], dtype: str = "float32"
) -> Path:
    """Write the arrays in the given precision; `config` goes into the metadata."""
    from safetensors.numpy import save as to_bytes

    metadata = {"format": FORMAT, "kind": kind, "labels": list(LABELS), "config": dict(config)}
    tensors = {name: np.ascontiguousarray(array, dtype=dtype) for name, array in arrays.items()}
    with writing(path) as out:
        out.write(to_bytes(tensors, metadata={METADATA: json.dumps(metadata, sort_keys=True)}))
    return path


def read(path: Path, *, kind: str | None = None) -> ModelFile:
    """Read a model file; float16 and bfloat16 arrays are widened to float32.

    Raises:
        FormatError: If the file is damaged, not an evenhand NLI model, or a model of another kind.
    """
    headers = read_header(existing(path, what="model file"))
    metadata = _read_metadata(path)
    file = ModelFile(
        str(metadata["kind"]),
        {name: read_tensor(info, name) for name, info in headers.items()},
        _checked_config(path, metadata["config"]),
    )
    version, labels = metadata["format"], metadata["labels"]
    if version != FORMAT or labels != list(LABELS) or file.kind != (kind or file.kind):
        expected = f"{kind or file.kind!r} of format {FORMAT} with the labels {', '.join(LABELS)}"
        raise FormatError(
            f"{path}: a {file.kind!r} of format {shown(version)} with the labels {shown(labels)}, expected {expected}"
        )
    return file


def is_model_file(path: Path) -> bool:
    """Return whether a safetensors file names an evenhand NLI model in its metadata; tensors are not read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return METADATA in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


def _read_metadata(path: Path) -> dict[str, object]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(METADATA)
    except SafetensorError as error:
        raise FormatError(
            f"{path}: not a complete safetensors file ({error})", hint="write or fetch it again"
        ) from error
    if text is None:
        raise FormatError(
            f"{path}: holds tensors but is not an evenhand NLI model", hint="write models with save(path)"
        )
    metadata = parse_metadata(path, text)
    missing = [key for key in ("format", "kind", "labels", "config") if key not in metadata]
    if missing:
        raise FormatError(f"{path}: the metadata lacks {', '.join(missing)}", hint="write models with save(path)")
    if not isinstance(metadata["kind"], str):
        raise FormatError(f"{path}: the kind of model is {shown(metadata['kind'])}, expected text")
    return metadata


def _checked_config(path: Path, config: object) -> dict[str, object]:
    """Return the settings; `words` describes the training vectors and the methods applied to them."""
    if not isinstance(config, dict):
        raise FormatError(f"{path}: its config is not an object, got {shown(config)}")
    words = config.get("words")
    history = words.get("history", []) if isinstance(words, dict) else None
    steps = isinstance(history, list) and all(isinstance(step, dict) for step in history)
    if words is not None and not steps:
        raise FormatError(
            f"{path}: words in its config is not a description of vectors, got {shown(words)}",
            hint="write models with save(path)",
        )
    return config


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Add the name of the file to format errors."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{path}: {error.message}", hint=error.hint) from error


def lookup_options(config: Mapping[str, object]) -> LookupOptions:
    """Return how words are looked up, as the config says."""
    values = {name: config.get(name) for name in ("lower", "normalise")}
    for name, value in values.items():
        if not isinstance(value, bool):
            problem = f"{name} is {shown(value)}, not true or false" if name in config else f"{name!r} is missing"
            raise FormatError(f"its config is not valid: {problem}", hint="write models with save(path)")
    return {"lower": bool(values["lower"]), "normalise": bool(values["normalise"])}


def check_array(name: str, array: Matrix, shape: tuple[int, ...]) -> None:
    """Raise `FormatError` unless an array has the expected shape and finite values."""
    if array.shape != shape:
        raise FormatError(f"the array {name!r} has the shape {array.shape}, expected {shape}")
    if not np.isfinite(array).all():
        raise FormatError(f"the array {name!r} holds NaN or infinity", hint="training diverged: train again")
