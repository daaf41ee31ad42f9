"""A single tanh layer: the encoder of gender-preserving debiasing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.mitigations.maps.backend import Array, Backend
from evenhand.mitigations.maps.vectormap import State, VectorMap, Words, frozen, same_length


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
