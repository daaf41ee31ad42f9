"""MAC: how far, by cosine, target words are from sets of attribute words on average (Manzini et al. 2019)."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, unit_rows
from evenhand.measures.association.located_query import MIN_SHARE, Gathered, gather_query
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats import percentile_interval
from evenhand.words import Query

INFO = Info(
    id="mac",
    title="Mean Average Cosine distance",
    takes="query",
    better="one",
    formula="MAC = mean over target words t and attribute sets A_j of mean_{a in A_j} ( 1 - cos(t, a) )",
    reading="1: on average the targets are orthogonal to the attribute sets; below 1: nearer; from 0 to 2.",
    limits=(
        "It compares no groups: all vectors of a model may share a common part that makes every cosine positive, and "
        "the value falls below 1 without any bias. Words near to one set and far from another cancel."
    ),
    cites=("manzini2019",),
    queries=("weat-6", "weat-3", "weat-10"),
)


@measure(INFO)
def mac(
    vectors: Vectors,
    query: Query | str,
    *,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Mean cosine distance, each attribute set weighing the same, with a bootstrap interval over target words.

    With a `reference` (the vectors before mitigation) the details have the change and the paired t-test over (word,
    set) that the paper reports. Codes that average over all attribute words at once give large sets more weight.

    What it does not tell you: which group a word leans to, or whether the groups differ at all.
    """
    found = gather_query(vectors, query, targets=None, attributes=None, min_share=min_share)
    common = found.common(vectors, {"min_share": min_share}, seed)
    if found.problem:
        return undefined("mac", found.problem, found.coverage, **common)
    distances = _distances(found)
    by_word = distances.mean(axis=1)
    words = [(group.name, word) for group in found.targets for word in group.words]
    interval = percentile_interval(lambda rows: by_word[rows].mean(axis=1), len(by_word), seed=seed)
    return Measurement(
        "mac",
        float(by_word.mean()),
        len(by_word),
        found.coverage,
        interval=interval if len(by_word) > 2 else None,
        reading=f"the mean cosine of targets and attributes is {1 - by_word.mean():.3f}",
        items=tuple(
            {"word": word, "set": name, "value": float(value)}
            for (name, word), value in zip(words, by_word, strict=True)
        ),
        details={
            "by_set": _by_set(found, distances),
            **_change(found, distances, reference if reference is not vectors else None),
            **found.details(),
        },
        **common,
    )


def _distances(found: Gathered) -> Matrix64:
    """(target words, attribute sets): mean cosine distance; a mean of cosines with unit rows is one product."""
    targets = np.concatenate([unit_rows(group.rows) for group in found.targets])
    means = np.stack([unit_rows(group.rows).mean(axis=0) for group in found.attributes])
    return np.asarray(1 - targets @ means.T)


def _by_set(found: Gathered, distances: Matrix64) -> dict[str, dict[str, float]]:
    starts = np.cumsum([0, *(len(group.words) for group in found.targets)])
    return {
        target.name: {
            attribute.name: float(distances[start:end, column].mean())
            for column, attribute in enumerate(found.attributes)
        }
        for target, start, end in zip(found.targets, starts, starts[1:], strict=False)
    }


def _change(found: Gathered, after: Matrix64, reference: Vectors | None) -> dict[str, Any]:
    """Mean change from the reference and the paired t-test, where both have the same words."""
    if reference is None:
        return {}
    before = gather_query(reference, found.query, targets=None, attributes=None, min_share=0)
    same = [group.words for group in before.groups] == [group.words for group in found.groups]
    if before.problem or not same:
        return {"change": {"reason": "the reference has other words of this query"}}
    away = (after - _distances(before)).ravel()
    if len(away) < 2 or np.ptp(away) <= 1e-12:
        return {"change": {"mean": float(away.mean())}}
    from scipy.stats import ttest_1samp

    test = ttest_1samp(away, 0.0)
    return {"change": {"mean": float(away.mean()), "t": float(test.statistic), "p_value": float(test.pvalue)}}
