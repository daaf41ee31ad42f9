"""The BiLSTM model of Dev et al. 2020 over word vectors. It needs torch, which is imported when a model is made."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from evenhand.arrays import Matrix
from evenhand.errors import FormatError
from evenhand.models.nli import model_file
from evenhand.models.nli.backend import Array, ArrayBackend, backend
from evenhand.models.nli.decomposable import apply_layers
from evenhand.models.nli.over_vectors import NLI_MODELS, ModelOverVectors
from evenhand.models.nli.protocol import LABELS, Grid
from evenhand.models.vectors import Vectors
from evenhand.words.probes import Probe

KIND = "bilstm"
FORWARD, BACKWARD = 0, 1  # the two directions

Arrays = dict[str, Matrix]


@NLI_MODELS.register(KIND)
class BiLSTM(ModelOverVectors):
    """Decomposable attention over the states of a bidirectional LSTM, so that word order matters.

    Let h be the states of both directions. A premise token attends to the hypothesis by softmax(h_p . h_h), without a
    network in between, and vice versa. Compare reads [h; attended], its rows are summed over the tokens, and aggregate
    reads both sums. As in the authors' code, a null token precedes every sentence. Its vector is fixed, not learned:
    all vectors are frozen there, and this one is drawn at random like those of out-of-vocabulary words.

    References:
        Dev, Li, Phillips & Srikumar (2020), On Measuring and Mitigating Biased Inferences of Word Embeddings, AAAI.
    """

    kind: ClassVar[str] = KIND
    needs_torch: ClassVar[bool] = True

    def __init__(
        self,
        arrays: Mapping[str, ArrayLike],
        vectors: Vectors,
        *,
        lower: bool = True,
        normalise: bool = False,
        device: str = "cpu",
        workers: int | None = None,
        name: str = KIND,
    ) -> None:
        self.arrays = check_arrays(arrays)
        super().__init__(
            self.arrays["oov"],
            vectors,
            lower=lower,
            normalise=normalise,
            backend=backend(f"torch:{device}", workers=workers),
            name=name,
        )

    def __repr__(self) -> str:
        return f"BiLSTM({self.name!r}, hidden {self.hidden}, over {self.vectors!r})"

    @property
    def hidden(self) -> int:
        """Width of every hidden layer: the units of both directions together."""
        return 2 * int(self.arrays["lstm.recurrent"].shape[2])

    @cached_property
    def weights_on_device(self) -> BiLSTMWeights:
        """The weights on the device."""
        return BiLSTMWeights(self.arrays, self.backend)

    def _probabilities(self, premise: Array, hypothesis: Array) -> Array:
        return probabilities(self.weights_on_device, premise, hypothesis)

    def grids(self, probe: Probe) -> Iterator[Grid]:
        """Yield the whole probe, encoding every distinct sentence once; see `models.nli.factorised.bilstm`."""
        from evenhand.models.nli.factorised.bilstm import evaluate

        return evaluate(self, probe)

    def file_arrays(self) -> Arrays:
        """Return the weights by their names in the model file."""
        return self.arrays

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], vectors: Vectors, *, device: str = "cpu", workers: int | None = None
    ) -> BiLSTM:
        """Read a model, over the vectors it was trained on or others of the same dimension."""
        file = model_file.read(Path(path), kind=KIND)
        with model_file.errors_name(Path(path)):
            lookup = model_file.lookup_options(file.config)
            name = str(file.config.get("name") or Path(path).stem)
            return cls(file.arrays, vectors, **lookup, device=device, workers=workers, name=name)

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, ArrayLike],
        vectors: Vectors,
        *,
        lower: bool = True,
        normalise: bool = False,
        name: str = KIND,
        device: str = "cpu",
    ) -> BiLSTM:
        """Return a model from arrays named as in its file; `device` is a torch device or backend."""
        device = device.removeprefix("torch").lstrip(":") or "cpu"
        return cls(arrays, vectors, lower=lower, normalise=normalise, device=device, name=name)


class BiLSTMWeights:
    """The weights on a torch backend, matrices transposed so that rows times matrix is one product."""

    def __init__(self, arrays: Arrays, backend: ArrayBackend) -> None:
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


def probabilities(weights: BiLSTMWeights, premise: Array, hypothesis: Array) -> Array:
    """Return (pairs, 3) probabilities for token vectors of shape (pairs, length, dim), all of equal length per side.

    This plain forward pass is the reference for the factorised evaluation.
    """
    p, h = encode(weights, premise), encode(weights, hypothesis)
    scores = p @ h.swapaxes(1, 2)
    to_h, to_p = scores.softmax(2) @ h, scores.softmax(1).swapaxes(1, 2) @ p
    cat = weights.torch.cat
    both = [apply_layers(weights.compare, cat(pair, -1)).sum(1) for pair in ([p, to_h], [h, to_p])]
    weight, bias = weights.output
    return (apply_layers(weights.aggregate, cat(both, -1)) @ weight + bias).softmax(1)


def encode(weights: BiLSTMWeights, vectors: Array) -> Array:
    """Return the (sentences, tokens, hidden) states of both directions, including the null token if there is one."""
    if weights.null is not None:
        vectors = weights.torch.cat([weights.null.expand(len(vectors), 1, -1), vectors], 1)
    forward = list(_states(weights, FORWARD, vectors.unbind(1)))
    backward = list(_states(weights, BACKWARD, vectors.flip(1).unbind(1)))[::-1]
    return weights.torch.cat([weights.torch.stack(forward, 1), weights.torch.stack(backward, 1)], -1)


def _states(weights: BiLSTMWeights, direction: int, vectors: Sequence[Array]) -> Iterator[Array]:
    hidden = cell = vectors[0].new_zeros(len(vectors[0]), weights.half)
    for x in vectors:
        gates = x @ weights.input[direction] + weights.bias[direction] + hidden @ weights.recurrent[direction]
        hidden, cell = lstm_step(gates, cell)
        yield hidden


def lstm_step(gates: Array, cell: Array) -> tuple[Array, Array]:
    """Return the new hidden state and cell from (..., 4 half) gate inputs in torch's order and a (..., half) cell."""
    input_gate, forget, new, output = gates.chunk(4, -1)
    cell = forget.sigmoid() * cell + input_gate.sigmoid() * new.tanh()
    return output.sigmoid() * cell.tanh(), cell


def array_shapes(dim: int, half: int, spare: int) -> dict[str, tuple[int, ...]]:
    """Return every array with its shape, for `half` units in each direction.

    The first axis of the three LSTM arrays is the direction: forward, then backward. The gates are in torch's order:
    input, forget, cell, output. One bias replaces torch's two, which are only ever added.
    """
    hidden = 2 * half
    shapes: dict[str, tuple[int, ...]] = {
        "lstm.input": (2, 4 * half, dim),
        "lstm.recurrent": (2, 4 * half, half),
        "lstm.bias": (2, 4 * half),
    }
    widths = {"compare.0": 2 * hidden, "compare.1": hidden, "aggregate.0": 2 * hidden, "aggregate.1": hidden}
    for name, width in widths.items():
        shapes |= {f"{name}.weight": (hidden, width), f"{name}.bias": (hidden,)}
    shapes |= {"output.weight": (len(LABELS), hidden), "output.bias": (len(LABELS),)}
    return shapes | {"null": (dim,), "oov": (spare, dim)}


def check_arrays(arrays: Mapping[str, ArrayLike]) -> Arrays:
    """Return the arrays in single precision; `null` may be missing, and no token is prepended then.

    Raises:
        FormatError: If an array is missing, has the wrong shape or holds NaN or infinity.
    """
    values = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in arrays.items()}
    for name, axes in (("lstm.recurrent", 3), ("oov", 2)):
        if name not in values:
            raise FormatError(f"the weights lack the array {name!r}")
        if values[name].ndim != axes or not values[name].size:
            raise FormatError(f"the array {name!r} has the shape {values[name].shape}, expected {axes} axes")
    spare, dim = values["oov"].shape
    shapes = array_shapes(dim, values["lstm.recurrent"].shape[2], spare)
    if "null" not in values:
        del shapes["null"]
    for name, shape in shapes.items():
        if name not in values:
            raise FormatError(f"the weights lack the array {name!r}")
        model_file.check_array(name, values[name], shape)
    return {name: values[name] for name in shapes}


def random_arrays(dim: int, hidden: int = 200, *, spare: int = 100, seed: int = 0) -> Arrays:
    """Return arrays of an untrained model whose answers differ between pairs; for tests and benchmarks."""
    rng = np.random.default_rng(seed)
    shapes = array_shapes(dim, hidden // 2, spare)
    arrays = {name: rng.normal(0, np.sqrt(1.5 / shape[-1]), shape) for name, shape in shapes.items()}
    # Large enough that a word changes the states of the words after it, small enough that gates stay open.
    for name, factor in (("lstm.recurrent", 2.0), ("compare.0.weight", 2.0), ("compare.1.weight", 2.0), ("oov", 2.0)):
        arrays[name] *= factor
    return check_arrays(arrays)
