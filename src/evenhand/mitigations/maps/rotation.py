"""OSCaR's map: rotate one plane by an angle that depends on the direction of the vector in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from evenhand.arrays import Floats, Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps.vectormap import Array, Backend, State, Torch, VectorMap, Words, frozen, same_length
from evenhand.subspaces.subspace import ORTHONORMAL_ATOL

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

    def transform(self, x: Array, at: Backend, words: Words | None) -> Array:
        """Rotate the two coordinates in the plane and add the change: O(n d), without a d x d basis."""
        plane = at.xp.stack([at.put(self.v1), at.put(self.e)])
        along, across = x @ plane[0], x @ plane[1]
        rotation = self._angles(along, across, at.xp)
        cosine, sine = at.xp.cos(rotation), at.xp.sin(rotation)
        change = at.xp.stack([(cosine - 1) * along - sine * across, sine * along + (cosine - 1) * across], -1)
        return x + change @ plane

    def _angles(self, along: Array, across: Array, xp: Torch) -> Array:
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
