"""One probe on two conditions, such as models trained before and after a mitigation: seed by seed, draw by draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.errors import UsageError
from evenhand.measures.inference.seeds import SeedsResult, Spread, bounds, spread


@dataclass(frozen=True)
class Comparison:
    """Two conditions and `differences`, after minus before; an interval that leaves out 0 tells them apart.

    Both conditions were asked the same pairs, so that words cancel; seeds are taken in their order.
    """

    before: SeedsResult
    after: SeedsResult
    differences: Mapping[str, Spread]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        differences = {name: found.to_dict() for name, found in self.differences.items()}
        return {"before": self.before.to_dict(), "after": self.after.to_dict(), "differences": differences}


def compare(before: SeedsResult, after: SeedsResult) -> Comparison:
    """The paired difference of every score that both have."""
    if len(before.results) != len(after.results):
        raise UsageError(
            f"{len(before.results)} models before and {len(after.results)} after: they are compared seed by seed",
            hint="give as many models of one as of the other",
        )
    _refuse_other_pairs(before, after)
    names = [name for name in before.scores if name in after.scores]
    return Comparison(before, after, {name: _difference(before, after, name) for name in names})


def _refuse_other_pairs(before: SeedsResult, after: SeedsResult) -> None:
    one, other = before.first, after.first
    same = one.asked == other.asked and one.seed == other.seed and one.params["sample"] == other.params["sample"]
    if not same:
        raise UsageError(
            f"{one.probe} and {other.probe} were not asked about the same pairs",
            hint="use the same probe, vocabulary, sample and seed for both",
        )


def _difference(before: SeedsResult, after: SeedsResult, name: str) -> Spread:
    values = [a - b for b, a in zip(before.scores[name].values, after.scores[name].values, strict=True)]
    pairs = [
        (one.drawn.get(name), other.drawn.get(name)) for one, other in zip(before.results, after.results, strict=True)
    ]
    rows = [a - b for b, a in pairs if a is not None and b is not None]
    draws = np.stack(rows) if len(rows) == len(pairs) else None
    low, high = bounds(name)
    return spread(values, draws, (low - high, high - low))
