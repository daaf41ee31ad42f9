"""Maps applied one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import UsageError
from evenhand.mitigations.maps.coordinates import RowNormalise
from evenhand.mitigations.maps.vectormap import Array, Backend, State, VectorMap, Words


@dataclass(frozen=True, eq=False, repr=False)
class Chain(VectorMap):
    """Several maps, applied in order; `b @ a` is `Chain((a, b))`. Nested chains are flattened."""

    kind: ClassVar[str] = "chain"

    maps: Iterable[VectorMap]

    def __post_init__(self) -> None:
        maps = tuple(self.maps)
        flat = tuple(part for vm in maps for part in (vm.maps if isinstance(vm, Chain) else (vm,)))
        if not flat:
            raise UsageError("a chain needs at least one map")
        object.__setattr__(self, "maps", flat)
        _check(flat)
        if not self.report:
            object.__setattr__(self, "report", _joint_report(maps))

    @property
    def parts(self) -> tuple[VectorMap, ...]:
        """Return the maps, first to last."""
        return tuple(self.maps)

    @property
    def in_dim(self) -> int | None:
        """Return what the first map takes; a scaling of any dimension is skipped."""
        for part in self.parts:
            if part.in_dim is not None or not isinstance(part, RowNormalise):
                return part.in_dim
        return None

    @property
    def out_dim(self) -> int | None:
        """Return the number of coordinates of the last map's result."""
        return self.out_dim_of(self.in_dim)

    def out_dim_of(self, dim: int | None) -> int | None:
        """Return the number of coordinates of the result for an input of `dim`."""
        for part in self.parts:
            dim = part.out_dim_of(dim)
        return dim

    @property
    def needs_words(self) -> bool:
        """Return whether any of the maps does."""
        return any(part.needs_words for part in self.parts)

    @property
    def is_linear(self) -> bool:
        """Return whether all maps are."""
        return all(part.is_linear for part in self.parts)

    @cached_property
    def rank_removed(self) -> int:
        """Return the exact rank for linear maps, otherwise a lower bound: the largest of the maps' ranks."""
        if self.is_linear and self.in_dim is not None:
            return self.in_dim - int(np.linalg.matrix_rank(self.to_matrix()[0]))
        return max(part.rank_removed for part in self.parts)

    def transform(self, x: Array, at: Backend, words: Words | None) -> Array:
        """Apply the maps in order."""
        for part in self.parts:
            x = part.transform(x, at, words)
        return x

    def to_matrix(self) -> tuple[Matrix64, Vector64]:
        """Return the product of the matrices, and the resulting bias."""
        if not self.is_linear:
            return super().to_matrix()
        matrix, bias = self.parts[0].to_matrix()
        for part in self.parts[1:]:
            next_matrix, next_bias = part.to_matrix()
            matrix, bias = matrix @ next_matrix, bias @ next_matrix + next_bias
        return matrix, bias

    def state(self) -> State:
        """Return the maps."""
        return State({}, {}, self.parts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the chain of the maps."""
        return cls(state.children)


def _check(parts: tuple[VectorMap, ...]) -> None:
    dim = parts[0].out_dim_of(parts[0].in_dim)
    for before, part in pairwise(parts):
        if dim is not None and part.in_dim is not None and part.in_dim != dim:
            raise UsageError(
                f"{part!r} takes {part.in_dim} coordinates, but {before!r} before it gives {dim}",
                hint="b @ a applies a first",
            )
        dim = part.out_dim_of(part.in_dim if dim is None else dim)


def _joint_report(maps: tuple[VectorMap, ...]) -> dict[str, object]:
    """Return one report per method; a method of several maps has its own, and its parts have none."""
    reports = [step for vm in maps for step in vm.report.get("chain", [dict(vm.report)])]
    if not any(reports):
        return {}
    methods = [vm.report.get("method", vm.kind) for vm in maps]
    return {"method": ".".join(methods), "chain": reports}
