"""Directions from groups of words: means, principal components, a classifier; grammatical apart from social gender.

Zhou et al. (2019) separate the grammatical from the social gender of languages whose nouns have one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError, EvenhandWarning, UsageError, VocabularyError, counted
from evenhand.language import language as rules_of
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces.differences import SAME_WORD, refuse_equal, word_rows
from evenhand.subspaces.subspace import Subspace, principal
from evenhand.words import WordSet, ids, wordset


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
    coverages = {name: v.locate(listed)[1] for name, listed in groups.items()}
    missing = [name for name, coverage in coverages.items() if not coverage.found]
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
    most = int(np.linalg.matrix_rank(centred, rtol=SAME_WORD))
    params = {"normalise": normalise, "n": [len(group) for group in rows], "groups": list(kept), "left_out": missing}
    coverage = sum(coverages.values(), Coverage(()))
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


Discriminant = Literal["lda", "means"]
GENDERS = ("feminine", "masculine")


def nouns(language: str) -> tuple[WordSet, WordSet]:
    """Return the shipped inanimate nouns of a language: feminine, masculine.

    Raises:
        UsageError: If the language has no grammatical gender, or no list.
    """
    rules = rules_of(language)
    names = [f"nouns-{gender}-{rules.code}" for gender in GENDERS]
    if not set(names) <= set(ids("wordset")):
        listed = sorted(name.rpartition("-")[2] for name in ids("wordset") if name.startswith("nouns-feminine-"))
        raise UsageError(
            f"there are no inanimate nouns with their gender for {rules.name}",
            hint=f"give feminine and masculine nouns; there are lists for {', '.join(listed)}",
        )
    return wordset(names[0]), wordset(names[1])


def grammatical(
    v: Vectors,
    feminine: Iterable[str],
    masculine: Iterable[str],
    *,
    how: Discriminant = "lda",
    normalise: bool = True,
) -> Subspace:
    """Return the direction of grammatical gender, from masculine to feminine.

    `how="lda"` is the direction of linear discriminant analysis, w = S^-1 (mean feminine - mean masculine), with S the
    covariance within the classes. There are fewer nouns than the square of the dimension, so that S is shrunk towards a
    multiple of the identity by the formula of Ledoit and Wolf. `how="means"` is the difference of the means alone:
    removing that direction from all vectors makes the two means equal, which removing w does not.

    The code that Zhou et al. released learns from 3,000 nouns of each gender, with LDA without shrinkage and with a
    linear support vector machine, and goes on with the latter. In Spanish, the two directions have a cosine of 0.98.

    `params["separation"]` is the distance of the class means along the direction, in standard deviations within a
    class (Cohen's d) of these very nouns.

    Limitation: with more dimensions than nouns any labels can be separated; check the direction on other nouns.

    Args:
        v: the vectors.
        feminine: inanimate nouns of feminine gender.
        masculine: inanimate nouns of masculine gender.
        how: "lda" or "means".
        normalise: whether vectors are scaled to unit length first.
    """
    if how not in get_args(Discriminant):
        raise UsageError(f"unknown discriminant {how!r}", hint="use lda or means")
    first, first_coverage = word_rows(v, feminine, what="the feminine nouns", normalise=normalise)
    second, second_coverage = word_rows(v, masculine, what="the masculine nouns", normalise=normalise)
    if min(len(first), len(second)) < 2:
        raise DegenerateError("a direction of grammatical gender needs two nouns of each gender")
    means = first.mean(axis=0), second.mean(axis=0)
    refuse_equal(means[0][None], means[1][None], what="the means of feminine and masculine nouns")
    between = means[0] - means[1]
    within = np.vstack([first - means[0], second - means[1]])
    direction, shrinkage = (between, 0.0) if how == "means" else _discriminant(within, between)
    learned = principal(
        direction[None],
        k=1,
        how="grammatical",
        towards=between,
        coverage=first_coverage + second_coverage,
        poles=GENDERS,
    )
    spread = float((within @ learned.basis[0]).std())
    gap = float(between @ learned.basis[0])
    params: dict[str, object] = {"discriminant": how, "normalise": normalise, "n": [len(first), len(second)]}
    params |= {"shrinkage": shrinkage, "separation": gap / spread if spread > SAME_WORD * abs(gap) else None}
    return replace(learned, params=params)


def social(direction: Subspace, grammar: Subspace) -> Subspace:
    """Return a direction without its component along grammatical gender: d - <d, g> g, scaled to unit length.

    `direction` is what pairs such as femme and homme give; `params["cos_grammatical"]` says how much of it is grammar.

    Raises:
        DegenerateError: If nothing is left.
    """
    if direction.k != 1 or grammar.dim != direction.dim:
        raise UsageError(
            f"one direction of dimension {grammar.dim} is needed, got {direction.k} of dimension {direction.dim}"
        )
    left = grammar.reject(direction.basis)
    if float(np.linalg.norm(left)) <= SAME_WORD:
        raise DegenerateError(
            "nothing is left of the direction without grammatical gender", hint="learn it from words for people"
        )
    learned = principal(
        left, k=1, how="social", towards=direction.basis[0], coverage=direction.coverage, poles=direction.poles
    )
    about = {"cos_grammatical": direction.cos(grammar), "grammatical": dict(grammar.params)}
    return replace(learned, params={**direction.params, **about})


def _discriminant(within: Matrix64, between: Vector64) -> tuple[Vector64, float]:
    """Return S^-1 (difference of means), and by how much S is shrunk."""
    from sklearn.covariance import ledoit_wolf  # slow to import

    covariance, shrinkage = ledoit_wolf(within, assume_centered=True)
    if not np.trace(covariance) > 0:
        return between, 1.0
    return np.linalg.solve(covariance, between), float(shrinkage)
