"""Maps on disk: one safetensors file with the arrays as tensors and the rest as JSON in its metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from evenhand.arrays import Matrix64
from evenhand.errors import EvenhandError, FormatError, foreign_errors
from evenhand.files import existing, writing
from evenhand.mitigations.maps.combined import Chain, ExceptLongVectors, ExceptWords, WordTable
from evenhand.mitigations.maps.coordinates import (
    Affine,
    DropCoordinates,
    Encoder,
    LowRank,
    PlaneRotation,
    RowNormalise,
    SoftProjection,
)
from evenhand.mitigations.maps.vectormap import State, VectorMap

RecordedT = TypeVar("RecordedT", bound="Recorded")
FORMAT = 1
METADATA = "evenhand-map"
KINDS: dict[str, type[VectorMap]] = {
    kind.kind: kind
    for kind in (
        Affine,
        Chain,
        DropCoordinates,
        Encoder,
        ExceptLongVectors,
        ExceptWords,
        LowRank,
        PlaneRotation,
        RowNormalise,
        SoftProjection,
        WordTable,
    )
}


def digest(vm: VectorMap) -> str:
    """Return the SHA-256 of kind, arrays and settings of a map and of the maps inside it."""
    state = vm.state()
    total = hashlib.sha256(json.dumps([vm.kind, state.config], sort_keys=True).encode())
    for name in sorted(state.arrays):
        array = np.ascontiguousarray(state.arrays[name], dtype="<f8")
        total.update(f"{name}{array.shape}".encode() + array.tobytes())
    for child in state.children:
        total.update(bytes.fromhex(child.digest))
    return total.hexdigest()


def arrays_of(vm: VectorMap, prefix: str = "") -> dict[str, Matrix64]:
    """Return all arrays of a map and of the maps inside it, by names such as `0.basis`."""
    state = vm.state()
    arrays = {prefix + name: array for name, array in state.arrays.items()}
    for number, child in enumerate(state.children):
        arrays |= arrays_of(child, f"{prefix}{number}.")
    return arrays


class Recorded(Protocol):
    """What is stored: its digest is checked when it is read."""

    @property
    def digest(self) -> str:
        """Hash of its numbers."""


def save(vm: VectorMap, path: Path) -> Path:
    """Write the map; the file is complete or absent."""
    return write_record(path, METADATA, {"map": describe_map(vm), "sha256": vm.digest}, arrays_of(vm))


def load(path: Path) -> VectorMap:
    """Load a map; raise `FormatError` if the file is not a map or is damaged."""
    return read_record(path, METADATA, lambda about, tensors: build_map(about["map"], tensors), "map", "VectorMap.save")


def write_record(path: Path, key: str, about: Mapping[str, object], arrays: Mapping[str, Matrix64]) -> Path:
    """Write arrays as safetensors, with the rest as JSON under a key of the metadata."""
    from safetensors.numpy import save as to_bytes

    text = json.dumps({"format": FORMAT, **about}, default=plain_json)
    data = to_bytes({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata={key: text})
    with writing(path) as out:
        out.write(data)
    return path


def read_record(
    path: Path, key: str, build: Callable[[dict[str, Any], dict[str, Matrix64]], RecordedT], what: str, writer: str
) -> RecordedT:
    """Return what a function builds from a file of `write_record`.

    Args:
        path: the file.
        key: the key of the metadata.
        build: takes the JSON and the arrays.
        what: what the file holds, for messages.
        writer: what writes such files, for messages.

    Raises:
        FormatError: If the file is something else, or is damaged.
    """
    from safetensors import safe_open

    hint = f"such files are written by {writer}"
    # numpy has no bfloat16 and no 8-bit floats, which raise errors of other types than damage does.
    problem = foreign_errors(f"{path}: not a safetensors file of a {what}, or a damaged one", hint=hint)
    with problem, safe_open(existing(path), framework="numpy") as file:
        metadata = dict(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    if key not in metadata:
        raise FormatError(f"{path}: not a {what}, although a safetensors file", hint=hint)
    try:
        about = json.loads(metadata[key])
        if about["format"] != FORMAT:
            raise FormatError(f"{path}: {what} format {about['format']!r}, this version reads {FORMAT}")
        made, expected = build(about, tensors), about["sha256"]
    except FormatError:
        raise
    except (EvenhandError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path}: damaged {what} ({error})", hint="fit and save it again") from error
    if made.digest != expected:
        raise FormatError(f"{path}: the numbers do not match their checksum", hint="fit and save it again")
    return made


def describe_map(vm: VectorMap) -> dict[str, object]:
    """Return kind, settings and report of a map and of the maps inside it, as plain data."""
    state = vm.state()
    return {
        "kind": vm.kind,
        "config": state.config,
        "arrays": sorted(state.arrays),
        "report": dict(vm.report),
        "children": [describe_map(child) for child in state.children],
    }


def build_map(about: dict[str, Any], tensors: dict[str, Matrix64], prefix: str = "") -> VectorMap:
    """Return the map that `describe_map` described, with its arrays by the names of `arrays_of`."""
    children = tuple(build_map(child, tensors, f"{prefix}{n}.") for n, child in enumerate(about["children"]))
    arrays = {name: tensors[prefix + name] for name in about["arrays"]}
    vm = KINDS[about["kind"]].from_state(State(arrays, about["config"], children))
    return vm.with_report(**about["report"]) if about["report"] else vm


def plain_json(value: object) -> object:
    """Convert numpy numbers and other containers to JSON values."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return list(value) if isinstance(value, set | frozenset | tuple) else str(value)
