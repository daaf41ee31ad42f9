"""ECT: do two groups of people rank the attribute words in the same order? (Dev & Phillips 2019)."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import DegenerateError
from evenhand.measures.association.located_query import ROUNDING, LocatedQuery, locate_query
from evenhand.measures.call import MIN_SHARE, Call, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import percentile_interval
from evenhand.stats.correlation import mean_ranks, spearman_rows
from evenhand.stats.units import correlation_units
from evenhand.words import Query

FEWEST = 3  # two words can only agree or disagree: 1 or -1
INFO = Info(
    id="ect",
    title="Embedding Coherence Test",
    takes="query",
    better="one",
    formula="ECT = Spearman over attributes a of ( cos(a, mean X), cos(a, mean Y) ), means of the vectors as they are",
    reading="1: both groups have the attribute words in the same order of similarity; lower: the order differs.",
    limits=(
        "It sees order only: one group may be nearer to every attribute word and the value is still 1. The choice of "
        "attribute words changes it: words of very different topics are ranked alike by any two groups."
    ),
    cites=("dev2019attenuating",),
    queries=("weat-6", "weat-3", "weat-10"),
    arity=(2, None),
    definition=3,
)


@measure(INFO)
def ect(
    call: Call,
    vectors: Vectors,
    query: Query | str,
    *,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the Spearman correlation of the two rankings, with a bootstrap interval over attribute words.

    The words of all attribute sets are ranked together, each once. Equal cosines share their mean rank, and the two
    targets may have different sizes; codes that use the rank formula without ties, or require equal sizes, differ.

    Args:
        vectors: the vectors to measure.
        query: two target sets and any number of attribute sets.
        min_share: smallest share of each set that the vocabulary must have.
        reference: vectors before mitigation.
        seed: seed of the bootstrap.

    Returns:
        The correlation, with both cosines of each attribute word in `items`.

    What it does not tell you: how near the groups are to the words, or which group is nearer to a word.
    """
    located = locate_query(vectors, query, targets=2, attributes=None)
    call.describe(located.query, coverage=located.coverage)
    call.require(located.lists(), min_share)
    located.require_distinct_means()
    words, rows = _all_attributes(located)
    if len(words) < FEWEST:
        raise DegenerateError(f"{len(words)} attribute words are too few for a ranking; {FEWEST} are needed")
    first, second = (_cosines(rows, group.rows.mean(axis=0)) for group in located.targets)
    if min(np.ptp(first), np.ptp(second)) <= ROUNDING:
        raise DegenerateError(
            "all attribute words are equally near to the mean of a target set: there is no order to compare"
        )

    def correlation(draws: Rows) -> Vector64:
        return spearman_rows(first[draws], second[draws])

    value = float(correlation(np.arange(len(words))[None])[0])
    one, other = (group.name for group in located.targets)
    return call.measurement(
        value,
        len(words),
        interval=percentile_interval(correlation, len(words), seed=seed),
        reading=f"the rankings of {one} and {other} correlate with rho = {value:.2f}",
        items=tuple(
            {"word": word, "value": float(a - b), "first": float(a), "second": float(b)}
            for word, a, b in zip(words, first, second, strict=True)
        ),
        details=located.details(),
        units=(correlation_units("word", words, mean_ranks(first), mean_ranks(second)),),
    )


def _all_attributes(located: LocatedQuery) -> tuple[tuple[str, ...], Matrix64]:
    """Return the words of all attribute sets, a row of the vocabulary only once."""
    ids = np.concatenate([group.ids for group in located.attributes])
    unique = np.sort(np.unique(ids, return_index=True)[1])
    words = [word for group in located.attributes for word in group.words]
    rows = np.concatenate([group.rows for group in located.attributes])
    return tuple(words[index] for index in unique), rows[unique]


def _cosines(rows: Matrix64, mean: Vector64) -> Vector64:
    return np.asarray(unit_rows(rows) @ unit_rows(mean[None])[0])
