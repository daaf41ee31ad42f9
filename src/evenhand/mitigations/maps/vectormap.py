"""`VectorMap`: what every fitted mitigation is, and what all maps have in common."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, overload

import numpy as np

from evenhand.arrays import Floats, Matrix64, Vector64
from evenhand.errors import UsageError
from evenhand.mitigations.maps.backend import Backend
from evenhand.models.vectors import Vectors

if TYPE_CHECKING:
    from evenhand.mitigations.maps.chain import Chain


Words = Sequence[str]


class State(NamedTuple):
    """Everything a map consists of: arrays, plain data for JSON, and the maps inside it."""

    arrays: dict[str, Any]
    config: dict[str, Any]
    children: tuple[VectorMap, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class VectorMap(ABC):
    """A frozen function from vectors to vectors.

    Call it on `Vectors` (a new one comes back, with an entry in its history), on a numpy array (one vector or any
    number of rows; the dtype stays) or on a torch tensor (differentiable; device and dtype stay). `b @ a` applies a
    first. Two maps are equal when they are of the same kind and hold the same numbers.
    """

    kind: ClassVar[str]

    report: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """What the method that made this map did: method, params, rank removed, words missing, share of variance kept."""

    @property
    @abstractmethod
    def in_dim(self) -> int | None:
        """Number of coordinates it takes; None where any number will do."""

    @property
    def out_dim(self) -> int | None:
        """Number of coordinates it gives; None where that depends on what it is given."""
        return self.in_dim

    def out_dim_of(self, dim: int | None) -> int | None:
        """Number of coordinates it makes of `dim`."""
        return self.out_dim

    @property
    def needs_words(self) -> bool:
        """Whether it must know which word each row is."""
        return False

    @property
    def is_linear(self) -> bool:
        """Whether it is x M + b for some matrix M and some b (which need not be zero)."""
        return False

    @property
    def rank_removed(self) -> int:
        """How many dimensions it flattens entirely."""
        return 0

    @abstractmethod
    def transform(self, x: Any, at: Backend, words: Words | None) -> Any:
        """The formula itself, on rows (n, in_dim) that the backend already holds in enough precision."""

    @abstractmethod
    def state(self) -> State:
        """What it consists of, for saving, hashing and comparing."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: State) -> Self:
        """The map that consists of this."""

    @overload
    def __call__(self, x: Vectors) -> Vectors: ...
    @overload
    def __call__(self, x: Floats, words: Words | str | None = None) -> Floats: ...
    @overload
    def __call__(self, x: Any, words: Words | str | None = None) -> Any: ...
    def __call__(self, x: Any, words: Words | str | None = None) -> Any:
        """The mapped vectors, of the kind that was given; `words` names the rows of a bare array."""
        from evenhand.mitigations.maps.application import apply  # it applies maps, so it imports this module

        return apply(self, x, words)

    def to_matrix(self) -> tuple[Matrix64, Vector64]:
        """(M, b) with map(x) = x M + b, for the maps that are affine."""
        why = "it treats words differently" if self.needs_words else "it is not linear"
        raise UsageError(f"{self!r} cannot be written as x M + b: {why}", hint="look at is_linear first")

    def __matmul__(self, first: VectorMap) -> Chain:
        from evenhand.mitigations.maps.chain import Chain

        return Chain((first, self)) if isinstance(first, VectorMap) else NotImplemented

    def with_report(self, **entries: Any) -> Self:
        """The same map with these entries added to its report."""
        return replace(self, report={**self.report, **entries})

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that decides what it does; the report does not count."""
        from evenhand.mitigations.maps.store import digest

        return digest(self)

    def step(self) -> dict[str, Any]:
        """The entry that it leaves in the history of the vectors it was applied to."""
        made = {key: self.report[key] for key in ("concept", "params") if key in self.report}
        return {"method": self.report.get("method", self.kind), **made, "map": self.kind, "sha256": self.digest}

    def write(self, vectors: Vectors, path: str | os.PathLike[str]) -> Path:
        """Map vectors straight into a .safetensors file, block by block, so that the result never is in memory."""
        from evenhand.mitigations.maps.application import write

        return write(self, vectors, Path(path))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as safetensors with its report; the file appears whole or not at all."""
        from evenhand.mitigations.maps.store import save

        return save(self, Path(path))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> VectorMap:
        """Read a map of any kind back from its file."""
        from evenhand.mitigations.maps.store import load

        return load(Path(path))

    def to_torch(self, dtype: Any = None) -> Any:
        """A `torch.nn.Module` that does the same, its numbers frozen buffers: a layer to put behind an embedding."""
        from evenhand.mitigations.maps.layer import layer

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


def frozen(values: Any, *, ndim: int, what: str) -> Matrix64:
    """A read-only float64 copy; a wrong number of axes, NaN or infinity is an error that names the array."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} must be numbers in a regular array: {error}") from error
    if array.ndim != ndim:
        raise UsageError(f"{what} must have {ndim} axes, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise UsageError(f"{what} holds NaN or infinity")
    array.flags.writeable = False
    return array


def same_length(first: int, second: int, *, what: str) -> None:
    """An error when two sizes that must agree do not."""
    if first != second:
        raise UsageError(f"{what} do not fit: {first} against {second}")


def plain_words(words: Iterable[str], *, what: str) -> tuple[str, ...]:
    """The words without repeats, in their order; one string in place of a list is an error."""
    if isinstance(words, str):
        raise UsageError(f"{what} takes a list of words, got the string {words!r}", hint=f"write [{words!r}]")
    return tuple(dict.fromkeys(words))
