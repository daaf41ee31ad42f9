"""Maps of the form x M + b: soft and hard projections, arbitrary matrices, and low-rank changes of the identity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import UsageError
from evenhand.mitigations.maps.vectormap import Array, Backend, State, VectorMap, Words, frozen, same_length
from evenhand.subspaces.subspace import ORTHONORMAL_ATOL


@dataclass(frozen=True, eq=False, repr=False)
class SoftProjection(VectorMap):
    """x - sum_i a_i <x, b_i> b_i: each direction of an orthonormal basis scaled by (1 - a_i), 0 <= a_i <= 1.

    With all weights 1 (the default) it is the orthogonal projection that removes the subspace. Linear and span
    projection, the neutralising step of hard debiasing, INLP, R-LACE, MISP and HSR have this form.
    """

    kind: ClassVar[str] = "soft-projection"

    basis: Matrix64
    weights: Vector64 | None = None

    def __post_init__(self) -> None:
        basis = frozen(self.basis, ndim=2, what="the basis of a projection")
        if not np.allclose(basis @ basis.T, np.eye(len(basis)), atol=ORTHONORMAL_ATOL):
            raise UsageError(
                "the rows of a projection's basis must be orthonormal, otherwise directions are removed twice",
                hint="use Subspace.given(directions).basis",
            )
        weights = frozen(np.ones(len(basis)) if self.weights is None else self.weights, ndim=1, what="the weights")
        same_length(len(basis), len(weights), what="directions and weights")
        if weights.size and not (weights.min() >= 0 and weights.max() <= 1):
            raise UsageError(f"weights must be between 0 (keep) and 1 (remove), got {weights.tolist()}")
        object.__setattr__(self, "basis", basis)
        object.__setattr__(self, "weights", weights)

    @property
    def in_dim(self) -> int:
        """Return the number of coordinates."""
        return int(self.basis.shape[1])

    @property
    def is_linear(self) -> bool:
        """Return True."""
        return True

    @property
    def rank_removed(self) -> int:
        """Return the number of directions of weight 1; the others are scaled, which is invertible."""
        return int(np.count_nonzero(np.asarray(self.weights) == 1))

    def transform(self, x: Array, at: Backend, words: Words | None) -> Array:
        """Return x - (x B' * a) B."""
        if 2 * len(self.basis) > self.in_dim and at.xp is np:
            return x @ self._matrix  # with many directions one product with a d x d matrix is cheaper than two
        basis = at.put(self.basis)
        return x - ((x @ basis.T) * at.put(self.weights)) @ basis

    def to_matrix(self) -> tuple[Matrix64, Vector64]:
        """Return (I - B'diag(a)B, 0)."""
        return self._matrix.copy(), np.zeros(self.in_dim)

    @cached_property
    def _matrix(self) -> Matrix64:
        removed = (self.basis.T * np.asarray(self.weights)) @ self.basis
        return np.asarray(np.eye(self.in_dim) - removed, dtype=np.float64)

    def state(self) -> State:
        """Return basis and weights."""
        return State({"basis": self.basis, "weights": np.asarray(self.weights)}, {})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the map with this basis and these weights."""
        return cls(**state.arrays)


@dataclass(frozen=True, eq=False, repr=False)
class Affine(VectorMap):
    """x M + b, M of shape (in, out)."""

    kind: ClassVar[str] = "affine"

    matrix: Matrix64
    bias: Vector64 | None = None

    def __post_init__(self) -> None:
        matrix = frozen(self.matrix, ndim=2, what="the matrix of an affine map")
        bias = frozen(np.zeros(matrix.shape[1]) if self.bias is None else self.bias, ndim=1, what="its bias")
        same_length(matrix.shape[1], len(bias), what="columns of the matrix and bias")
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "bias", bias)

    @property
    def in_dim(self) -> int:
        """Return the number of rows of the matrix."""
        return int(self.matrix.shape[0])

    @property
    def out_dim(self) -> int:
        """Return the number of columns of the matrix."""
        return int(self.matrix.shape[1])

    @property
    def is_linear(self) -> bool:
        """Return True."""
        return True

    @cached_property
    def rank_removed(self) -> int:
        """Return the number of dimensions less the rank of M."""
        return self.in_dim - int(np.linalg.matrix_rank(self.matrix))

    def transform(self, x: Array, at: Backend, words: Words | None) -> Array:
        """Return x M + b."""
        return x @ at.put(self.matrix) + at.put(self.bias)

    def to_matrix(self) -> tuple[Matrix64, Vector64]:
        """Return (M, b)."""
        return self.matrix, np.asarray(self.bias)

    def state(self) -> State:
        """Return matrix and bias."""
        return State({"matrix": self.matrix, "bias": np.asarray(self.bias)}, {})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the map with this matrix and bias."""
        return cls(**state.arrays)


@dataclass(frozen=True, eq=False, repr=False)
class LowRank(VectorMap):
    """x - (x L) R + b, with L of shape (d, r) and R of shape (r, d): an oblique projection such as LEACE's.

    It stores two thin matrices instead of d x d; for LEACE r is the number of classes less one.
    """

    kind: ClassVar[str] = "low-rank"

    left: Matrix64
    right: Matrix64
    bias: Vector64 | None = None

    def __post_init__(self) -> None:
        left = frozen(self.left, ndim=2, what="the left factor")
        right = frozen(self.right, ndim=2, what="the right factor")
        same_length(left.shape[1], right.shape[0], what="columns of the left factor and rows of the right one")
        same_length(left.shape[0], right.shape[1], what="dimensions of the two factors")
        bias = frozen(np.zeros(len(left)) if self.bias is None else self.bias, ndim=1, what="the bias")
        same_length(len(left), len(bias), what="dimensions and bias")
        for name, array in (("left", left), ("right", right), ("bias", bias)):
            object.__setattr__(self, name, array)

    @property
    def in_dim(self) -> int:
        """Return the number of coordinates."""
        return int(self.left.shape[0])

    @property
    def is_linear(self) -> bool:
        """Return True."""
        return True

    @cached_property
    def rank_removed(self) -> int:
        """Return the nullity of I - LR, which equals that of the small matrix I - RL (Sylvester)."""
        small = np.eye(len(self.right)) - self.right @ self.left
        scale = max(1.0, float(np.linalg.norm(self.left, 2) * np.linalg.norm(self.right, 2))) if small.size else 1.0
        nonzero = np.linalg.svd(small, compute_uv=False) > ORTHONORMAL_ATOL * scale
        return int(len(small) - np.count_nonzero(nonzero))

    def transform(self, x: Array, at: Backend, words: Words | None) -> Array:
        """Return x - (x L) R + b."""
        return x - (x @ at.put(self.left)) @ at.put(self.right) + at.put(self.bias)

    def to_matrix(self) -> tuple[Matrix64, Vector64]:
        """Return (I - LR, b)."""
        return np.eye(self.in_dim) - self.left @ self.right, np.asarray(self.bias)

    def state(self) -> State:
        """Return the two factors and the bias."""
        return State({"left": self.left, "right": self.right, "bias": np.asarray(self.bias)}, {})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the map with these factors and this bias."""
        return cls(**state.arrays)
