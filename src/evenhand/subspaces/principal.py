"""The one factorisation behind every estimator: an SVD in double precision, checked for rank, then oriented."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError, EvenhandWarning, UsageError
from evenhand.models.vectors import Coverage
from evenhand.subspaces.subspace import UNDECIDED, Subspace, oriented

# Vectors are float32: a direction that exact arithmetic would make zero comes out near 1e-7 of the strongest one.
RANK_RTOL = 1e-6


def principal(
    rows: Matrix64,
    *,
    k: int | None,
    how: str,
    towards: Vector64 | None = None,
    params: Mapping[str, Any] | None = None,
    coverage: Coverage | None = None,
    poles: tuple[str, str] = ("", ""),
    rtol: float = RANK_RTOL,
) -> Subspace:
    """The k strongest right singular directions of the rows, uncentred; all of them (the span) where k is None."""
    if not np.isfinite(rows).all():
        raise DegenerateError(f"{how}: the rows hold NaN or infinity")
    _, spectrum, right = np.linalg.svd(rows, full_matrices=False)
    rank = int(np.count_nonzero(spectrum > rtol * spectrum[0])) if spectrum.size else 0
    if rank == 0:
        raise DegenerateError(f"{how}: the rows are all zero, so that no direction is defined")
    kept = rank if k is None else _enough(k, rank, how)
    _warn_of_ties(spectrum, kept, rank, how)
    squares = spectrum**2
    return Subspace(
        basis=oriented(right[:kept], towards),
        strength=spectrum[:kept],
        explained=squares[:kept] / squares.sum(),
        spectrum=spectrum,
        how=how,
        params=dict(params or {}),
        coverage=coverage or Coverage(()),
        poles=poles,
    )


def _enough(k: int, rank: int, how: str) -> int:
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise UsageError(f"{how}: k must be a whole number of at least 1, got {k!r}")
    if k > rank:
        raise UsageError(
            f"{how}: k={k} directions asked for, but the words found span only {rank}",
            hint=f"use k={rank} or less, or more words",
        )
    return int(k)


def _warn_of_ties(spectrum: Vector64, k: int, rank: int, how: str) -> None:
    if k < rank and spectrum[k - 1] - spectrum[k] <= UNDECIDED * spectrum[0]:
        warnings.warn(
            f"{how}: directions {k} and {k + 1} are equally strong, so that which of them is kept is arbitrary",
            EvenhandWarning,
            stacklevel=3,
        )
