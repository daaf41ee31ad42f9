"""Maps made of others: chains, and maps that leave some words or long vectors as they are; and tables of words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np

from evenhand.arrays import Floats, Matrix64, Vector64
from evenhand.errors import UsageError
from evenhand.mitigations.maps.coordinates import RowNormalise
from evenhand.mitigations.maps.vectormap import (
    Array,
    Backend,
    RowWords,
    State,
    VectorMap,
    frozen,
    plain_words,
    same_length,
    steps_of,
)


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

    def transform(self, x: Array, at: Backend, words: RowWords | None) -> Array:
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
    reports = [step for vm in maps for step in steps_of(vm.report)]
    if not any(reports):
        return {}
    methods = [str(vm.report.get("method", vm.kind)) for vm in maps]
    return {"method": ".".join(methods), "chain": reports}


ANY_DIMENSION = 1_000_000  # tests whether a map that takes any dimension keeps it


@dataclass(frozen=True, eq=False, repr=False)
class WordTable(VectorMap):
    """New vectors for the words listed; every other word stays unchanged.

    Words match by exact spelling: a method that fits a table uses the spellings of the vocabulary.
    """

    kind: ClassVar[str] = "word-table"

    table: Mapping[str, Floats]

    def __post_init__(self) -> None:
        if not self.table:
            raise UsageError("a word table needs at least one word")
        rows = list(self.table.values())
        matrix = frozen(rows, ndim=2, what="the vectors of a word table")
        object.__setattr__(self, "table", dict(zip(self.table, matrix, strict=True)))

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.table)}

    @cached_property
    def _matrix(self) -> Matrix64:
        return frozen(list(self.table.values()), ndim=2, what="the vectors of a word table")

    @property
    def in_dim(self) -> int:
        """Return the number of coordinates."""
        return int(self._matrix.shape[1])

    @property
    def needs_words(self) -> bool:
        """Return True."""
        return True

    def transform(self, x: Array, at: Backend, words: RowWords | None) -> Array:
        """Return the rows with those of listed words replaced."""
        row_of = self._row_of
        matches = [(row, row_of[word]) for row, word in enumerate(words or ()) if word in row_of]
        if not matches:
            return x
        out = x.copy() if at.xp is np else x.clone()
        rows, entries = (list(side) for side in zip(*matches, strict=True))
        out[rows] = at.put(self._matrix[entries])
        return out

    def state(self) -> State:
        """Return words and vectors."""
        return State({"vectors": self._matrix}, {"words": list(self.table)})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the table of these words and vectors."""
        words, vectors = state.config["words"], state.arrays["vectors"]
        same_length(len(words), len(vectors), what="words and vectors of the table")
        return cls(dict(zip(words, vectors, strict=True)))


@dataclass(frozen=True, eq=False, repr=False)
class _PartialMap(VectorMap):
    """A map that leaves some vectors unchanged."""

    map: VectorMap

    def __post_init__(self) -> None:
        dim = self.map.in_dim or ANY_DIMENSION
        if self.map.out_dim_of(dim) != dim:
            raise UsageError(f"{self.map!r} changes the dimension, so no vector can stay unchanged")

    @property
    def in_dim(self) -> int | None:
        """Return that of the inner map."""
        return self.map.in_dim

    def out_dim_of(self, dim: int | None) -> int | None:
        """Return `dim`."""
        return dim

    @property
    def needs_words(self) -> bool:
        """Return whether the inner map does."""
        return self.map.needs_words

    @property
    def rank_removed(self) -> int:
        """Return that of the inner map, which applies to all vectors that are not exempt."""
        return self.map.rank_removed


@dataclass(frozen=True, eq=False, repr=False)
class ExceptWords(_PartialMap):
    """A map for all words except some, which stay unchanged. Words match by exact spelling."""

    kind: ClassVar[str] = "except-words"

    words: Iterable[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "words", plain_words(self.words, what="ExceptWords"))

    @cached_property
    def _exempt(self) -> frozenset[str]:
        return frozenset(self.words)

    @property
    def needs_words(self) -> bool:
        """Return True."""
        return True

    def transform(self, x: Array, at: Backend, words: RowWords | None) -> Array:
        """Apply the inner map and restore the exempt rows."""
        mapped = self.map.transform(x, at, words)
        rows = [row for row, word in enumerate(words or ()) if word in self._exempt]
        if not rows:
            return mapped
        exempt = np.zeros(len(x), dtype=np.bool_)
        exempt[rows] = True
        return at.xp.where(at.put(exempt)[:, None], x, mapped)

    def state(self) -> State:
        """Return the words and the inner map."""
        return State({}, {"words": list(self.words)}, (self.map,))


@dataclass(frozen=True, eq=False, repr=False)
class ExceptLongVectors(_PartialMap):
    """A map for all vectors up to a length; longer ones stay unchanged.

    Many language models keep the first token of a text, and a few others, at a vector a hundred times longer than the
    rest (massive activations: Sun et al. 2024). Its direction carries no meaning of the text, and attention relies on
    it: a projection that removes a small part of it does more harm than the removal everywhere else.
    """

    kind: ClassVar[str] = "except-long-vectors"

    limit: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.isfinite(self.limit) and self.limit > 0):
            raise UsageError(f"the limit of a length must be a positive number, got {self.limit}")

    @property
    def norm_limit(self) -> float:
        """Return the limit."""
        return self.limit

    @property
    def within_limit(self) -> VectorMap:
        """Return the map of vectors up to the limit."""
        return self.map

    def transform(self, x: Array, at: Backend, words: RowWords | None) -> Array:
        """Apply the inner map and restore long rows."""
        squares = at.xp.einsum("ij,ij->i", x, x)[:, None]
        return at.xp.where(squares > self.limit**2, x, self.map.transform(x, at, words))

    def state(self) -> State:
        """Return the limit and the inner map."""
        return State({}, {"limit": self.limit}, (self.map,))
