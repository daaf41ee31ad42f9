"""SAME: how large the component of words along the differences of group means is (Schröder et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from evenhand.arrays import Matrix64, Vector64, row_norms, unit_rows
from evenhand.errors import DegenerateError
from evenhand.measures.association.located_query import LocatedSet, locate_set, same_direction
from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import mean_interval
from evenhand.stats.units import mean_units
from evenhand.words import Concept, WordSet, as_concept, as_wordset

SameCombination = Literal["length", "sum", "released"]
RANK_RTOL = 1e-6  # single precision: a component shorter than this share of its difference is rounding
INFO = Info(
    id="same",
    title="Scoring Association Means of Embeddings",
    takes="words",
    better="zero",
    formula="SAME(w) = |cos(w, m_1 - m_2)|, m_i = mean unit vector of group i;  more groups: length of w in their span",
    reading="Mean over the words, from 0 to 1. Two groups: skew is the mean signed cosine, stereotype its deviation.",
    limits=(
        "It sees the directions between the given group words only; projecting them out makes it 0 while neighbours "
        "and classifiers still find the groups."
    ),
    cites=("schroeder2022",),
    queries=("bolukbasi2016-professions",),
    definition=3,
    charts=("measure-agreement",),
)


@measure(INFO)
def same(
    call: Call,
    vectors: Vectors,
    words: WordSet | str | Iterable[str],
    *,
    concept: Concept | str = "gender",
    combine: SameCombination = "length",
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the mean association of words with the groups of a concept, for two groups or more.

    With more than two groups the differences of the first (positive) group from each other one, made orthogonal, are
    the components.

    Args:
        vectors: the vectors to measure.
        words: a list of words, its id or its file.
        concept: the concept whose groups are compared.
        combine: how several components make one number. "length" takes the length of the unit word's projection onto
            their span: it is |cos| for two groups and does not depend on the order of the groups. "sum" adds the |cos|
            with each component, which does depend on it. "released" is the authors' code: |cos| for the first
            component, but |cos| times the component's length for the others.
        min_share: smallest share of the words, and of each group, that the vocabulary must have.
        reference: vectors before mitigation.
        seed: recorded only; nothing is drawn at random.

    Returns:
        The mean, with the value of each word in `items` (the signed cosine for two groups), and skew and stereotype in
        `details["by_group"]`.

    What it does not tell you: with more than two groups, which one a word is nearest to; see `by_group`.
    """
    wordset, concept = as_wordset(words), as_concept(concept)
    names = [concept.positive, *(name for name in concept.groups if name != concept.positive)]
    located, groups = locate_set(vectors, wordset), [locate_set(vectors, concept.groups[name]) for name in names]
    coverage = sum((group.coverage for group in groups), located.coverage)
    call.describe(wordset.name, positive=concept.positive, coverage=coverage, params={"groups": names})
    if len(names) < 2:
        raise DegenerateError(f"concept {concept.name!r} has one group; SAME compares two or more")
    call.require([group.as_list() for group in (located, *groups)], min_share)
    _require_directions(groups)
    means = np.stack([unit_rows(group.rows).mean(axis=0) for group in groups])
    scores = _scores(unit_rows(located.rows), components(means), combine)
    by_group = _signed_cosines(located, means, names)
    summary = {name: {"skew": float(c.mean()), "stereotype": float(c.std())} for name, c in by_group.items()}
    two = len(by_group) == 1
    values = next(iter(by_group.values())) if two else scores
    return call.measurement(
        float(scores.mean()),
        len(scores),
        interval=mean_interval(scores, limits=(0.0, 1.0)),
        reading=f"on average {100 * scores.mean():.1f} % of a word's length is along the differences of the groups",
        items=tuple({"word": word, "value": float(value)} for word, value in zip(located.words, values, strict=True)),
        details={**(next(iter(summary.values())) if two else {}), "by_group": summary},
        units=(mean_units("word", located.words, scores),),
    )


def components(means: Matrix64) -> Matrix64:
    """Return the differences of the first mean from the others, each orthogonal to those before it, without zeros."""
    basis: list[Vector64] = []
    for difference in means[0] - means[1:]:
        remainder = difference
        for earlier in basis:
            remainder = remainder - (remainder @ earlier) / (earlier @ earlier) * earlier
        if np.linalg.norm(remainder) > RANK_RTOL * np.linalg.norm(difference):
            basis.append(remainder)
    return np.stack(basis)


def _scores(words: Matrix64, parts: Matrix64, combine: SameCombination) -> Vector64:
    sizes = np.abs(words @ unit_rows(parts).T)
    if combine == "length":
        return np.asarray(np.sqrt((sizes**2).sum(axis=1)))
    weights = np.ones(len(parts)) if combine == "sum" else np.r_[1.0, row_norms(parts)[1:]]
    return np.asarray(sizes @ weights)


def _signed_cosines(located: LocatedSet, means: Matrix64, names: list[str]) -> dict[str, Vector64]:
    """Return the signed cosine of each word with the difference of the first mean from each other one."""
    cosines = unit_rows(located.rows) @ unit_rows(means[0] - means[1:]).T
    return dict(zip(names[1:], cosines.T, strict=True))


def _require_directions(groups: list[LocatedSet]) -> None:
    """Raise `DegenerateError` for means that do not differ from the first one: there is no direction between them."""
    first, *others = (unit_rows(group.rows).mean(axis=0) for group in groups)
    equal = [group.name for group, mean in zip(groups[1:], others, strict=True) if same_direction(first, mean)]
    if equal:
        raise DegenerateError(
            f"{', '.join(equal)} has the same mean vector as {groups[0].name}: there is no direction between them"
        )
