"""Maps of coordinates: projections, affine maps, rotations, encoders, scaling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import ClassVar, Self

import numpy as np

from evenhand.arrays import Floats, Matrix64, Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps.vectormap import Array, Backend, RowWords, State, VectorMap, frozen, same_length
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

    def transform(self, x: Array, at: Backend, words: RowWords | None) -> Array:
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

    def transform(self, x: Array, at: Backend, words: RowWords | None) -> Array:
        """Return x M + b."""
        return x @ at.put(self.matrix) + at.put(self.bias)

    def to_matrix(self) -> tuple[Matrix64, Vector64]:
        """Return (M, b)."""
        return self.matrix, np.asarray(self.bias)

    def state(self) -> State:
        """Return matrix and bias."""
        return State({"matrix": self.matrix, "bias": np.asarray(self.bias)}, {})


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

    def transform(self, x: Array, at: Backend, words: RowWords | None) -> Array:
        """Return x - (x L) R + b."""
        return x - (x @ at.put(self.left)) @ at.put(self.right) + at.put(self.bias)

    def to_matrix(self) -> tuple[Matrix64, Vector64]:
        """Return (I - LR, b)."""
        return np.eye(self.in_dim) - self.left @ self.right, np.asarray(self.bias)

    def state(self) -> State:
        """Return the two factors and the bias."""
        return State({"left": self.left, "right": self.right, "bias": np.asarray(self.bias)}, {})


PARALLEL = 1e-6  # radians; directions closer than this do not span a plane


@dataclass(frozen=True, eq=False, repr=False)
class PlaneRotation(VectorMap):
    """A graded rotation of the plane of two directions that makes them orthogonal (OSCaR, Dev et al. 2020).

    v1 stays, v2 is mapped to e (the unit vector in their plane orthogonal to v1, on the side of v2), every other vector
    of the plane rotates by an angle in between, and the orthogonal complement stays. The map keeps lengths, is
    continuous and odd, and is not linear. With t' the angle from v1 to v2, t = pi/2 - t' and
    psi in [0, pi) the angle from v1 to the line through x, the rotation is t psi/t' for psi <= t', else
    t (pi - psi)/(pi - t'): the four cases of the paper, which differ only in the half of the line that x lies on.

    The public codes swap t and t' (60 degrees become 108) and change the basis twice; this is the form in the paper's
    text, corrected so that v1 -> v1 and v2 -> e.
    """

    kind: ClassVar[str] = "plane-rotation"

    v1: Vector64
    e: Vector64
    angle: float
    """t', the angle between v1 and v2, in radians."""

    def __post_init__(self) -> None:
        v1, e = (frozen(vector, ndim=1, what="a direction of the plane") for vector in (self.v1, self.e))
        same_length(len(v1), len(e), what="dimensions of the two directions")
        if not PARALLEL < self.angle < np.pi - PARALLEL:
            raise DegenerateError(f"the two directions are parallel (angle {self.angle:g}) and do not span a plane")
        plane = np.stack([v1, e])
        if not np.allclose(plane @ plane.T, np.eye(2), atol=ORTHONORMAL_ATOL):
            raise UsageError("v1 and e must be orthonormal", hint="use PlaneRotation.between(v1, v2)")
        for name, value in (("v1", v1), ("e", e), ("angle", float(self.angle))):
            object.__setattr__(self, name, value)

    @classmethod
    def between(cls, v1: Floats, v2: Floats) -> Self:
        """Return the map that keeps the direction v1 and makes v2 orthogonal to it."""
        first, second = (frozen(vector, ndim=1, what="a direction") for vector in (v1, v2))
        same_length(len(first), len(second), what="dimensions of the two directions")
        lengths = np.linalg.norm(first), np.linalg.norm(second)
        if min(lengths) == 0:
            raise DegenerateError("a zero vector has no direction")
        first, second = first / lengths[0], second / lengths[1]
        rest = second - (second @ first) * first
        angle = float(np.arctan2(np.linalg.norm(rest), second @ first))
        return cls(first, rest / max(float(np.linalg.norm(rest)), np.finfo(float).tiny), angle)

    @property
    def in_dim(self) -> int:
        """Return the number of coordinates."""
        return len(self.v1)

    def transform(self, x: Array, at: Backend, words: RowWords | None) -> Array:
        """Rotate the two coordinates in the plane and add the change: O(n d), without a d x d basis."""
        plane = at.xp.stack([at.put(self.v1), at.put(self.e)])
        along, across = x @ plane[0], x @ plane[1]
        rotation = self._angles(along, across, at.xp)
        cosine, sine = at.xp.cos(rotation), at.xp.sin(rotation)
        change = at.xp.stack([(cosine - 1) * along - sine * across, sine * along + (cosine - 1) * across], -1)
        return x + change @ plane

    def _angles(self, along: Array, across: Array, xp: ModuleType) -> Array:
        # At the origin the angle is undefined and torch's gradient of arctan2 is NaN, so another point replaces it.
        defined = xp.where((along == 0) & (across == 0), xp.ones_like(along), along)
        angle = xp.arctan2(across, defined)
        psi = xp.where(angle < 0, angle + np.pi, angle)
        whole = np.pi / 2 - self.angle
        return xp.where(psi <= self.angle, psi / self.angle, (np.pi - psi) / (np.pi - self.angle)) * whole

    def state(self) -> State:
        """Return the two directions and the angle."""
        return State({"v1": self.v1, "e": self.e, "angle": np.array([self.angle])}, {})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the map with these directions and this angle."""
        return cls(state.arrays["v1"], state.arrays["e"], float(state.arrays["angle"][0]))


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

    def transform(self, x: Array, at: Backend, words: RowWords | None) -> Array:
        """Return rows divided by their lengths."""
        squares = at.xp.einsum("ij,ij->i", x, x)[:, None]
        return x / at.xp.sqrt(at.xp.where(squares > 0, squares, at.xp.ones_like(squares)))

    def state(self) -> State:
        """Return the dimension."""
        return State({}, {"dim": self.dim})


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

    def transform(self, x: Array, at: Backend, words: RowWords | None) -> Array:
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

    def transform(self, x: Array, at: Backend, words: RowWords | None) -> Array:
        """Return tanh(x W + b)."""
        return at.xp.tanh(x @ at.put(self.weight) + at.put(self.bias))

    def state(self) -> State:
        """Return weight and bias."""
        return State({"weight": self.weight, "bias": self.bias}, {})
