"""WEAT: are two sets of target words differently near to two sets of attribute words? (Caliskan et al. 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import UsageError
from evenhand.measures.association.located_query import MIN_SHARE, ROUNDING, Gathered, gather_query, same_direction
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats import bootstrap
from evenhand.stats.permutation import Alternative, Ties, permutation_test
from evenhand.words import Query

INFO = Info(
    id="weat",
    title="Word Embedding Association Test",
    takes="query",
    better="zero",
    formula="d = (mean_X s - mean_Y s) / sd_{X u Y} s,  s(w) = mean_A cos(w, a) - mean_B cos(w, b)",
    reading=(
        "Above 0: the first targets lie nearer to the first attributes. Between -2 and 2 with ddof=0 and targets of "
        "equal size."
    ),
    limits=(
        "It tells nothing about words outside the four sets; it can be made large by choosing the sets (Ethayarajh "
        "2019: single-word targets always give 2 or -2), and it depends on word frequency through vector lengths."
    ),
    cites=("caliskan2017", "ethayarajh2019"),
    queries=("weat-6", "weat-7", "weat-8", "weat-1", "weat-2", "weat-3", "weat-4", "weat-5", "weat-9", "weat-10"),
    arity=(2, 2),
    one_against_rest=True,
)


@measure(INFO)
def weat(
    vectors: Vectors,
    query: Query | str,
    *,
    ddof: int = 0,
    alternative: Alternative = "greater",
    ties: Ties = "ge",
    samples: int = 10_000,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Effect size, permutation p-value and bootstrap interval over target words.

    `ddof=0` (population standard deviation over all targets) is Caliskan's; the SEAT code and others divide by the
    sample deviation, `ddof=1`. The p-value is one-sided: the share of re-partitions of the targets, each side keeping
    its size, whose difference is at least the observed one; `ties="gt"` counts strictly larger ones, as the paper
    prints it. All partitions are counted up to 200,000 (8 + 8 words have 12,870), beyond that `samples` are drawn.

    A set that keeps less than `min_share` of its words is not measured. Lost words may leave targets of unequal size:
    the difference of means stays comparable then; the paper's statistic, a difference of sums, does not. A word that
    both targets have counts on both sides.

    What it does not tell you: whether the vectors are biased in general. See `evenhand show weat`.
    """
    if ddof not in (0, 1):
        raise UsageError(f"ddof must be 0 (population) or 1 (sample), got {ddof!r}")
    found = gather_query(vectors, query, targets=2, attributes=2, min_share=min_share)
    params = {"ddof": ddof, "alternative": alternative, "ties": ties, "samples": samples, "min_share": min_share}
    common = found.common(vectors, params, seed)
    if found.problem:
        return undefined("weat", found.problem, found.coverage, **common)
    x, y, a, b = (unit_rows(group.rows) for group in found.groups)
    if same_direction(a.mean(axis=0), b.mean(axis=0)):
        reason = (
            f"{found.attributes[0].name} and {found.attributes[1].name} have the same mean: nothing tells them apart"
        )
        return undefined("weat", reason, found.coverage, **common)
    s_x, s_y = association(x, a, b), association(y, a, b)
    effect = effect_sizes(s_x, s_y, np.arange(len(s_x))[None], np.arange(len(s_y))[None], ddof)[0]
    if not np.isfinite(effect):
        reason = "all targets have the same association: the standard deviation is 0"
        return undefined("weat", reason, found.coverage, **common)
    test = permutation_test(s_x, s_y, alternative=alternative, ties=ties, samples=samples, seed=seed)
    return Measurement(
        "weat",
        float(effect),
        len(s_x) + len(s_y),
        found.coverage,
        interval=_interval(s_x, s_y, ddof, seed),
        p_value=test.p_value,
        positive=f"{found.targets[0].name} with {found.attributes[0].name}",
        reading=_reading(found.query, float(effect)),
        items=_items(found, s_x, s_y),
        details={
            "statistic": float(s_x.sum() - s_y.sum()),
            "mean_difference": float(s_x.mean() - s_y.mean()),
            "partitions": test.partitions,
            "exact": test.exact,
            **found.details(),
        },
        **common,
    )


def association(words: Matrix64, a: Matrix64, b: Matrix64) -> Vector64:
    """s(w): mean cosine with A minus mean cosine with B, for unit rows; the mean of cosines is one product."""
    return np.asarray(words @ (a.mean(axis=0) - b.mean(axis=0)), dtype=np.float64)


def effect_sizes(s_x: Vector64, s_y: Vector64, rows_x: Rows, rows_y: Rows, ddof: int) -> Vector64:
    """The effect size for each drawing of target words; NaN where the drawn associations do not vary."""
    drawn_x, drawn_y = s_x[rows_x], s_y[rows_y]
    both = np.concatenate([drawn_x, drawn_y], axis=1)
    deviation = both.std(axis=1, ddof=ddof)
    deviation[deviation <= ROUNDING] = np.nan
    return np.asarray((drawn_x.mean(axis=1) - drawn_y.mean(axis=1)) / deviation)


def _interval(s_x: Vector64, s_y: Vector64, ddof: int, seed: int) -> bootstrap.Interval:
    if min(len(s_x), len(s_y)) < 3:
        return None  # resampling one or two words says nothing
    rows_x = bootstrap.resamples(len(s_x), seed=seed)
    rows_y = bootstrap.resamples(len(s_y), seed=seed + 1)
    return bootstrap.interval(effect_sizes(s_x, s_y, rows_x, rows_y, ddof))


def _items(found: Gathered, *associations: Vector64) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"word": word, "set": group.name, "value": float(value)}
        for group, values in zip(found.targets, associations, strict=True)
        for word, value in zip(group.words, values, strict=True)
    )


def _reading(asked: Query, effect: float) -> str:
    near, far = asked.attributes if effect >= 0 else asked.attributes[::-1]
    first, second = asked.targets
    return f"{first.name} nearer to {near.name}, {second.name} to {far.name}"
