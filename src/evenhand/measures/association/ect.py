"""ECT: do two groups of people rank the attribute words in the same order? (Dev & Phillips 2019)."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.measures.association.located_query import MIN_SHARE, ROUNDING, Gathered, gather_query
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats import percentile_interval
from evenhand.stats.correlation import spearman_rows
from evenhand.words import Query

FEWEST = 3  # two words can only agree or disagree: 1 or -1
INFO = Info(
    id="ect",
    title="Embedding Coherence Test",
    takes="query",
    better="one",
    formula="ECT = Spearman over attributes a of ( cos(a, mean X), cos(a, mean Y) ), means of the vectors as they are",
    reading="1: both groups have the attribute words in the same order of nearness; lower: the order differs.",
    limits=(
        "It sees order only: one group may be nearer to every attribute word and the value is still 1. The attribute "
        "words themselves move it: words of very different topics are ranked alike by any two groups."
    ),
    cites=("dev2019attenuating",),
    queries=("weat-6", "weat-3", "weat-10"),
    arity=(2, None),
)


@measure(INFO)
def ect(
    vectors: Vectors,
    query: Query | str,
    *,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Spearman correlation of the two rankings, with both cosines of each word and a bootstrap interval over words.

    The words of all attribute sets are ranked together, each once. Equal cosines share their mean rank, and the two
    targets may have different sizes; codes that use the rank formula without ties, or that demand equal sizes, differ.

    What it does not tell you: how near the groups are to the words, or to which word a group is nearer.
    """
    found = gather_query(vectors, query, targets=2, attributes=None, min_share=min_share)
    common = found.common(vectors, {"min_share": min_share}, seed)
    if found.problem:
        return undefined("ect", found.problem, found.coverage, **common)
    words, rows = _joined(found)
    if len(words) < FEWEST:
        reason = f"{len(words)} attribute words are too few for a ranking; {FEWEST} are needed"
        return undefined("ect", reason, found.coverage, **common)
    first, second = (_cosines(rows, group.rows.mean(axis=0)) for group in found.targets)

    def correlation(drawn: Rows) -> Vector64:
        return spearman_rows(first[drawn], second[drawn])

    if min(np.ptp(first), np.ptp(second)) <= ROUNDING:
        reason = "all attribute words are equally near to the mean of a target set: there is no order to compare"
        return undefined("ect", reason, found.coverage, **common)
    value = float(correlation(np.arange(len(words))[None])[0])
    return Measurement(
        "ect",
        value,
        len(words),
        found.coverage,
        interval=percentile_interval(correlation, len(words), seed=seed),
        reading=f"{found.targets[0].name} and {found.targets[1].name} agree on the order with rho = {value:.2f}",
        items=tuple(
            {"word": word, "value": float(one - two), "first": float(one), "second": float(two)}
            for word, one, two in zip(words, first, second, strict=True)
        ),
        details=found.details(),
        **common,
    )


def _joined(found: Gathered) -> tuple[tuple[str, ...], Matrix64]:
    """The words of all attribute sets, a row of the vocabulary only once."""
    ids = np.concatenate([group.ids for group in found.attributes])
    kept = np.sort(np.unique(ids, return_index=True)[1])
    words = [word for group in found.attributes for word in group.words]
    return tuple(words[place] for place in kept), np.concatenate([group.rows for group in found.attributes])[kept]


def _cosines(rows: Matrix64, mean: Vector64) -> Vector64:
    return np.asarray(unit_rows(rows) @ unit_rows(mean[None])[0])
