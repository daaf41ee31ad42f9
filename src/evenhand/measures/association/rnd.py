"""RND: are attribute words nearer to the mean of one group of words or of the other? (Garg et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Literal

import numpy as np

from evenhand.arrays import Matrix64, Vector64, row_norms, unit_rows
from evenhand.errors import DegenerateError, unknown_name
from evenhand.measures.association.located_query import ROUNDING, LocatedQuery, LocatedSet, locate_query
from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import mean_interval
from evenhand.stats.permutation import shuffles
from evenhand.stats.units import mean_units
from evenhand.words import Query

Distance = Literal["euclidean", "cosine"]
ASSIGNMENTS = 10_000  # of the target words to the two groups; the smallest p-value is 1e-4
INFO = Info(
    id="rnd",
    title="Relative Norm Distance",
    takes="query",
    better="zero",
    null=0.0,
    formula="RND = mean_a ( |a - mean X| - |a - mean Y| );  distance='cosine': 1 - cos instead of the norm",
    reading="Below 0: the attributes are nearer to the first targets; above 0: nearer to the second.",
    limits=(
        "It is not scale-free: longer vectors give larger values, so that vectors of different training cannot be "
        "compared unless normalised. Words with opposite associations cancel; look at the items."
    ),
    cites=("garg2018",),
    queries=("weat-6", "weat-3", "weat-10"),
    arity=(2, None),
    definition=4,
    plain=6,
)


@measure(INFO)
def rnd(
    call: Call,
    vectors: Vectors,
    query: Query | str,
    *,
    distance: Distance = "euclidean",
    normalise: bool = False,
    attribute: str | None = None,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the mean signed difference of distances to the two group means.

    Args:
        vectors: the vectors to measure.
        query: two target sets and any number of attribute sets.
        distance: "euclidean", or "cosine" for 1 - cos. WEFE subtracts cosine similarities, so that its sign is
            opposite there: here both distances have one reading.
        normalise: scale every word to length 1 first, as Garg et al. do; WEFE does not by default.
        attribute: name of the attribute set to measure, the first by default; the details have all of them.
        min_share: smallest share of each set that the vocabulary must have.
        reference: vectors before mitigation.
        seed: seed of the permutations where the groups allow more than 10,000 assignments.

    Returns:
        The mean difference, with that of each attribute word in `items`. The interval is over attribute words; the
        p-value is over assignments of the target words to the two groups.

    What it does not tell you: whether a value is large. The scale is that of the vectors.
    """
    located = locate_query(vectors, query, targets=2, attributes=None)
    chosen = _choose_attribute(located, attribute)
    positive = f"nearer to {located.targets[1].name}"
    call.describe(located.query, positive=positive, coverage=located.coverage, params={"attribute": chosen.name})
    call.require(located.lists(), min_share)
    located.require_distinct_means()
    scale = unit_rows if normalise else np.asarray
    first, second = (scale(group.rows).mean(axis=0) for group in located.targets)
    if distance == "cosine" and min(np.linalg.norm(first), np.linalg.norm(second)) == 0:
        raise DegenerateError("the mean of a target set is the zero vector, which has no cosine")
    by_set = {group.name: _differences(scale(group.rows), first, second, distance) for group in located.attributes}
    values = by_set[chosen.name]
    return call.measurement(
        float(values.mean()),
        len(values),
        interval=mean_interval(values),
        reading=f"the vectors associate {chosen.name} with {located.targets[0 if values.mean() < 0 else 1].name}",
        p_value=_permutation_p([scale(group.rows) for group in located.targets], scale(chosen.rows), distance, seed),
        items=tuple({"word": word, "value": float(value)} for word, value in zip(chosen.words, values, strict=True)),
        units=(mean_units("word", chosen.words, values),),
        details={"by_set": {name: float(each.mean()) for name, each in by_set.items()}, **located.details()},
    )


def _differences(words: Matrix64, first: Vector64, second: Vector64, distance: Distance) -> Vector64:
    if distance == "euclidean":
        return row_norms(words - first) - row_norms(words - second)
    contrast = second / np.linalg.norm(second) - first / np.linalg.norm(first)
    return np.asarray(unit_rows(words) @ contrast)


def _permutation_p(targets: list[Matrix64], words: Matrix64, distance: Distance, seed: int) -> float:
    """Return the two-sided p-value over assignments of the target words to the two groups.

    All attribute words are compared with the same two means, so they do not vary independently; what could have come
    out otherwise is which target word belongs to which group. Inner products of words with targets are computed once;
    those with the mean of a group are means of them.
    """
    pooled, size = np.concatenate(targets), len(targets[0])
    if distance == "cosine":
        words = unit_rows(words)
    cross, gram, squares = pooled @ words.T, pooled @ pooled.T, (words**2).sum(axis=1)
    values = np.concatenate(
        [_assigned(members, cross, gram, squares, distance) for members in _assignments(len(pooled), size, seed)]
    )
    sizes = np.abs(values)
    return float(np.mean(~(sizes < sizes[0] - ROUNDING * max(1.0, float(np.sqrt(squares.max()))))))


def _assigned(members: Matrix64, cross: Matrix64, gram: Matrix64, squares: Vector64, distance: Distance) -> Vector64:
    """Return the mean difference of the distances for each assignment, (assignments, targets) of 0 and 1."""
    means = []
    for side in (members, 1 - members):
        weights = side / side.sum(axis=1, keepdims=True)
        products, lengths = weights @ cross, ((weights @ gram) * weights).sum(axis=1, keepdims=True)
        if distance == "euclidean":
            means.append(np.sqrt(np.maximum(squares - 2 * products + lengths, 0.0)).mean(axis=1))
        else:
            means.append(-(products / np.sqrt(np.maximum(lengths, np.finfo(float).tiny))).mean(axis=1))
    return np.asarray(means[0] - means[1])


def _assignments(total: int, size: int, seed: int) -> Iterator[Matrix64]:
    """Yield blocks of assignments, the observed one first: all of them if there are at most 10,000."""
    observed = (np.arange(total) < size).astype(np.float64)
    if math.comb(total, size) <= ASSIGNMENTS:
        rows = np.array(list(combinations(range(total), size)))
        every = np.zeros((len(rows), total))
        np.put_along_axis(every, rows, 1.0, axis=1)
        yield every  # combinations are in lexicographic order, so the observed assignment is the first
        return
    yield observed[None]
    yield from shuffles(observed, ASSIGNMENTS - 1, seed=seed)


def _choose_attribute(located: LocatedQuery, name: str | None) -> LocatedSet:
    if name is None:
        return located.attributes[0]
    for group in located.attributes:
        if group.name == name:
            return group
    known = [group.name for group in located.attributes]
    raise unknown_name(f"attribute set of {located.query.name!r}", name, known)
