"""Generalised WEAT: do several groups of names each go with their own words? (Swinger et al. 2019)."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import UsageError
from evenhand.measures.association.located_query import MIN_SHARE, gather_query
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats import bootstrap
from evenhand.words import Query

INFO = Info(
    id="generalised-weat",
    title="Generalised WEAT",
    takes="query",
    better="zero",
    formula="g = sum_i <mean X_i - mean X, mean A_i - mean A>, means of unit vectors; mean X, mean A: over the sets",
    reading="Above 0: each target set lies nearer to its own attribute set than the sets do on average.",
    limits="One strong pair of sets can carry the sum: see by_set. It is no effect size: it has no fixed scale.",
    cites=("swinger2019",),
    queries=(),
    matched_sets=True,
    one_against_rest=True,
)


@measure(INFO)
def generalised_weat(
    vectors: Vectors,
    query: Query | str,
    *,
    samples: int = 10_000,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """The summed association of target sets with attribute sets of the same place, and a permutation p-value.

    For two sets it is half of WEAT's difference of means. The p-value shuffles target words between the sets, each set
    keeping its size, and counts the observed assignment too: (b + 1) / (m + 1). Swinger et al. rotate the attribute
    vectors instead.

    What it does not tell you: which of the sets go together; and nothing about words outside them.
    """
    if samples < 1:
        raise UsageError(f"the permutation test needs at least 1 sample, got {samples}")
    found = gather_query(vectors, query, targets=None, attributes=None, min_share=min_share)
    if len(found.targets) != len(found.attributes) or len(found.targets) < 2:
        given = f"{len(found.targets)} and {len(found.attributes)}"
        raise UsageError(f"generalised WEAT needs as many target sets as attribute sets, two or more, got {given}")
    common = found.common(vectors, {"samples": samples, "min_share": min_share}, seed)
    if found.problem:
        return undefined("generalised-weat", found.problem, found.coverage, **common)
    towards = np.stack([unit_rows(group.rows).mean(axis=0) for group in found.attributes])
    towards -= towards.mean(axis=0)
    # the deviations of the attribute means add up to 0, so that the mean of the targets drops out of the sum
    scores = np.concatenate([unit_rows(group.rows) for group in found.targets]) @ towards.T
    sizes = [len(group.words) for group in found.targets]
    parts = _parts(scores, np.arange(len(scores))[None], sizes)[0]
    drawn = _shuffled(scores, sizes, samples, seed)
    return Measurement(
        "generalised-weat",
        float(parts.sum()),
        len(scores),
        found.coverage,
        interval=_interval(scores, sizes, seed),
        p_value=float((np.count_nonzero(drawn >= parts.sum() - 1e-12) + 1) / (samples + 1)),
        positive="each target with its own attribute",
        reading=f"target and attribute sets go together by {parts.sum():.3f}",
        details={
            "by_set": {group.name: float(part) for group, part in zip(found.targets, parts, strict=True)},
            **found.details(),
        },
        **common,
    )


def _parts(scores: Matrix64, rows: Rows, sizes: list[int]) -> Matrix64:
    """For each assignment of words to places, the mean score of each set with its own attribute: (drawings, sets)."""
    ends = np.cumsum(sizes)
    spans = zip(ends - sizes, ends, strict=True)
    means = [scores[rows[:, start:end], place].mean(axis=1) for place, (start, end) in enumerate(spans)]
    return np.stack(means, axis=1)


def _shuffled(scores: Matrix64, sizes: list[int], samples: int, seed: int) -> Vector64:
    order = np.broadcast_to(np.arange(len(scores)), (samples, len(scores)))
    return np.asarray(_parts(scores, np.random.default_rng(seed).permuted(order, axis=1), sizes).sum(axis=1))


def _interval(scores: Matrix64, sizes: list[int], seed: int) -> bootstrap.Interval:
    """Resampling words within their set."""
    if min(sizes) < 3:
        return None
    starts = np.cumsum(sizes) - sizes
    drawn = [
        start + bootstrap.resamples(size, seed=seed + place)
        for place, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]
    return bootstrap.interval(_parts(scores, np.concatenate(drawn, axis=1), sizes).sum(axis=1))
