"""The weights of a decomposable-attention model, and their file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import FormatError
from evenhand.files import existing, writing
from evenhand.models.nli.probabilities import LABELS

FORMAT = 1
KIND = "decomposable-attention"
METADATA = "evenhand-nli"


class Layer(NamedTuple):
    """x -> weight x + bias."""

    weight: Matrix  # (outputs, inputs), as torch has it
    bias: Matrix


class Network(NamedTuple):
    """Two layers, each followed by max(0, x)."""

    first: Layer
    second: Layer


@dataclass(frozen=True)
class Weights:
    """The parameters of attend, compare and aggregate (Parikh et al. 2016) over frozen vectors.

    `project` has no bias; `oov` holds the vectors that stand in for words the table lacks.
    """

    project: Matrix  # (hidden, dim)
    attend: Network
    compare: Network
    aggregate: Network
    output: Layer
    oov: Matrix  # (spare vectors, dim)

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
        for name in ("attend", "compare", "aggregate"):
            network: Network = getattr(self, name)
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
            )
        except KeyError as error:
            raise FormatError(f"the weights lack the array {error.args[0]!r}") from error
        _refuse_misfit(made)
        return made

    @classmethod
    def random(cls, dim: int, hidden: int = 200, *, spare: int = 100, seed: int = 0) -> Weights:
        """Weights of an untrained model whose answers still differ from pair to pair; for tests and benchmarks."""
        rng = np.random.default_rng(seed)
        shapes = _shapes(dim, hidden, spare)
        scaled = {name: rng.normal(0, np.sqrt(1.5 / shape[-1]), shape) for name, shape in shapes.items()}
        # Attention over a few hundred random coordinates would settle on one token, and the output on one label.
        for name, factor in (("attend.1.weight", 0.3), ("output.weight", 0.5), ("oov", 2.0)):
            scaled[name] *= factor
        return cls.from_arrays(scaled)


def save(weights: Weights, path: Path, *, config: Mapping[str, Any], dtype: str = "float32") -> Path:
    """Write a safetensors file; `config` goes into its metadata."""
    from safetensors.numpy import save as to_bytes

    about = {"format": FORMAT, "kind": KIND, "labels": list(LABELS), "config": dict(config)}
    tensors = {name: np.ascontiguousarray(array, dtype=dtype) for name, array in weights.arrays().items()}
    with writing(path) as out:
        out.write(to_bytes(tensors, metadata={METADATA: json.dumps(about, sort_keys=True)}))
    return path


def load(path: Path) -> tuple[Weights, dict[str, Any]]:
    """Read weights and config back; anything but a whole file of ours is a `FormatError` that names it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(existing(path, what="model file"), framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        about = json.loads(metadata[METADATA])
        if about["format"] != FORMAT or about["kind"] != KIND or about["labels"] != list(LABELS):
            raise FormatError(f"{path}: a {about['kind']!r} of format {about['format']}, expected {KIND!r} of {FORMAT}")
        return Weights.from_arrays(tensors), dict(about["config"])
    except SafetensorError as error:
        raise FormatError(f"{path}: not a whole safetensors file ({error})", hint="fetch or write it again") from error
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise FormatError(f"{path}: {error.message}", hint=error.hint) from error
        raise FormatError(f"{path}: holds tensors but no NLI model of ours", hint="write it with save()") from error


def _shapes(dim: int, hidden: int, spare: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"project.weight": (hidden, dim), "oov": (spare, dim)}
    inputs = {"attend.0": hidden, "compare.0": 2 * hidden, "aggregate.0": 2 * hidden}
    inputs |= {"attend.1": hidden, "compare.1": hidden, "aggregate.1": hidden}
    for name, width in inputs.items():
        shapes |= {f"{name}.weight": (hidden, width), f"{name}.bias": (hidden,)}
    return shapes | {"output.weight": (len(LABELS), hidden), "output.bias": (len(LABELS),)}


def _refuse_misfit(weights: Weights) -> None:
    if weights.project.ndim != 2 or weights.oov.ndim != 2 or not len(weights.oov):
        raise FormatError("the weights need a matrix project.weight and at least one spare vector in oov")
    for name, shape in _shapes(weights.dim, weights.hidden, len(weights.oov)).items():
        found = weights.arrays()[name]
        if found.shape != shape:
            raise FormatError(f"the array {name!r} has the shape {found.shape}, expected {shape}")
        if not np.isfinite(found).all():
            raise FormatError(f"the array {name!r} holds NaN or infinity", hint="the training diverged: train again")
