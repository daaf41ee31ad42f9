"""Generalised WEAT: is each of several groups of names associated with its own words? (Swinger et al. 2019)."""

from __future__ import annotations

from typing import get_args

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.association.located_query import locate_query
from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import contrast_interval
from evenhand.stats.bootstrap import Interval
from evenhand.stats.permutation import Alternative
from evenhand.stats.units import contrast_units
from evenhand.words import Query

ROUNDING = 1e-12
INFO = Info(
    id="generalised-weat",
    title="Generalised WEAT",
    takes="query",
    better="zero",
    formula="g = sum_i <mean X_i - mean X, mean A_i - mean A>, means of unit vectors; mean X, mean A: over the sets",
    reading="Above 0: each target set is nearer to its own attribute set than the sets are on average.",
    limits=(
        "One strong pair of sets can carry the sum: see by_set. It is not an effect size: it has no fixed scale. It "
        "needs as many attribute sets as target sets, in the same order."
    ),
    cites=("swinger2019",),
    queries=(),
    matched_sets=True,
    one_against_rest=True,
    definition=4,
)


@measure(INFO)
def generalised_weat(
    call: Call,
    vectors: Vectors,
    query: Query | str,
    *,
    alternative: Alternative = "two-sided",
    samples: int = 10_000,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the summed association of each target set with the attribute set at the same position.

    For two sets it is half of WEAT's difference of means. It is undefined where the numbers of target and attribute
    sets differ, as in the generic queries of a concept with three groups.

    Args:
        vectors: the vectors to measure.
        query: two or more target sets and as many attribute sets.
        alternative: "two-sided" counts shuffles whose sum is at least as far from 0, "greater" and "less" those in one
            direction. Target words are shuffled between the sets, each set keeping its size; the observed assignment
            counts too: (b + 1) / (m + 1). Swinger et al. rotate the attribute vectors instead, one-sided.
        samples: number of shuffles.
        min_share: smallest share of each set that the vocabulary must have.
        reference: vectors before mitigation.
        seed: seed of the shuffles.

    Returns:
        The sum g, with the part of each set in `details["by_set"]`.

    What it does not tell you: which of the sets are associated; and nothing about words outside them.
    """
    if samples < 1:
        raise UsageError(f"samples must be at least 1, got {samples}")
    if alternative not in get_args(Alternative):
        raise UsageError(f"unknown alternative {alternative!r}", hint="use two-sided, greater or less")
    located = locate_query(vectors, query, targets=None, attributes=None)
    call.describe(located.query, positive="each target with its own attribute", coverage=located.coverage)
    n_targets, n_attributes = located.query.arity
    if n_targets != n_attributes or n_targets < 2:
        concept = f" about {located.query.concept}" if located.query.concept else ""
        raise DegenerateError(
            f"generalised WEAT needs as many target sets as attribute sets, two or more; "
            f"{located.query.name}{concept} has {n_targets} and {n_attributes}"
        )
    call.require(located.lists(), min_share)
    located.require_distinct_means()
    attribute_means = np.stack([unit_rows(group.rows).mean(axis=0) for group in located.attributes])
    deviations = attribute_means - attribute_means.mean(axis=0)
    # the deviations of the attribute means add up to 0, so that the mean of the targets drops out of the sum
    scores = np.concatenate([unit_rows(group.rows) for group in located.targets]) @ deviations.T
    sizes = [len(group.words) for group in located.targets]
    parts = _set_means(scores, np.arange(len(scores))[None], sizes)[0]
    value = float(parts.sum())
    relation = "is associated with its own" if value >= 0 else "is associated with other sets than its own"
    one_sided = "" if alternative == "two-sided" else f"; the p-value is one-sided ({alternative})"
    return call.measurement(
        value,
        len(scores),
        interval=_interval(scores, sizes),
        p_value=_p_value(_shuffled_sums(scores, sizes, samples, seed), value, alternative),
        reading=f"summed over the sets, each target {relation} by {abs(value):.3f}{one_sided}",
        units=(contrast_units("word", [group.words for group in located.targets], _own_scores(scores, sizes)),),
        details={
            "by_set": {group.name: float(part) for group, part in zip(located.targets, parts, strict=True)},
            **located.details(),
        },
    )


def _set_means(scores: Matrix64, rows: Rows, sizes: list[int]) -> Matrix64:
    """Return for each assignment of words the mean score of each set with its own attribute: (draws, sets)."""
    ends = np.cumsum(sizes)
    spans = zip(ends - sizes, ends, strict=True)
    means = [scores[rows[:, start:end], column].mean(axis=1) for column, (start, end) in enumerate(spans)]
    return np.stack(means, axis=1)


def _shuffled_sums(scores: Matrix64, sizes: list[int], samples: int, seed: int) -> Vector64:
    order = np.broadcast_to(np.arange(len(scores)), (samples, len(scores)))
    shuffled = np.random.default_rng(seed).permuted(order, axis=1)
    return np.asarray(_set_means(scores, shuffled, sizes).sum(axis=1))


def _p_value(sums: Vector64, value: float, alternative: Alternative) -> float:
    """Return the share of sums at least as extreme; under the null they are centred at 0."""
    if alternative == "two-sided":
        sums, value = np.abs(sums), abs(value)
    elif alternative == "less":
        sums, value = -sums, -value
    return float((np.count_nonzero(sums >= value - ROUNDING) + 1) / (len(sums) + 1))


def _interval(scores: Matrix64, sizes: list[int]) -> Interval:
    """Let the words of each set vary: the sum is one of means of independent samples."""
    return contrast_interval(_own_scores(scores, sizes))


def _own_scores(scores: Matrix64, sizes: list[int]) -> list[Vector64]:
    """Return the scores of the words of each set with its own attribute."""
    parts = np.split(scores, np.cumsum(sizes)[:-1])
    return [part[:, column] for column, part in enumerate(parts)]
