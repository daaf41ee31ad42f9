"""Load an evenhand NLI model of any kind onto a device."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from numpy.typing import ArrayLike

from evenhand.errors import FormatError
from evenhand.models.device import resolve_device
from evenhand.models.nli.model_file import ModelFile, errors_name, lookup_options, read
from evenhand.models.nli.over_vectors import NLI_MODELS, ModelOverVectors
from evenhand.models.vectors import Vectors


def load(
    path: str | os.PathLike[str], vectors: Vectors, *, device: str = "auto", name: str | None = None
) -> ModelOverVectors:
    """Load a model that `save` wrote.

    Args:
        path: The model file.
        vectors: The vectors it was trained on, or others of the same dimension.
        device: `auto` (a GPU if torch finds one), `cpu` (numpy if the model does not need torch), `cuda`, or a full
            backend name: numpy, torch, torch:cuda:1.
        name: A new name for the model.
    """
    return build(read(Path(path)), vectors, path=Path(path), device=device, name=name)


def build(
    file: ModelFile, vectors: Vectors, *, path: Path, device: str = "auto", name: str | None = None
) -> ModelOverVectors:
    """Build the model from the contents of a file; `path` is for error messages."""
    with errors_name(path):
        lookup = lookup_options(file.config)
        name = str(name or file.config.get("name") or path.stem)
        return from_arrays(file.kind, file.arrays, vectors, device=device, name=name, **lookup)


def from_arrays(
    kind: str,
    arrays: Mapping[str, ArrayLike],
    vectors: Vectors,
    *,
    lower: bool,
    normalise: bool,
    name: str,
    device: str = "auto",
) -> ModelOverVectors:
    """Build a model of a kind from arrays named as in its file."""
    if kind not in NLI_MODELS:
        raise FormatError(f"unknown kind of model {kind!r}", hint=f"known kinds: {', '.join(NLI_MODELS.ids())}")
    model = NLI_MODELS.get(kind)
    device = backend_name(device, numpy=not model.needs_torch)
    return model.from_arrays(arrays, vectors, lower=lower, normalise=normalise, name=name, device=device)


def backend_name(device: str = "auto", *, numpy: bool = True) -> str:
    """Return the backend for a device, for a model that can run on numpy or not."""
    if device == "auto":
        device = resolve_device(device)
    library = device.partition(":")[0]
    if library == "torch" or (library == "numpy" and numpy):
        return device
    if device in ("cpu", "numpy"):
        return "numpy" if numpy else "torch"
    return f"torch:{device}"
