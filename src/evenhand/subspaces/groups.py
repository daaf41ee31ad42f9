"""Directions from groups of words: difference of means, principal components, linear classifier."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError, counted
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces.lookup import SAME_WORD, refuse_equal, word_rows
from evenhand.subspaces.principal import principal
from evenhand.subspaces.subspace import Subspace


def two_means(v: Vectors, A: Iterable[str], B: Iterable[str], *, normalise: bool = False) -> Subspace:
    """Return the unit direction from the mean of group B to the mean of group A (Dev & Phillips 2019).

    It requires no pairs, so it also works for names. The poles are the names of the groups, or "A" and "B".
    """
    rows, coverage, between = _two_groups(v, A, B, normalise=normalise)
    params = {"n": [len(rows[0]), len(rows[1])], "normalise": normalise}
    poles = _group_names(A, B)
    return principal(
        between[None], k=1, how="two-means", towards=between, params=params, coverage=coverage, poles=poles
    )


def words(v: Vectors, words: Iterable[str], k: int = 1, *, centre: bool = True, normalise: bool = False) -> Subspace:
    """Return the first k principal components of the vectors of one group of words.

    Dev et al. 2019 use it for nationality (k=1 of 8 demonyms) and religion (k=2 of 8 adherents). Centred, these are
    the directions in which the words differ from each other; uncentred, the first one is close to their mean ("being
    a demonym"). The paper does not specify it; the authors' PCA code centres.

    The directions have no poles; the largest coordinate of each is positive.
    """
    rows, coverage = word_rows(v, words, what="the words", normalise=normalise)
    centred = rows - rows.mean(axis=0) if centre else rows
    if np.abs(centred).max() <= SAME_WORD * np.abs(rows).max():
        raise DegenerateError(
            f"words: no variation ({counted(len(rows), 'word')} found: {', '.join(coverage.found[:10])})",
            hint="give at least two different words, or centre=False",
        )
    params = {"centre": centre, "normalise": normalise, "n": len(rows)}
    return principal(centred, k=k, how="words", params=params, coverage=coverage)


def classifier(v: Vectors, A: Iterable[str], B: Iterable[str], *, C: float = 1.0, normalise: bool = False) -> Subspace:
    """Return the normal of a linear support vector machine that separates group A (positive side) from group B.

    Uses scikit-learn's `SVC(kernel="linear")` with an intercept, hinge loss, penalty C and a tolerance of 1e-6, so that
    the order of the words has no effect. `strength` is the norm of the weight vector: the margin is 2 / strength.

    Limitation: with fewer words than dimensions any two groups can be separated, so the existence of such a direction
    is not evidence of a difference; compare with shuffled labels.
    """
    from sklearn.svm import SVC  # slow to import

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
    first, first_coverage = word_rows(v, A, what="the first group", normalise=normalise)
    second, second_coverage = word_rows(v, B, what="the second group", normalise=normalise)
    means = first.mean(axis=0), second.mean(axis=0)
    refuse_equal(means[0][None], means[1][None], what="the means of the two groups")
    return (first, second), first_coverage + second_coverage, means[0] - means[1]


def _group_names(A: object, B: object) -> tuple[str, str]:
    return (str(getattr(A, "name", "") or "A"), str(getattr(B, "name", "") or "B"))
