"""The bias score of Bordia & Bowman 2019 (section 3.3.1) from counts, with three readings of its normalisation.

c(w, g) is the co-occurrence count of word w with group g, c(g) the number of words of g in the text. The paper prints
P(w|g) = [c(w,g) / sum_i c(w_i,g)] / [c(g) / sum_i c(w_i)], and bias(w) = log P(w|f) / P(w|m).

- `conditional` (default): bias = log [c(w,f) / sum_i c(w_i,f)] - log [c(w,m) / sum_i c(w_i,m)]. A word without a
  preference scores 0, and only this reading fits the published means and deviations.
- `literal`: as printed. The group's frequency is divided out twice, so that in a corpus with five male words for each
  female word a word without a preference scores log 5, female.
- `joint`: the numerator as a joint probability, c(w,g) over the sum of both groups: log [c(w,f) / c(f)] -
  log [c(w,m) / c(m)]. It equals `conditional` up to what the edges of documents cut off.

The sums run over all words of the text, including stop words and the groups' own words.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Vector64
from evenhand.corpus.counting.accumulators import Table
from evenhand.errors import UsageError

Normalisation = Literal["conditional", "literal", "joint"]
Shift: TypeAlias = np.float64 | NDArray[np.float64]


def log_ratio(counts: Table, shift: Shift, smoothing: float = 0.0) -> Vector64:
    """Return log c(w, first) - log c(w, second) - shift for counts (2, ...); not finite where a count is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = np.log(np.asarray(counts, dtype=np.float64) + smoothing)
        return np.asarray(first - second - shift, dtype=np.float64)


def normalising_shift(
    normalisation: Normalisation, totals: Table, hits: Table, *, smoothing: float = 0.0, vocabulary: int = 0
) -> Shift:
    """Return what a normalisation subtracts from every log ratio; totals and hits are (2, ...), first group first.

    Not finite where a group has no co-occurrence at all, which leaves every word undefined.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = np.log(np.asarray(totals, dtype=np.float64) + smoothing * vocabulary)
        seen = np.log(np.asarray(hits, dtype=np.float64))
        by_sum, by_hits = sums[0] - sums[1], seen[0] - seen[1]
        shifts = {"conditional": by_sum, "literal": by_sum + by_hits, "joint": by_hits}
    return cast(Shift, shifts[normalisation])


def one_against_rest(counts: Table, group: int) -> Table:
    """Return (2, ...): the counts of a group and of all other groups together."""
    return cast(Table, np.stack([counts[group], np.delete(counts, group, axis=0).sum(axis=0)]))


def check_normalisation(name: str) -> Normalisation:
    """Return the name of a normalisation, or raise an error that lists the valid ones."""
    names = get_args(Normalisation)
    if name not in names:
        raise UsageError(f"unknown normalisation {name!r}", hint=f"use {', '.join(names)}")
    return cast(Normalisation, name)
