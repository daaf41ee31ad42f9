"""`Subspace`: an oriented orthonormal basis with singular values and provenance, and how it is computed from rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenhand.arrays import Floats, Matrix64, Vector64, as_float64
from evenhand.errors import DegenerateError, EvenhandWarning, UsageError
from evenhand.models.vectors import Coverage

ORTHONORMAL_ATOL = 1e-6  # a basis stored as float32 still passes


@dataclass(frozen=True, eq=False, repr=False)
class Subspace:
    """A k-dimensional subspace of R^d, as returned by the estimators of this package.

    `strength` holds singular values of the matrix that the estimator factorises. Its rows are the single difference
    (`pair`, `two_means`), the pair differences (`pairs`, `span`), the words (`words`), all differences between two
    name lists (`names`) or the weight vector (`classifier`), after optional centring and normalising. The values are
    not divided by the number of rows. `explained` is each squared strength divided by the sum of squares of the matrix.

    Every direction points to the first pole: the mean of <b, positive - negative> is positive. Without poles, or if the
    mean is zero, the coordinate of largest magnitude is positive.
    """

    basis: Matrix64
    """(k, d), orthonormal rows, strongest first."""
    strength: Vector64
    """(k,), singular values."""
    explained: Vector64
    """(k,), shares of the sum of squares."""
    spectrum: Vector64 | None = None
    """All singular values, including those of omitted directions; defaults to `strength`."""
    how: str = "given"
    params: Mapping[str, Any] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=lambda: Coverage(()))
    poles: tuple[str, str] = ("", "")
    """Names of the positive and the negative pole; empty if there are none."""

    def __post_init__(self) -> None:
        for name in ("basis", "strength", "explained", "spectrum"):
            value = getattr(self, name)
            array = np.array(self.strength if value is None else value, dtype=np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        _check(self.basis, self.strength, self.explained)

    @classmethod
    def given(cls, directions: Floats | Iterable[Iterable[float]]) -> Subspace:
        """Return the span of existing directions, one per row, orthonormalised by an SVD."""
        return principal(np.atleast_2d(as_float64(np.asarray(directions))), k=None, how="given")

    @property
    def k(self) -> int:
        """Number of directions."""
        return int(self.basis.shape[0])

    @property
    def dim(self) -> int:
        """Dimension of the ambient space."""
        return int(self.basis.shape[1])

    def coordinates(self, x: Floats) -> Matrix64:
        """Return the coordinates along each direction, shape (..., k)."""
        return self._rows(x) @ self.basis.T

    def project(self, x: Floats) -> Matrix64:
        """Project each row onto the subspace."""
        return self.coordinates(x) @ self.basis

    def reject(self, x: Floats) -> Matrix64:
        """Return the component of each row orthogonal to the subspace."""
        return self._rows(x) - self.project(x)

    def soft(self, weights: Floats | Iterable[float] | None = None) -> Matrix64:
        """Return the symmetric matrix I - B'diag(a)B, which scales direction i by 1 - a_i (default: `explained`)."""
        a = np.asarray(self.explained if weights is None else weights, dtype=np.float64)
        if a.shape != (self.k,):
            raise UsageError(f"{self.k} directions need {self.k} weights, got shape {a.shape}")
        return np.asarray(np.eye(self.dim) - (self.basis.T * a) @ self.basis, dtype=np.float64)

    def first(self, k: int) -> Subspace:
        """Return the subspace of the k strongest directions."""
        if not 1 <= k <= self.k:
            raise UsageError(f"k={k}, but the subspace has {self.k} directions")
        return replace(self, basis=self.basis[:k], strength=self.strength[:k], explained=self.explained[:k])

    def towards(self, direction: Floats, *, poles: tuple[str, str]) -> Subspace:
        """Return the subspace with each direction oriented to agree with `direction`, and with these poles."""
        return replace(self, basis=oriented(self.basis, self._rows(direction)), poles=poles)

    def cos(self, other: Subspace | Floats) -> float:
        """Return the signed cosine between the first direction and that of another subspace, or a vector."""
        vector = other.basis[0] if isinstance(other, Subspace) else self._rows(other)
        length = float(np.linalg.norm(self._rows(vector)))
        if length == 0:
            raise UsageError("the cosine with a zero vector is undefined")
        return float(self.basis[0] @ vector / length)

    def principal_cosines(self, other: Subspace) -> Vector64:
        """Return the cosines of the principal angles between the two subspaces, largest first."""
        return np.clip(np.linalg.svd(self.basis @ self._rows(other.basis).T, compute_uv=False), 0.0, 1.0)

    def to_dict(self, *, basis: bool = True) -> dict[str, object]:
        """Return plain data for JSON; `basis=False` omits the directions."""
        record: dict[str, object] = {"how": self.how, "k": self.k, "dim": self.dim, "poles": list(self.poles)}
        arrays = {"strength": self.strength, "explained": self.explained, "spectrum": self.spectrum}
        arrays |= {"basis": self.basis} if basis else {}
        record |= {name: np.asarray(array).tolist() for name, array in arrays.items()}
        return record | {"params": dict(self.params), "coverage": self.coverage.to_dict()}

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Subspace) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shares = ", ".join(f"{share:.2f}" for share in self.explained[:4])
        ends = f", {self.poles[0]} to {self.poles[1]}" if any(self.poles) else ""
        return f"Subspace({self.how}, k={self.k} of {self.dim}, explained {shares}{ends})"

    def _rows(self, x: Floats) -> Matrix64:
        wide = as_float64(x)
        if wide.ndim == 0 or wide.shape[-1] != self.dim:
            raise UsageError(
                f"the subspace has dimension {self.dim}, got an array of shape {wide.shape}",
                hint="estimate the subspace from the same vectors",
            )
        return wide


def _check(basis: Matrix64, strength: Vector64, explained: Vector64) -> None:
    if basis.ndim != 2 or 0 in basis.shape or not np.isfinite(basis).all():
        raise UsageError(f"a basis must be a finite (k, d) matrix with k >= 1, got shape {basis.shape}")
    if not np.allclose(basis @ basis.T, np.eye(len(basis)), atol=ORTHONORMAL_ATOL):
        raise UsageError("the rows of a basis must be orthonormal", hint="use Subspace.given(directions)")
    if strength.shape != explained.shape or strength.shape != (len(basis),):
        raise UsageError(f"{len(basis)} directions need {len(basis)} strengths and shares, got {strength.shape}")


UNDECIDED = 1e-9  # a cosine below this is rounding error and must not decide a sign


def oriented(basis: Matrix64, towards: Vector64 | None = None) -> Matrix64:
    """Orient each row so that <row, towards> > 0, or its largest coordinate > 0 if that is undecided."""
    signs = np.sign(_largest_coordinate(basis))
    if towards is not None:
        agreement = basis @ towards
        decided = np.abs(agreement) > UNDECIDED * float(np.linalg.norm(towards))
        signs = np.where(decided, np.sign(agreement), signs)
    return np.asarray(basis * signs[:, None], dtype=np.float64)


def _largest_coordinate(basis: Matrix64) -> Vector64:
    """Return the first of the coordinates of largest magnitude, with a tolerance for ties."""
    sizes = np.abs(basis)
    first = np.argmax(sizes >= sizes.max(axis=1, keepdims=True) * (1 - UNDECIDED), axis=1)
    return np.asarray(basis[np.arange(len(basis)), first], dtype=np.float64)


# Vectors are float32: singular values that are zero in exact arithmetic come out near 1e-7 of the largest.
RANK_RTOL = 1e-6


def principal(
    rows: Matrix64,
    *,
    k: int | None,
    how: str,
    towards: Vector64 | None = None,
    params: Mapping[str, object] | None = None,
    coverage: Coverage | None = None,
    poles: tuple[str, str] = ("", ""),
    rtol: float = RANK_RTOL,
) -> Subspace:
    """Return the first k right singular directions of the rows, uncentred; all of them if k is None."""
    if not np.isfinite(rows).all():
        raise DegenerateError(f"{how}: the rows contain NaN or infinity")
    _, spectrum, right = np.linalg.svd(rows, full_matrices=False)
    rank = int(np.count_nonzero(spectrum > rtol * spectrum[0])) if spectrum.size else 0
    if rank == 0:
        raise DegenerateError(f"{how}: all rows are zero, so no direction is defined")
    count = rank if k is None else _check_k(k, rank, how)
    _warn_of_ties(spectrum, count, rank, how)
    squares = spectrum**2
    return Subspace(
        basis=oriented(right[:count], towards),
        strength=spectrum[:count],
        explained=squares[:count] / squares.sum(),
        spectrum=spectrum,
        how=how,
        params=dict(params or {}),
        coverage=coverage or Coverage(()),
        poles=poles,
    )


def _check_k(k: int, rank: int, how: str) -> int:
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise UsageError(f"{how}: k must be a positive integer, got {k!r}")
    if k > rank:
        raise UsageError(
            f"{how}: k={k}, but the words found span only {rank} directions",
            hint=f"use k={rank} or less, or more words",
        )
    return int(k)


def _warn_of_ties(spectrum: Vector64, k: int, rank: int, how: str) -> None:
    if k < rank and spectrum[k - 1] - spectrum[k] <= UNDECIDED * spectrum[0]:
        warnings.warn(
            f"{how}: directions {k} and {k + 1} are equally strong, so the choice between them is arbitrary",
            EvenhandWarning,
            stacklevel=3,
        )
