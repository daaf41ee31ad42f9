"""A map that leaves very long vectors alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from evenhand.errors import UsageError
from evenhand.mitigations.maps.vectormap import Array, Backend, State, VectorMap, Words


@dataclass(frozen=True, eq=False, repr=False)
class ExceptLongVectors(VectorMap):
    """A map for all vectors up to a length; longer ones stay unchanged.

    Many language models keep the first token of a text, and a few others, at a vector a hundred times longer than the
    rest (massive activations: Sun et al. 2024). Its direction carries no meaning of the text, and attention relies on
    it: a projection that removes a small part of it does more harm than the removal everywhere else.
    """

    kind: ClassVar[str] = "except-long-vectors"

    map: VectorMap
    limit: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.limit) and self.limit > 0):
            raise UsageError(f"the limit of a length must be a positive number, got {self.limit}")
        if self.map.in_dim is not None and self.map.out_dim_of(self.map.in_dim) != self.map.in_dim:
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
        """Return that of the inner map, which applies to vectors up to the limit."""
        return self.map.rank_removed

    @property
    def norm_limit(self) -> float:
        """Return the limit."""
        return self.limit

    @property
    def within_limit(self) -> VectorMap:
        """Return the map of vectors up to the limit."""
        return self.map

    def transform(self, x: Array, at: Backend, words: Words | None) -> Array:
        """Apply the inner map and restore long rows."""
        squares = at.xp.einsum("ij,ij->i", x, x)[:, None]
        return at.xp.where(squares > self.limit**2, x, self.map.transform(x, at, words))

    def state(self) -> State:
        """Return the limit and the inner map."""
        return State({}, {"limit": self.limit}, (self.map,))

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the map with this limit and this inner map."""
        return cls(state.children[0], state.config["limit"])
