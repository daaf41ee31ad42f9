"""The plain forward pass over a batch of pairs of equal lengths: the reference for every faster way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evenhand.arrays import Matrix, Rows
from evenhand.errors import FormatError
from evenhand.models.nli import model_file
from evenhand.models.nli.backend import Array, Backend
from evenhand.models.nli.protocol import LABELS


class Placed:
    """The weights on a backend, matrices turned so that rows times matrix is one product."""

    def __init__(self, weights: Weights, backend: Backend) -> None:
        self.backend, self.xp = backend, backend.xp

        def layer(given: Layer) -> tuple[Array, Array]:
            return backend.put(given.weight.T), backend.put(given.bias)

        def network(given: Network) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
            return layer(given.first), layer(given.second)

        self.project = backend.put(weights.project.T)
        self.attend, self.compare = network(weights.attend), network(weights.compare)
        self.aggregate, self.output = network(weights.aggregate), layer(weights.output)
        self.hidden = weights.hidden
        self.intra = network(weights.intra.network) if weights.intra else None
        self.distance = weights.intra.distance if weights.intra else None


def probabilities(placed: Placed, premise: Array, hypothesis: Array) -> Array:
    """(pairs, 3) from vectors of the tokens: (pairs, premise length, dim) and (pairs, hypothesis length, dim)."""
    xp = placed.xp
    p, h = (within(placed, side @ placed.project) for side in (premise, hypothesis))
    scores = apply(placed.attend, p) @ apply(placed.attend, h).swapaxes(1, 2)
    to_h = softmax(scores, xp) @ h
    to_p = softmax(scores.swapaxes(1, 2), xp) @ p
    v_p = apply(placed.compare, xp.concatenate([p, to_h], -1)).sum(axis=1)
    v_h = apply(placed.compare, xp.concatenate([h, to_p], -1)).sum(axis=1)
    weight, bias = placed.output
    return softmax(apply(placed.aggregate, xp.concatenate([v_p, v_h], -1)) @ weight + bias, xp)


def within(placed: Placed, tokens: Array) -> Array:
    """Each token beside what it attends to in its own sentence (Parikh et al. 2016, section 3.4), where asked for."""
    if placed.intra is None or placed.distance is None:
        return tokens
    made = apply(placed.intra, tokens)
    biases = placed.backend.put(placed.distance[distances(tokens.shape[1])])
    attended = softmax(made @ made.swapaxes(1, 2) + biases, placed.xp) @ tokens
    return placed.xp.concatenate([tokens, attended], -1)


def distances(length: int) -> Rows:
    """(length, length): which bias a token at i has for one at j, by i - j."""
    places = np.arange(length)
    return np.asarray(np.clip(places[:, None] - places, -FARTHEST, FARTHEST) + FARTHEST, dtype=np.int64)


def apply(network: tuple[tuple[Array, Array], tuple[Array, Array]], x: Array) -> Array:
    """Two layers with max(0, x) after each."""
    for weight, bias in network:
        x = (x @ weight + bias).clip(0, None)
    return x


def softmax(x: Array, xp: Any) -> Array:
    """exp(x) divided by its sum over the last axis."""
    raised = x - xp.amax(x, axis=-1, keepdims=True)
    grown = xp.exp(raised)
    return grown / grown.sum(axis=-1, keepdims=True)


KIND = "decomposable-attention"
# Parikh et al. 2016, section 3.4: words more than 10 apart share one bias; before and after are told apart here.
FARTHEST = 11
DISTANCES = 2 * FARTHEST + 1


class Layer(NamedTuple):
    """x -> weight x + bias."""

    weight: Matrix  # (outputs, inputs), as torch has it
    bias: Matrix


class Network(NamedTuple):
    """Two layers, each followed by max(0, x)."""

    first: Layer
    second: Layer


class Intra(NamedTuple):
    """Attention of a sentence to itself: a network, and a bias for each distance from -FARTHEST to FARTHEST."""

    network: Network
    distance: Matrix  # (DISTANCES,)


@dataclass(frozen=True)
class Weights:
    """The parameters of attend, compare and aggregate (Parikh et al. 2016) over frozen vectors.

    `project` has no bias; `oov` holds the vectors that stand in for words the table lacks. With `intra` a token goes on
    as its projection beside what it attends to in its own sentence, so that the next layers read twice the width.
    """

    project: Matrix  # (hidden, dim)
    attend: Network
    compare: Network
    aggregate: Network
    output: Layer
    oov: Matrix  # (spare vectors, dim)
    intra: Intra | None = None

    @property
    def dim(self) -> int:
        """Dimension of the word vectors."""
        return int(self.project.shape[1])

    @property
    def hidden(self) -> int:
        """Width of every hidden layer."""
        return int(self.project.shape[0])

    def arrays(self) -> dict[str, Matrix]:
        """Every array by its name in the file."""
        found = {"project.weight": self.project, "oov": self.oov}
        layers = {"output": self.output}
        networks = {name: getattr(self, name) for name in ("attend", "compare", "aggregate")}
        if self.intra:
            found["intra.distance"] = self.intra.distance
            networks["intra"] = self.intra.network
        for name, network in networks.items():
            layers |= {f"{name}.0": network.first, f"{name}.1": network.second}
        for name, layer in layers.items():
            found |= {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
        return found

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Weights:
        """The inverse of `arrays`, in single precision; a missing or misshapen array is an error that names it."""
        kept = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in arrays.items()}

        def layer(name: str) -> Layer:
            return Layer(kept[f"{name}.weight"], kept[f"{name}.bias"])

        def network(name: str) -> Network:
            return Network(layer(f"{name}.0"), layer(f"{name}.1"))

        try:
            made = cls(
                kept["project.weight"],
                network("attend"),
                network("compare"),
                network("aggregate"),
                layer("output"),
                kept["oov"],
                Intra(network("intra"), kept["intra.distance"]) if "intra.distance" in kept else None,
            )
        except KeyError as error:
            raise FormatError(f"the weights lack the array {error.args[0]!r}") from error
        _refuse_misfit(made)
        return made

    @classmethod
    def random(cls, dim: int, hidden: int = 200, *, spare: int = 100, seed: int = 0, intra: bool = False) -> Weights:
        """Weights of an untrained model whose answers still differ from pair to pair; for tests and benchmarks."""
        rng = np.random.default_rng(seed)
        shapes = _shapes(dim, hidden, spare, intra)
        scaled = {name: rng.normal(0, np.sqrt(1.5 / shape[-1]), shape) for name, shape in shapes.items()}
        # Attention over a few hundred random coordinates would settle on one token, and the output on one label.
        for name, factor in (("attend.1.weight", 0.3), ("output.weight", 0.5), ("oov", 2.0)):
            scaled[name] *= factor
        return cls.from_arrays(scaled)


def save(weights: Weights, path: Path, *, config: Mapping[str, Any], dtype: str = "float32") -> Path:
    """Write a safetensors file; `config` goes into its metadata."""
    return model_file.write(path, kind=KIND, arrays=weights.arrays(), config=config, dtype=dtype)


def load(path: Path) -> tuple[Weights, dict[str, Any]]:
    """Read weights and config back; anything but a whole file of ours is a `FormatError` that names it."""
    found = model_file.read(path, kind=KIND)
    with model_file.naming(path):
        return Weights.from_arrays(found.arrays), found.config


def _shapes(dim: int, hidden: int, spare: int, intra: bool = False) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"project.weight": (hidden, dim), "oov": (spare, dim)}
    width = 2 * hidden if intra else hidden
    inputs = {"attend.0": width, "compare.0": 2 * width, "aggregate.0": 2 * hidden}
    inputs |= {"attend.1": hidden, "compare.1": hidden, "aggregate.1": hidden}
    if intra:
        shapes["intra.distance"] = (DISTANCES,)
        inputs |= {"intra.0": hidden, "intra.1": hidden}
    for name, width in inputs.items():
        shapes |= {f"{name}.weight": (hidden, width), f"{name}.bias": (hidden,)}
    return shapes | {"output.weight": (len(LABELS), hidden), "output.bias": (len(LABELS),)}


def _refuse_misfit(weights: Weights) -> None:
    if weights.project.ndim != 2 or weights.oov.ndim != 2 or not len(weights.oov):
        raise FormatError("the weights need a matrix project.weight and at least one spare vector in oov")
    for name, shape in _shapes(weights.dim, weights.hidden, len(weights.oov), bool(weights.intra)).items():
        found = weights.arrays()[name]
        if found.shape != shape:
            raise FormatError(f"the array {name!r} has the shape {found.shape}, expected {shape}")
        if not np.isfinite(found).all():
            raise FormatError(f"the array {name!r} holds NaN or infinity", hint="the training diverged: train again")
