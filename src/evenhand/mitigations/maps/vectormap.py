"""`VectorMap`: a fitted change of vectors, and the array library that computes it: numpy, or torch for tensors."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from evenhand.arrays import Floats, Matrix64, Vector64
from evenhand.errors import UsageError
from evenhand.models.vectors import Vectors
from evenhand.subjects.subject import AnySubject

if TYPE_CHECKING:
    import torch

    from evenhand.mitigations.maps.combined import Chain


Tensor: TypeAlias = "torch.Tensor"
Array: TypeAlias = Any  # numpy arrays and tensors share no type


@dataclass(frozen=True)
class Backend:
    """The library that computes a map's formula. Both libraries use the same names for the functions needed."""

    xp: ModuleType
    """The module: numpy or torch."""
    put: Callable[[Array], Array]
    """Convert a constant of the map (float64 numpy) to an array of the input's type and device."""


NUMPY = Backend(np, lambda constant: constant)


def is_tensor(x: object) -> bool:
    """Return whether x is a torch tensor, without importing torch."""
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(x).__mro__)


def torch_like(x: Tensor) -> Backend:
    """Return the backend for a tensor; torch is loaded already, since the tensor exists."""
    torch = sys.modules["torch"]

    def put(constant: Array) -> Tensor:
        array = np.array(constant)  # a copy: torch warns about the map's read-only memory
        dtype = torch.bool if array.dtype == np.bool_ else x.dtype
        return torch.as_tensor(array, dtype=dtype, device=x.device)

    return Backend(torch, put)


def wide_tensor(x: Tensor) -> Tensor:
    """Return the tensor, in single precision if it is half precision: sums over hundreds of coordinates need it."""
    return x if x.element_size() >= 4 else x.float()


RowWords = Sequence[str]


class State(NamedTuple):
    """The content of a map: arrays, plain data for JSON, and the maps inside it."""

    arrays: dict[str, Array]
    config: dict[str, Any]
    children: tuple[VectorMap, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class VectorMap(ABC):
    """A frozen function from vectors to vectors.

    Call it on `Vectors` (returns new ones, with an entry in their history), on a numpy array (one vector or any number
    of rows; keeps the dtype) or on a torch tensor (differentiable; keeps device and dtype). `b @ a` applies a first.
    Two maps are equal if they have the same kind and the same numbers.
    """

    kind: ClassVar[str]
    acts_on: ClassVar[str] = "vectors"

    report: Mapping[str, object] = field(default_factory=dict, kw_only=True)
    """Report of the method that fitted the map: method, params, rank removed, words missing, share of variance kept."""

    @property
    @abstractmethod
    def in_dim(self) -> int | None:
        """Return the number of coordinates it takes; None for any number."""

    @property
    def out_dim(self) -> int | None:
        """Return the number of coordinates of the result; None if that depends on the input."""
        return self.in_dim

    def out_dim_of(self, dim: int | None) -> int | None:
        """Return the number of coordinates of the result for an input of `dim`."""
        return self.out_dim

    @property
    def needs_words(self) -> bool:
        """Return whether it needs the word of each row."""
        return False

    @property
    def is_linear(self) -> bool:
        """Return whether it is x M + b for some matrix M and some b (which need not be zero)."""
        return False

    @property
    def norm_limit(self) -> float | None:
        """Return the length above which vectors stay unchanged; None if there is no such length."""
        return None

    @property
    def within_limit(self) -> VectorMap:
        """Return the map of vectors up to `norm_limit`."""
        return self

    @property
    def rank_removed(self) -> int:
        """Return the number of dimensions it removes entirely."""
        return 0

    @abstractmethod
    def transform(self, x: Array, at: Backend, words: RowWords | None) -> Array:
        """Compute the map on rows (n, in_dim), which are in sufficient precision already."""

    @abstractmethod
    def state(self) -> State:
        """Return the content, for saving, hashing and comparing."""

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the map with this content, whose names are those of the fields unless a subclass says otherwise."""
        return cls(*state.children, **state.arrays, **state.config)

    @overload
    def __call__(self, x: Vectors) -> Vectors: ...
    @overload
    def __call__(self, x: AnySubject) -> AnySubject: ...
    @overload
    def __call__(self, x: Floats, words: RowWords | str | None = None) -> Floats: ...
    @overload
    def __call__(self, x: Array, words: RowWords | str | None = None) -> Array: ...
    def __call__(self, x: Array, words: RowWords | str | None = None) -> Array:
        """Return the mapped vectors, of the same type as the input; `words` names the rows of a bare array."""
        from evenhand.mitigations.maps.application import apply  # imports this module

        return apply(self, x, words)

    def to_matrix(self) -> tuple[Matrix64, Vector64]:
        """Return (M, b) with map(x) = x M + b, for affine maps."""
        why = "it treats words differently" if self.needs_words else "it is not linear"
        raise UsageError(f"{self!r} cannot be written as x M + b: {why}", hint="check is_linear first")

    def __matmul__(self, first: VectorMap) -> Chain:
        from evenhand.mitigations.maps.combined import Chain

        return Chain((first, self)) if isinstance(first, VectorMap) else NotImplemented

    def with_report(self, **entries: object) -> Self:
        """Return the map with these entries added to its report."""
        return replace(self, report={**self.report, **entries})

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its kind, arrays and settings, the same in every process; the report is not included."""
        from evenhand.mitigations.maps.store import digest

        return digest(self)

    def step(self) -> dict[str, object]:
        """Return the entry for the history of vectors that it was applied to."""
        fitted = {key: self.report[key] for key in ("concept", "params") if key in self.report}
        return {"method": self.report.get("method", self.kind), **fitted, "map": self.kind, "sha256": self.digest}

    def write(self, vectors: Vectors, path: str | os.PathLike[str]) -> Path:
        """Map vectors into a .safetensors file block by block; the result is never held in memory."""
        from evenhand.mitigations.maps.application import write

        return write(self, vectors, Path(path))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the map and its report as safetensors; the file is complete or absent."""
        from evenhand.mitigations.maps.store import save

        return save(self, Path(path))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> VectorMap:
        """Load a map of any kind from its file."""
        from evenhand.mitigations.maps.store import load

        return load(Path(path))

    def to_torch(self, dtype: torch.dtype | None = None) -> torch.nn.Module:
        """Return an equivalent `torch.nn.Module` with frozen buffers, for use after an embedding layer."""
        from evenhand.mitigations.maps.application import layer

        return layer(self, dtype)

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, VectorMap) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        dims = "any dimension" if self.in_dim is None else f"{self.in_dim} -> {self.out_dim}"
        made_by = f", by {self.report['method']}" if "method" in self.report else ""
        removed = f", removes {self.rank_removed}" if self.rank_removed else ""
        return f"{type(self).__name__}({dims}{removed}{made_by})"


def frozen(values: ArrayLike, *, ndim: int, what: str) -> Matrix64:
    """Return a read-only float64 copy; raise if it has a wrong number of axes, NaN or infinity."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} must be numbers in a regular array: {error}") from error
    if array.ndim != ndim:
        raise UsageError(f"{what} must have {ndim} axes, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise UsageError(f"{what} contains NaN or infinity")
    array.flags.writeable = False
    return array


def same_length(first: int, second: int, *, what: str) -> None:
    """Raise `UsageError` if two sizes differ."""
    if first != second:
        raise UsageError(f"{what} differ: {first} and {second}")


def steps_of(report: Mapping[str, object]) -> list[dict[str, object]]:
    """Return the reports of the steps of a chain; of a single change, its own."""
    chain = report.get("chain")
    return [dict(step) for step in chain] if isinstance(chain, list) else [dict(report)]


def plain_words(words: Iterable[str], *, what: str) -> tuple[str, ...]:
    """Return the words without repeats, in order; raise if they are a single string."""
    if isinstance(words, str):
        raise UsageError(f"{what} takes a list of words, got the string {words!r}", hint=f"write [{words!r}]")
    return tuple(dict.fromkeys(words))
