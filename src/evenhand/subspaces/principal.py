"""SVD in double precision with rank check and orientation, used by all estimators."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError, EvenhandWarning, UsageError
from evenhand.models.vectors import Coverage
from evenhand.subspaces.subspace import UNDECIDED, Subspace, oriented

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
