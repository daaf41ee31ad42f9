"""The arrays of a BiLSTM model: their names, shapes and checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import FormatError
from evenhand.models.nli.probabilities import LABELS

Arrays = dict[str, Matrix]


def shapes(dim: int, half: int, spare: int) -> dict[str, tuple[int, ...]]:
    """Every array with its shape, for `half` units in each direction.

    The first axis of the three of the LSTM is the direction: onwards, then backwards. Its gates follow one another as
    in torch: input, forget, cell, output; one bias stands for torch's two, which are only ever added.
    """
    hidden = 2 * half
    found: dict[str, tuple[int, ...]] = {
        "lstm.input": (2, 4 * half, dim),
        "lstm.recurrent": (2, 4 * half, half),
        "lstm.bias": (2, 4 * half),
    }
    widths = {"compare.0": 2 * hidden, "compare.1": hidden, "aggregate.0": 2 * hidden, "aggregate.1": hidden}
    for name, width in widths.items():
        found |= {f"{name}.weight": (hidden, width), f"{name}.bias": (hidden,)}
    found |= {"output.weight": (len(LABELS), hidden), "output.bias": (len(LABELS),)}
    return found | {"null": (dim,), "oov": (spare, dim)}


def checked(arrays: Mapping[str, Any]) -> Arrays:
    """In single precision; a missing, misshapen or undefined array is an error that names it.

    `null` may be missing: the model then prepends nothing to a sentence.
    """
    kept = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in arrays.items()}
    for name, axes in (("lstm.recurrent", 3), ("oov", 2)):
        if name not in kept:
            raise FormatError(f"the weights lack the array {name!r}")
        if kept[name].ndim != axes or not kept[name].size:
            raise FormatError(f"the array {name!r} has the shape {kept[name].shape}, expected {axes} axes")
    spare, dim = kept["oov"].shape
    wanted = shapes(dim, kept["lstm.recurrent"].shape[2], spare)
    if "null" not in kept:
        del wanted["null"]
    for name, shape in wanted.items():
        if name not in kept:
            raise FormatError(f"the weights lack the array {name!r}")
        if kept[name].shape != shape:
            raise FormatError(f"the array {name!r} has the shape {kept[name].shape}, expected {shape}")
        if not np.isfinite(kept[name]).all():
            raise FormatError(f"the array {name!r} holds NaN or infinity", hint="the training diverged: train again")
    return {name: kept[name] for name in wanted}


def random(dim: int, hidden: int = 200, *, spare: int = 100, seed: int = 0) -> Arrays:
    """Arrays of an untrained model whose answers still differ from pair to pair; for tests and benchmarks."""
    rng = np.random.default_rng(seed)
    wanted = shapes(dim, hidden // 2, spare)
    scaled = {name: rng.normal(0, np.sqrt(1.5 / shape[-1]), shape) for name, shape in wanted.items()}
    # Large enough that a word changes the states of the words after it, small enough that no gate is shut.
    for name, factor in (("lstm.recurrent", 2.0), ("compare.0.weight", 2.0), ("compare.1.weight", 2.0), ("oov", 2.0)):
        scaled[name] *= factor
    return checked(scaled)
