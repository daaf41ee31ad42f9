"""From the file of a model of ours to the model, whichever kind it is, on the best device there is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenhand.errors import FormatError
from evenhand.models.device import resolve_device
from evenhand.models.nli import decomposable_network as decomposable
from evenhand.models.nli.bilstm import KIND as BILSTM
from evenhand.models.nli.bilstm import BiLSTM
from evenhand.models.nli.decomposable import DecomposableAttention
from evenhand.models.nli.model_file import ModelFile, flags, naming, read
from evenhand.models.nli.over_vectors import ModelOverVectors
from evenhand.models.vectors import Vectors

KINDS = (decomposable.KIND, BILSTM)


def load(
    path: str | os.PathLike[str], vectors: Vectors, *, device: str = "auto", name: str | None = None
) -> ModelOverVectors:
    """The model of a file that `save` wrote, over the vectors it was trained on or others of the same dimension.

    `device` is auto (a GPU where torch sees one), cpu (numpy where the model can do without torch), cuda, or a backend
    by its full name: numpy, torch, torch:cuda:1. `name` is what the model is called from now on.
    """
    return built(read(Path(path)), vectors, path=Path(path), device=device, name=name)


def built(
    found: ModelFile, vectors: Vectors, *, path: Path, device: str = "auto", name: str | None = None
) -> ModelOverVectors:
    """The model that a file already read holds."""
    with naming(path):
        options: dict[str, Any] = {**flags(found.config), "name": str(name or found.config.get("name") or path.stem)}
        return from_arrays(found.kind, found.arrays, vectors, device=device, **options)


def from_arrays(
    kind: str, arrays: Mapping[str, Any], vectors: Vectors, *, device: str = "auto", **options: Any
) -> ModelOverVectors:
    """A model of that kind from arrays named as in its file; the options are `lower`, `normalise` and `name`."""
    if kind == decomposable.KIND:
        return DecomposableAttention.from_arrays(arrays, vectors, backend_name=backend_name(device), **options)
    if kind == BILSTM:
        name = backend_name(device, numpy=False)
        return BiLSTM.from_arrays(arrays, vectors, device=name.partition(":")[2] or "cpu", **options)
    raise FormatError(f"holds a model of the unknown kind {kind!r}", hint=f"known: {', '.join(KINDS)}")


def backend_name(device: str = "auto", *, numpy: bool = True) -> str:
    """Which backend a device means, for a model that numpy is enough for or not."""
    if device == "auto":
        device = resolve_device(device)
    library = device.partition(":")[0]
    if library == "torch" or (library == "numpy" and numpy):
        return device
    if device in ("cpu", "numpy"):
        return "numpy" if numpy else "torch"
    return f"torch:{device}"
