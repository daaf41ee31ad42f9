"""Which way a direction points: a singular vector's own sign is an accident of the routine that found it."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Matrix64, Vector64

UNDECIDED = 1e-9  # a cosine below this is rounding, so that it must not choose a sign


def oriented(basis: Matrix64, towards: Vector64 | None = None) -> Matrix64:
    """Each row with the sign that gives <row, towards> > 0; where that is undecided, its largest coordinate is > 0."""
    signs = np.sign(_largest_coordinate(basis))
    if towards is not None:
        agreement = basis @ towards
        decided = np.abs(agreement) > UNDECIDED * float(np.linalg.norm(towards))
        signs = np.where(decided, np.sign(agreement), signs)
    return np.asarray(basis * signs[:, None], dtype=np.float64)


def _largest_coordinate(basis: Matrix64) -> Vector64:
    """The first coordinate among those of largest size: equal sizes must not be decided by their last bit."""
    sizes = np.abs(basis)
    first = np.argmax(sizes >= sizes.max(axis=1, keepdims=True) * (1 - UNDECIDED), axis=1)
    return np.asarray(basis[np.arange(len(basis)), first], dtype=np.float64)
