"""Directions from groups of words: difference of means, principal components, linear classifier."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError, EvenhandWarning, VocabularyError, counted
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


def group_means(
    v: Vectors, groups: Mapping[str, Iterable[str]], k: int | None = None, *, normalise: bool = False
) -> Subspace:
    """Return the principal directions of the means of any number of groups, centred: what tells the groups apart.

    Every group counts the same, whatever its size, and their order does not matter. For two groups the direction is
    that of `two_means`, without a sign. A group of which no word is in the vocabulary is left out with a warning.

    Args:
        v: the vectors.
        groups: words of each group, by name.
        k: number of directions; all by default, and never more than the number of groups less one.
        normalise: scale the vectors to unit length first.
    """
    found = {name: v.locate(listed)[1] for name, listed in groups.items()}
    missing = [name for name, coverage in found.items() if not coverage.found]
    kept = {name: listed for name, listed in groups.items() if name not in missing}
    if len(kept) < 2:
        raise VocabularyError(
            f"{v.name} has words of {counted(len(kept), 'group')}, and groups are compared",
            hint=f"missing: {', '.join(missing)}",
        )
    if missing:
        warnings.warn(
            f"{v.name} has no word of {', '.join(missing)}: the directions are those between the other groups",
            EvenhandWarning,
            stacklevel=2,
        )
    rows = [word_rows(v, listed, what=f"group {name!r}", normalise=normalise)[0] for name, listed in kept.items()]
    means = np.stack([group.mean(axis=0) for group in rows])
    centred = means - means.mean(axis=0)
    if np.abs(centred).max() <= SAME_WORD * np.abs(means).max():
        raise DegenerateError("group-means: all groups have the same mean", hint="give groups of different words")
    most = min(len(kept) - 1, int(np.linalg.matrix_rank(centred, rtol=SAME_WORD)))
    params = {"normalise": normalise, "n": [len(group) for group in rows], "groups": list(kept), "left_out": missing}
    coverage = sum(found.values(), Coverage(()))
    return principal(
        centred, k=most if k is None else min(k, most), how="group-means", params=params, coverage=coverage
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
