"""The plain forward pass of the BiLSTM model over a batch of pairs of equal lengths: the reference for faster ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import FormatError
from evenhand.models.nli.backend import Array, Backend
from evenhand.models.nli.decomposable_network import apply
from evenhand.models.nli.protocol import LABELS

ONWARDS, BACKWARDS = 0, 1


class PlacedBiLSTM:
    """The weights on a torch backend, matrices turned so that rows times matrix is one product."""

    def __init__(self, arrays: Arrays, backend: Backend) -> None:
        self.backend, self.torch = backend, backend.xp

        def layer(name: str) -> tuple[Array, Array]:
            return backend.put(arrays[f"{name}.weight"].T), backend.put(arrays[f"{name}.bias"])

        self.input = backend.put(arrays["lstm.input"].swapaxes(1, 2))
        self.recurrent = backend.put(arrays["lstm.recurrent"].swapaxes(1, 2))
        self.bias = backend.put(arrays["lstm.bias"])
        self.half = int(arrays["lstm.recurrent"].shape[2])
        self.hidden = 2 * self.half
        self.compare = layer("compare.0"), layer("compare.1")
        self.aggregate = layer("aggregate.0"), layer("aggregate.1")
        self.output = layer("output")
        self.null = backend.put(arrays["null"]) if "null" in arrays else None


def probabilities(placed: PlacedBiLSTM, premise: Array, hypothesis: Array) -> Array:
    """(pairs, 3) from vectors of the tokens: (pairs, premise length, dim) and (pairs, hypothesis length, dim)."""
    p, h = encoded(placed, premise), encoded(placed, hypothesis)
    scores = p @ h.swapaxes(1, 2)
    to_h, to_p = scores.softmax(2) @ h, scores.softmax(1).swapaxes(1, 2) @ p
    cat = placed.torch.cat
    both = [apply(placed.compare, cat(pair, -1)).sum(1) for pair in ([p, to_h], [h, to_p])]
    weight, bias = placed.output
    return (apply(placed.aggregate, cat(both, -1)) @ weight + bias).softmax(1)


def encoded(placed: PlacedBiLSTM, vectors: Array) -> Array:
    """(sentences, tokens, hidden): what both directions make of each token, behind a null token if there is one."""
    if placed.null is not None:
        vectors = placed.torch.cat([placed.null.expand(len(vectors), 1, -1), vectors], 1)
    onwards = list(_states(placed, ONWARDS, vectors.unbind(1)))
    backwards = list(_states(placed, BACKWARDS, vectors.flip(1).unbind(1)))[::-1]
    return placed.torch.cat([placed.torch.stack(onwards, 1), placed.torch.stack(backwards, 1)], -1)


def _states(placed: PlacedBiLSTM, direction: int, vectors: Any) -> Any:
    hidden = cell = vectors[0].new_zeros(len(vectors[0]), placed.half)
    for x in vectors:
        gates = x @ placed.input[direction] + placed.bias[direction] + hidden @ placed.recurrent[direction]
        hidden, cell = step(gates, cell)
        yield hidden


def step(gates: Array, cell: Array) -> tuple[Array, Array]:
    """New hidden state and cell from the sums before the gates: (..., 4 half) in torch's order, and (..., half)."""
    let_in, forget, new, out = gates.chunk(4, -1)
    cell = forget.sigmoid() * cell + let_in.sigmoid() * new.tanh()
    return out.sigmoid() * cell.tanh(), cell


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
