"""MAC: the mean cosine distance of target words from sets of attribute words (Manzini et al. 2019)."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Matrix64, unit_rows
from evenhand.measures.association.located_query import LocatedQuery, locate_query
from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import mean_interval
from evenhand.stats.units import mean_units
from evenhand.words import Query

SAME_CHANGE = 1e-12  # changes that differ by less are equal, and leave nothing to test
INFO = Info(
    id="mac",
    title="Mean Average Cosine distance",
    takes="query",
    better="one",
    formula="MAC = mean over target words t and attribute sets A_j of mean_{a in A_j} ( 1 - cos(t, a) )",
    reading="1: on average the targets are orthogonal to the attribute sets; below 1: nearer; from 0 to 2.",
    limits=(
        "It does not compare groups: all vectors of a model may share a common component that makes every cosine "
        "positive, and the value falls below 1 without any bias. Words near to one set and far from another cancel."
    ),
    cites=("manzini2019",),
    queries=("weat-6", "weat-3", "weat-10"),
    definition=3,
)


@measure(INFO)
def mac(
    call: Call,
    vectors: Vectors,
    query: Query | str,
    *,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the mean cosine distance, each attribute set with the same weight.

    It is defined for any number of target and attribute sets. Codes that average over all attribute words at once give
    large sets more weight.

    Args:
        vectors: the vectors to measure.
        query: any number of target sets and attribute sets.
        min_share: smallest share of each set that the vocabulary must have.
        reference: vectors before mitigation; with them the details have the change and the paired t-test over (word,
            set) that the paper reports.
        seed: recorded only; nothing is drawn at random.

    Returns:
        The mean distance, with that of each target word in `items` and of each pair of sets in `details["by_set"]`.

    What it does not tell you: which group a word is nearer to, or whether the groups differ at all.
    """
    located = locate_query(vectors, query, targets=None, attributes=None)
    call.describe(located.query, coverage=located.coverage)
    call.require(located.lists(), min_share)
    distances = _distances(located)
    by_word = distances.mean(axis=1)
    return call.measurement(
        float(by_word.mean()),
        len(by_word),
        interval=mean_interval(by_word),
        reading=f"the mean cosine of targets and attributes is {1 - by_word.mean():.3f}",
        items=located.target_items(by_word),
        units=(mean_units("word", located.target_names(), by_word),),
        details={
            "by_set": _by_set(located, distances),
            **_change(located, distances, reference if reference is not vectors else None),
            **located.details(),
        },
    )


def _distances(located: LocatedQuery) -> Matrix64:
    """Return (target words, attribute sets) mean distances; a mean of cosines with unit rows is one product."""
    targets = np.concatenate([unit_rows(group.rows) for group in located.targets])
    means = np.stack([unit_rows(group.rows).mean(axis=0) for group in located.attributes])
    return np.asarray(1 - targets @ means.T)


def _by_set(located: LocatedQuery, distances: Matrix64) -> dict[str, dict[str, float]]:
    return {
        target.name: {
            attribute.name: float(distances[span, column].mean()) for column, attribute in enumerate(located.attributes)
        }
        for target, span in located.target_spans()
    }


def _change(located: LocatedQuery, after: Matrix64, reference: Vectors | None) -> dict[str, object]:
    """Return the mean change from the reference and the paired t-test, where both have the same words."""
    if reference is None:
        return {}
    original = locate_query(reference, located.query, targets=None, attributes=None)
    if [group.words for group in original.sets] != [group.words for group in located.sets]:
        return {"change": {"reason": "the reference has other words of this query"}}
    changes = (after - _distances(original)).ravel()
    if len(changes) < 2 or np.ptp(changes) <= SAME_CHANGE:
        return {"change": {"mean": float(changes.mean())}}
    from scipy.stats import ttest_1samp

    test = ttest_1samp(changes, 0.0)
    return {"change": {"mean": float(changes.mean()), "t": float(test.statistic), "p_value": float(test.pvalue)}}
