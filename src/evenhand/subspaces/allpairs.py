"""The name subspace of Dawkins 2021: principal components of all differences between two lists of names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError
from evenhand.models.vectors import Vectors
from evenhand.subspaces.lookup import SAME_WORD, word_rows
from evenhand.subspaces.principal import principal
from evenhand.subspaces.subspace import Subspace


def names(
    v: Vectors,
    first: Iterable[str],
    second: Iterable[str],
    k: int = 4,
    *,
    centre: bool = True,
    normalise: bool = False,
) -> Subspace:
    """Return the first k principal components of all differences f - m, f in `first` and m in `second`.

    Names match by their own case, see `Vectors.locate`.

    MISP and MIDB (Dawkins 2021) use 100 x 100 names, k=4, and the weights a_i = lambda_i / sum of all lambda, available
    as `explained`. The differences are never formed: their covariance equals Cov(first) + Cov(second), and their
    uncentred second moment adds d d', where d is the difference of the two means.

    `centre=True`, standard PCA and consistent with the numbers of the paper, removes d: the remaining directions are
    those in which names of one group differ from each other (age, origin, frequency). `centre=False` keeps d. Check
    `params["cos_mean_difference"]` before interpreting the result as a gender subspace.
    """
    f, first_coverage = word_rows(v, first, what="the first list of names", normalise=normalise, own_case=True)
    m, second_coverage = word_rows(v, second, what="the second list of names", normalise=normalise, own_case=True)
    between = f.mean(axis=0) - m.mean(axis=0)
    rows = _square_root(f, m, None if centre else between)
    if np.abs(rows).max() <= SAME_WORD * max(np.abs(f).max(), np.abs(m).max()):
        raise DegenerateError("names: all differences are equal, so no direction is defined")
    learned = principal(
        # With this scale, `strength` holds the singular values of the matrix of all differences.
        rows * np.sqrt(len(f) * len(m)),
        k=k,
        how="names",
        towards=between,
        coverage=first_coverage + second_coverage,
        poles=("first", "second"),
    )
    params = {"centre": centre, "normalise": normalise, "n": [len(f), len(m)]}
    return replace(learned, params=params | {"cos_mean_difference": _cosines(learned.basis, between)})


def _square_root(f: Matrix64, m: Matrix64, between: Vector64 | None) -> Matrix64:
    """Return rows R with R'R = Cov(f) + Cov(m) [+ d d'] (divisor n), to avoid squaring before the SVD."""
    parts = [(group - group.mean(axis=0)) / np.sqrt(len(group)) for group in (f, m)]
    return np.vstack([*parts, between[None]] if between is not None else parts)


def _cosines(basis: Matrix64, between: Vector64) -> list[float]:
    length = float(np.linalg.norm(between))
    return [float(dot) / length if length else 0.0 for dot in basis @ between]
