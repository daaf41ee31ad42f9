"""Two maps without learned numbers: scale rows to unit length, and drop coordinates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import UsageError
from evenhand.mitigations.maps.vectormap import Array, Backend, State, VectorMap, Words, frozen, same_length


@dataclass(frozen=True, eq=False, repr=False)
class RowNormalise(VectorMap):
    """x / |x|; a zero row stays zero."""

    kind: ClassVar[str] = "row-normalise"

    dim: int | None = None
    """Number of coordinates; None for any number."""

    @property
    def in_dim(self) -> int | None:
        """Return the number of coordinates, or None."""
        return self.dim

    def out_dim_of(self, dim: int | None) -> int | None:
        """Return `dim`, or its own number of coordinates."""
        return dim if self.dim is None else self.dim

    def transform(self, x: Array, at: Backend, words: Words | None) -> Array:
        """Return rows divided by their lengths."""
        squares = at.xp.einsum("ij,ij->i", x, x)[:, None]
        return x / at.xp.sqrt(at.xp.where(squares > 0, squares, at.xp.ones_like(squares)))

    def state(self) -> State:
        """Return the dimension."""
        return State({}, {"dim": self.dim})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the map of this dimension."""
        return cls(**state.config)


@dataclass(frozen=True, eq=False, repr=False)
class DropCoordinates(VectorMap):
    """Drop coordinates: GN-GloVe's w_a lacks the last one (`DropCoordinates([-1], 300)`)."""

    kind: ClassVar[str] = "drop-coordinates"

    indices: Iterable[int]
    """Which coordinates; negative indices count from the end."""
    dim: int | None = None
    """Number of coordinates; None for any number that is large enough."""

    def __post_init__(self) -> None:
        indices = (self.indices,) if isinstance(self.indices, int) else self.indices
        object.__setattr__(self, "indices", tuple(sorted({int(index) for index in indices})))
        if self.dim is not None:
            self._remaining(self.dim)

    @property
    def in_dim(self) -> int | None:
        """Return the number of coordinates, or None."""
        return self.dim

    @property
    def out_dim(self) -> int | None:
        """Return the number of remaining coordinates."""
        return self.out_dim_of(self.dim)

    def out_dim_of(self, dim: int | None) -> int | None:
        """Return the number of remaining coordinates of `dim`."""
        return None if dim is None else len(self._remaining(dim))

    @property
    def is_linear(self) -> bool:
        """Return True."""
        return True

    @property
    def rank_removed(self) -> int:
        """Return the number of dropped coordinates."""
        return len(tuple(self.indices)) if self.dim is None else self.dim - len(self._remaining(self.dim))

    def transform(self, x: Array, at: Backend, words: Words | None) -> Array:
        """Return the remaining columns."""
        return x[:, self._remaining(x.shape[1])]

    def to_matrix(self) -> tuple[Matrix64, Vector64]:
        """Return (the identity without the dropped columns, 0)."""
        if self.dim is None:
            raise UsageError("the matrix of DropCoordinates depends on the dimension", hint="set dim")
        remaining = self._remaining(self.dim)
        return np.eye(self.dim)[:, remaining], np.zeros(len(remaining))

    def _remaining(self, dim: int) -> list[int]:
        invalid = [index for index in self.indices if not -dim <= index < dim]
        if invalid:
            raise UsageError(f"there is no coordinate {invalid[0]} in {dim} dimensions")
        dropped = {index % dim for index in self.indices}
        if len(dropped) == dim:
            raise UsageError(f"all {dim} coordinates would be dropped")
        return [index for index in range(dim) if index not in dropped]

    def state(self) -> State:
        """Return indices and dimension."""
        return State({}, {"indices": list(self.indices), "dim": self.dim})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the map with these indices and this dimension."""
        return cls(**state.config)


@dataclass(frozen=True, eq=False, repr=False)
class Encoder(VectorMap):
    """tanh(x W + b), W of shape (in, out): Kaneko & Bollegala 2019. Its output lies in (-1, 1)."""

    kind: ClassVar[str] = "encoder"

    weight: Matrix64
    bias: Vector64

    def __post_init__(self) -> None:
        weight = frozen(self.weight, ndim=2, what="the weight of an encoder")
        bias = frozen(self.bias, ndim=1, what="the bias of an encoder")
        same_length(weight.shape[1], len(bias), what="columns of the weight and bias")
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "bias", bias)

    @property
    def in_dim(self) -> int:
        """Return the number of rows of the weight."""
        return int(self.weight.shape[0])

    @property
    def out_dim(self) -> int:
        """Return the number of columns of the weight."""
        return int(self.weight.shape[1])

    @cached_property
    def rank_removed(self) -> int:
        """Return the number of dimensions less the rank of W; tanh is invertible."""
        return self.in_dim - int(np.linalg.matrix_rank(self.weight))

    def transform(self, x: Array, at: Backend, words: Words | None) -> Array:
        """Return tanh(x W + b)."""
        return at.xp.tanh(x @ at.put(self.weight) + at.put(self.bias))

    def state(self) -> State:
        """Return weight and bias."""
        return State({"weight": self.weight, "bias": self.bias}, {})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the map with this weight and bias."""
        return cls(**state.arrays)
