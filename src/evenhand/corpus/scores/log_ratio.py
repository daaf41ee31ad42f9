"""The bias score of Bordia & Bowman 2019 (section 3.3.1) out of counts, with the three readings of its normalisation.

c(w, g) is the company of word w with group g, c(g) the number of words of g in the text. Printed is
P(w|g) = [c(w,g) / sum_i c(w_i,g)] / [c(g) / sum_i c(w_i)], and bias(w) = log P(w|f) / P(w|m).

- `conditional` (default): bias = log [c(w,f) / sum_i c(w_i,f)] - log [c(w,m) / sum_i c(w_i,m)]. A word that does not
  care scores 0, and the published means and deviations fit this reading only.
- `literal`: as printed. The group's frequency is divided out twice, so that in a corpus with five male words for one
  female word a word that does not care scores log 5, female.
- `joint`: the numerator as a joint probability, c(w,g) over the sum of both groups: log [c(w,f) / c(f)] -
  log [c(w,m) / c(m)]. The same as conditional but for what the edges of documents cut off.

The sums run over all words of the text, stop words and the groups' own words included.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Vector64
from evenhand.errors import UsageError

Normalisation = Literal["conditional", "literal", "joint"]


def log_ratio(company: NDArray[Any], offset: Any, smoothing: float = 0.0) -> Vector64:
    """The log of c(w, first) - log c(w, second) - offset for company (2, ...); not finite where a count is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = np.log(np.asarray(company, dtype=np.float64) + smoothing)
        return np.asarray(first - second - offset, dtype=np.float64)


def offset(
    how: Normalisation, totals: NDArray[Any], hits: NDArray[Any], *, smoothing: float = 0.0, vocabulary: int = 0
) -> Any:
    """What a normalisation takes off every log ratio; totals and hits are (2, ...), first group over second."""
    sums = np.log(np.asarray(totals, dtype=np.float64) + smoothing * vocabulary)
    seen = np.log(np.asarray(hits, dtype=np.float64))
    by_sum, by_hits = sums[0] - sums[1], seen[0] - seen[1]
    return {"conditional": by_sum, "literal": by_sum + by_hits, "joint": by_hits}[how]


def one_against_rest(company: NDArray[Any], group: int) -> NDArray[Any]:
    """(2, ...): the group, and all others together; with two groups that is simply the other one."""
    return np.stack([company[group], np.delete(company, group, axis=0).sum(axis=0)])


def checked_normalisation(how: str) -> Normalisation:
    """The normalisation itself, or an error with the known ones."""
    known = get_args(Normalisation)
    if how not in known:
        raise UsageError(f"unknown normalisation {how!r}", hint=f"use {', '.join(known)}")
    return how  # type: ignore[return-value]
