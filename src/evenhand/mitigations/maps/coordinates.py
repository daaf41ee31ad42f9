"""Two maps without learned numbers: rows scaled to length 1, and coordinates left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import UsageError
from evenhand.mitigations.maps.backend import Backend
from evenhand.mitigations.maps.vectormap import State, VectorMap, Words


@dataclass(frozen=True, eq=False, repr=False)
class RowNormalise(VectorMap):
    """x / |x|; a zero row stays zero."""

    kind: ClassVar[str] = "row-normalise"

    dim: int | None = None
    """Number of coordinates it is meant for; None takes any."""

    @property
    def in_dim(self) -> int | None:
        """As given."""
        return self.dim

    def out_dim_of(self, dim: int | None) -> int | None:
        """As many as it got."""
        return dim if self.dim is None else self.dim

    def transform(self, x: Any, at: Backend, words: Words | None) -> Any:
        """Rows over their lengths."""
        squares = at.xp.einsum("ij,ij->i", x, x)[:, None]
        return x / at.xp.sqrt(at.xp.where(squares > 0, squares, at.xp.ones_like(squares)))

    def state(self) -> State:
        """The dimension."""
        return State({}, {"dim": self.dim})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """From the dimension."""
        return cls(**state.config)


@dataclass(frozen=True, eq=False, repr=False)
class DropCoordinates(VectorMap):
    """The vectors without some coordinates: GN-GloVe's w_a is without the last one (`DropCoordinates([-1], 300)`)."""

    kind: ClassVar[str] = "drop-coordinates"

    indices: Iterable[int]
    """Which; negative ones count from the end."""
    dim: int | None = None
    """Number of coordinates it is meant for; None takes any that is large enough."""

    def __post_init__(self) -> None:
        given = (self.indices,) if isinstance(self.indices, int) else tuple(self.indices)
        object.__setattr__(self, "indices", tuple(sorted({int(index) for index in given})))
        if self.dim is not None:
            self._kept(self.dim)

    @property
    def in_dim(self) -> int | None:
        """As given."""
        return self.dim

    @property
    def out_dim(self) -> int | None:
        """The coordinates that stay."""
        return self.out_dim_of(self.dim)

    def out_dim_of(self, dim: int | None) -> int | None:
        """The coordinates that stay of `dim`."""
        return None if dim is None else len(self._kept(dim))

    @property
    def is_linear(self) -> bool:
        """Always."""
        return True

    @property
    def rank_removed(self) -> int:
        """Number of coordinates left out."""
        return len(tuple(self.indices)) if self.dim is None else self.dim - len(self._kept(self.dim))

    def transform(self, x: Any, at: Backend, words: Words | None) -> Any:
        """The columns that stay."""
        return x[:, self._kept(x.shape[1])]

    def to_matrix(self) -> tuple[Matrix64, Vector64]:
        """(the identity without those columns, 0)."""
        if self.dim is None:
            raise UsageError("the matrix of DropCoordinates depends on the dimension", hint="give it dim=...")
        kept = self._kept(self.dim)
        return np.eye(self.dim)[:, kept], np.zeros(len(kept))

    def _kept(self, dim: int) -> list[int]:
        wrong = [index for index in self.indices if not -dim <= index < dim]
        if wrong:
            raise UsageError(f"there is no coordinate {wrong[0]} in {dim} dimensions")
        dropped = {index % dim for index in self.indices}
        if len(dropped) == dim:
            raise UsageError(f"nothing would be left of {dim} coordinates")
        return [index for index in range(dim) if index not in dropped]

    def state(self) -> State:
        """Indices and dimension."""
        return State({}, {"indices": list(self.indices), "dim": self.dim})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """From indices and dimension."""
        return cls(**state.config)
