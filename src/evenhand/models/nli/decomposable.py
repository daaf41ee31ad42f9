"""Decomposable attention (Parikh et al. 2016) over word vectors; runs on numpy, or on torch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evenhand.arrays import Matrix, Rows
from evenhand.errors import FormatError
from evenhand.models.nli import model_file
from evenhand.models.nli.backend import Array, ArrayBackend, backend
from evenhand.models.nli.over_vectors import NLI_MODELS, ModelOverVectors
from evenhand.models.nli.protocol import LABELS, Grid, pairwise_grids
from evenhand.models.vectors import Vectors
from evenhand.words.probes import Probe

KIND = "decomposable-attention"
# Parikh et al. 2016, section 3.4: words more than 10 apart share one bias. Before and after have separate biases here.
FARTHEST = 11
DISTANCES = 2 * FARTHEST + 1

DeviceLayers = tuple[tuple[Array, Array], tuple[Array, Array]]  # two layers, each a matrix and a bias


@NLI_MODELS.register(KIND)
class DecomposableAttention(ModelOverVectors):
    """Attend, compare, aggregate. Word order matters only if the weights have intra-sentence attention.

    `backend_name` is numpy, torch or torch:cuda; the formulas are the same. For `lower` and `normalise` see the base
    class.
    """

    kind: ClassVar[str] = KIND

    def __init__(
        self,
        weights: Weights,
        vectors: Vectors,
        *,
        lower: bool = True,
        normalise: bool = False,
        backend_name: str = "numpy",
        workers: int | None = None,
        name: str = KIND,
    ) -> None:
        super().__init__(
            weights.oov,
            vectors,
            lower=lower,
            normalise=normalise,
            backend=backend(backend_name, workers=workers),
            name=name,
        )
        self.weights = weights

    def __repr__(self) -> str:
        return f"DecomposableAttention({self.name!r}, hidden {self.weights.hidden}, over {self.vectors!r})"

    @cached_property
    def weights_on_device(self) -> DecomposableWeights:
        """The weights on the backend."""
        return DecomposableWeights(self.weights, self.backend)

    def _probabilities(self, premise: Array, hypothesis: Array) -> Array:
        return probabilities(self.weights_on_device, premise, hypothesis)

    def grids(self, probe: Probe) -> Iterator[Grid]:
        """Yield the whole probe by exact factorised evaluation; see `models.nli.factorised`.

        With intra-sentence attention every token depends on the subject, and pairs are evaluated one by one.
        """
        from evenhand.models.nli.factorised import evaluate

        return pairwise_grids(self, probe) if self.weights.intra else evaluate(self, probe)

    def file_arrays(self) -> dict[str, Matrix]:
        """Return the weights by their names in the model file."""
        return self.weights.arrays()

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], vectors: Vectors, *, backend_name: str = "numpy", workers: int | None = None
    ) -> DecomposableAttention:
        """Read a model, over the vectors it was trained on or others of the same dimension."""
        file = model_file.read(Path(path), kind=KIND)
        with model_file.errors_name(Path(path)):
            weights, lookup = Weights.from_arrays(file.arrays), model_file.lookup_options(file.config)
        name = str(file.config.get("name") or Path(path).stem)
        return cls(weights, vectors, **lookup, backend_name=backend_name, workers=workers, name=name)

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, ArrayLike],
        vectors: Vectors,
        *,
        lower: bool = True,
        normalise: bool = False,
        name: str = KIND,
        device: str = "numpy",
    ) -> DecomposableAttention:
        """Return a model from arrays named as in its file; `device` is a backend such as numpy or torch:cuda."""
        weights = Weights.from_arrays(arrays)
        return cls(weights, vectors, lower=lower, normalise=normalise, backend_name=device, name=name)


class Layer(NamedTuple):
    """x -> weight x + bias."""

    weight: Matrix  # (outputs, inputs), as in torch
    bias: Matrix


class TwoLayers(NamedTuple):
    """Two layers, each followed by max(0, x)."""

    first: Layer
    second: Layer


class IntraAttention(NamedTuple):
    """Attention within a sentence: a network, and a bias for each distance from -FARTHEST to FARTHEST."""

    network: TwoLayers
    distance: Matrix  # (DISTANCES,)


@dataclass(frozen=True)
class Weights:
    """The parameters of attend, compare and aggregate (Parikh et al. 2016) over frozen vectors.

    `project` has no bias. `oov` holds the vectors for out-of-vocabulary words. With `intra`, each token is represented
    by its projection beside what it attends to in its own sentence, and the next layers are twice as wide.
    """

    project: Matrix  # (hidden, dim)
    attend: TwoLayers
    compare: TwoLayers
    aggregate: TwoLayers
    output: Layer
    oov: Matrix  # (spare vectors, dim)
    intra: IntraAttention | None = None

    @property
    def dim(self) -> int:
        """Dimension of the word vectors."""
        return int(self.project.shape[1])

    @property
    def hidden(self) -> int:
        """Width of every hidden layer."""
        return int(self.project.shape[0])

    def arrays(self) -> dict[str, Matrix]:
        """Return every array by its name in the file."""
        arrays = {"project.weight": self.project, "oov": self.oov}
        layers = {"output": self.output}
        networks = {"attend": self.attend, "compare": self.compare, "aggregate": self.aggregate}
        if self.intra:
            arrays["intra.distance"] = self.intra.distance
            networks["intra"] = self.intra.network
        for name, network in networks.items():
            layers |= {f"{name}.0": network.first, f"{name}.1": network.second}
        for name, layer in layers.items():
            arrays |= {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, ArrayLike]) -> Weights:
        """Return weights in single precision from named arrays, the inverse of `arrays`.

        Raises:
            FormatError: If an array is missing, has the wrong shape or holds NaN or infinity.
        """
        values = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in arrays.items()}

        def layer(name: str) -> Layer:
            return Layer(values[f"{name}.weight"], values[f"{name}.bias"])

        def network(name: str) -> TwoLayers:
            return TwoLayers(layer(f"{name}.0"), layer(f"{name}.1"))

        try:
            weights = cls(
                values["project.weight"],
                network("attend"),
                network("compare"),
                network("aggregate"),
                layer("output"),
                values["oov"],
                IntraAttention(network("intra"), values["intra.distance"]) if "intra.distance" in values else None,
            )
        except KeyError as error:
            raise FormatError(f"the weights lack the array {error.args[0]!r}") from error
        weights.check_shapes()
        return weights

    def check_shapes(self) -> None:
        """Raise `FormatError` if the arrays do not fit together or hold NaN or infinity."""
        if self.project.ndim != 2 or self.oov.ndim != 2 or not len(self.oov):
            raise FormatError("the weights need a matrix project.weight and at least one spare vector in oov")
        arrays = self.arrays()
        for name, shape in _array_shapes(self.dim, self.hidden, len(self.oov), bool(self.intra)).items():
            model_file.check_array(name, arrays[name], shape)

    @classmethod
    def random(cls, dim: int, hidden: int = 200, *, spare: int = 100, seed: int = 0, intra: bool = False) -> Weights:
        """Return weights of an untrained model whose answers differ between pairs; for tests and benchmarks."""
        rng = np.random.default_rng(seed)
        shapes = _array_shapes(dim, hidden, spare, intra)
        arrays = {name: rng.normal(0, np.sqrt(1.5 / shape[-1]), shape) for name, shape in shapes.items()}
        # Attention over a few hundred random coordinates would collapse to one token, and the output to one label.
        for name, factor in (("attend.1.weight", 0.3), ("output.weight", 0.5), ("oov", 2.0)):
            arrays[name] *= factor
        return cls.from_arrays(arrays)


def _array_shapes(dim: int, hidden: int, spare: int, intra: bool = False) -> dict[str, tuple[int, ...]]:
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


class DecomposableWeights:
    """The weights on a backend, matrices transposed so that rows times matrix is one product."""

    def __init__(self, weights: Weights, backend: ArrayBackend) -> None:
        self.backend, self.xp = backend, backend.xp

        def put_layer(layer: Layer) -> tuple[Array, Array]:
            return backend.put(layer.weight.T), backend.put(layer.bias)

        def put_network(network: TwoLayers) -> DeviceLayers:
            return put_layer(network.first), put_layer(network.second)

        self.project = backend.put(weights.project.T)
        self.attend, self.compare = put_network(weights.attend), put_network(weights.compare)
        self.aggregate, self.output = put_network(weights.aggregate), put_layer(weights.output)
        self.hidden = weights.hidden
        self.intra = put_network(weights.intra.network) if weights.intra else None
        self.distance = weights.intra.distance if weights.intra else None


def probabilities(weights: DecomposableWeights, premise: Array, hypothesis: Array) -> Array:
    """Return (pairs, 3) probabilities for token vectors of shape (pairs, length, dim), all of equal length per side.

    This plain forward pass is the reference for the factorised evaluation.
    """
    xp = weights.xp
    p, h = (attend_within(weights, side @ weights.project) for side in (premise, hypothesis))
    scores = apply_layers(weights.attend, p) @ apply_layers(weights.attend, h).swapaxes(1, 2)
    to_h = softmax(scores, xp) @ h
    to_p = softmax(scores.swapaxes(1, 2), xp) @ p
    v_p = apply_layers(weights.compare, xp.concatenate([p, to_h], -1)).sum(axis=1)
    v_h = apply_layers(weights.compare, xp.concatenate([h, to_p], -1)).sum(axis=1)
    weight, bias = weights.output
    return softmax(apply_layers(weights.aggregate, xp.concatenate([v_p, v_h], -1)) @ weight + bias, xp)


def attend_within(weights: DecomposableWeights, tokens: Array) -> Array:
    """Append to each token what it attends to in its own sentence (Parikh et al. 2016, section 3.4), if trained so."""
    if weights.intra is None or weights.distance is None:
        return tokens
    queries = apply_layers(weights.intra, tokens)
    biases = weights.backend.put(weights.distance[distance_indices(tokens.shape[1])])
    attended = softmax(queries @ queries.swapaxes(1, 2) + biases, weights.xp) @ tokens
    return weights.xp.concatenate([tokens, attended], -1)


def distance_indices(length: int) -> Rows:
    """Return the (length, length) indices of the distance biases: of token i for token j, by i - j."""
    positions = np.arange(length)
    return np.asarray(np.clip(positions[:, None] - positions, -FARTHEST, FARTHEST) + FARTHEST, dtype=np.int64)


def apply_layers(layers: DeviceLayers, x: Array) -> Array:
    """Apply two layers with max(0, x) after each."""
    for weight, bias in layers:
        x = (x @ weight + bias).clip(0, None)
    return x


def softmax(x: Array, xp: ModuleType) -> Array:
    """Return the softmax over the last axis."""
    powers = xp.exp(x - xp.amax(x, axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
