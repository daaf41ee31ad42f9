"""Grammatical gender apart from social gender (Zhou et al. 2019).

In a language with grammatical gender every noun has one: `table` is feminine and `mur` is masculine in French, and no
woman or man is meant. Vectors contain it, because articles and adjectives agree with the noun. The difference of
`infirmière` and `infirmier` therefore contains both grammatical and social gender. The grammatical direction is learned
from inanimate nouns, which have nothing but grammar, and taken out of the direction of pairs of words for people.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.language import language as rules_of
from evenhand.models.vectors import Vectors
from evenhand.subspaces.lookup import SAME_WORD, refuse_equal, word_rows
from evenhand.subspaces.principal import principal
from evenhand.subspaces.subspace import Subspace
from evenhand.words import WordSet, ids, wordset

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
