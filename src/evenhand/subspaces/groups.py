"""Directions from groups of words: between two means, along a group's own variation, across a linear classifier."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces.lookup import SAME_WORD, refuse_equal, word_rows
from evenhand.subspaces.principal import principal
from evenhand.subspaces.subspace import Subspace


def two_means(v: Vectors, A: Iterable[str], B: Iterable[str], *, normalise: bool = False) -> Subspace:
    """The direction from the mean of group B to the mean of group A, at unit length.

    Dev & Phillips 2019. Needs no pairing, so that it also works for names. Its two ends are `poles` ("A", "B"), or
    the names of the groups where those carry one.
    """
    rows, coverage, between = _two_groups(v, A, B, normalise=normalise)
    params = {"n": [len(rows[0]), len(rows[1])], "normalise": normalise}
    poles = _group_names(A, B)
    return principal(
        between[None], k=1, how="two-means", towards=between, params=params, coverage=coverage, poles=poles
    )


def words(v: Vectors, words: Iterable[str], k: int = 1, *, centre: bool = True, normalise: bool = False) -> Subspace:
    """The first k principal components of the vectors of one group of words.

    Dev et al. 2019 use it for nationality (k=1 of 8 demonyms) and religion (k=2 of 8 adherents). Centred, these are
    the directions in which the words differ from each other; uncentred, the first one is close to their mean ("being
    a demonym"). The paper does not say which; its authors' PCA code centres.

    The directions have no poles: each has its largest coordinate positive.
    """
    rows, coverage = word_rows(v, words, what="the words", normalise=normalise)
    centred = rows - rows.mean(axis=0) if centre else rows
    if np.abs(centred).max() <= SAME_WORD * np.abs(rows).max():
        found = f"{len(rows)} word{'s' * (len(rows) != 1)} found"
        raise DegenerateError(
            f"words: no variation to find a direction in ({found}: {', '.join(coverage.found[:10])})",
            hint="give at least two different words, or centre=False",
        )
    params = {"centre": centre, "normalise": normalise, "n": len(rows)}
    return principal(centred, k=k, how="words", params=params, coverage=coverage)


def classifier(v: Vectors, A: Iterable[str], B: Iterable[str], *, C: float = 1.0, normalise: bool = False) -> Subspace:
    """The normal of a linear support vector machine that separates group A (positive side) from group B.

    scikit-learn's `SVC(kernel="linear")` with an intercept, hinge loss and penalty C, tolerance 1e-6 so that the order
    of the words does not show. `strength` is the length of the weight vector: the margin is 2 / strength.

    What it does not tell you: with fewer words than dimensions any two groups can be separated, so that finding such
    a direction is no evidence of a difference; compare with the same words under shuffled labels.
    """
    from sklearn.svm import SVC  # costs more to import than everything else here

    rows, coverage, between = _two_groups(v, A, B, normalise=normalise)
    labels = np.repeat([1, 0], [len(rows[0]), len(rows[1])])
    normal = SVC(kernel="linear", C=C, tol=1e-6).fit(np.vstack(rows), labels).coef_
    params = {"C": C, "tol": 1e-6, "n": [len(rows[0]), len(rows[1])], "normalise": normalise}
    return principal(
        np.asarray(normal, dtype=np.float64),
        k=1,
        how="classifier",
        towards=between,
        params=params,
        coverage=coverage,
        poles=_group_names(A, B),
    )


def _two_groups(
    v: Vectors, A: Iterable[str], B: Iterable[str], *, normalise: bool
) -> tuple[tuple[Matrix64, Matrix64], Coverage, Vector64]:
    first, found_first = word_rows(v, A, what="the first group", normalise=normalise)
    second, found_second = word_rows(v, B, what="the second group", normalise=normalise)
    means = first.mean(axis=0), second.mean(axis=0)
    refuse_equal(means[0][None], means[1][None], what="the means of the two groups")
    return (first, second), found_first + found_second, means[0] - means[1]


def _group_names(A: object, B: object) -> tuple[str, str]:
    return (str(getattr(A, "name", "") or "A"), str(getattr(B, "name", "") or "B"))
