"""The most biased words of each side, chosen in the vectors before mitigation, as Gonen & Goldberg 2019 do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.errors import DegenerateError
from evenhand.measures.geometry.leaning import Pair, Score, leaning, most_biased
from evenhand.measures.geometry.pool import Pool
from evenhand.models.vectors import Vectors

FEWEST = 2  # words a side: one has no cluster and nothing to train on


@dataclass(frozen=True, eq=False)
class Extremes:
    """The chosen words, positive side first; `labels` are 0 for it and 1 for the other; `scores` in the reference."""

    chosen: Pool
    labels: Rows
    scores: Vector64

    @property
    def per_side(self) -> int:
        """How many words each side has: as asked, or half of what there is."""
        return len(self.chosen) // 2

    def to_dict(self) -> dict[str, Any]:
        """How many, and the scores of the least biased words chosen: near 0, these are no extremes."""
        last = [float(self.scores[self.per_side - 1]), float(self.scores[-1])]
        return {"per_side": self.per_side, "least_biased": last, "sizes": dict(self.chosen.sizes)}


def extremes(pool: Pool, before: Vectors, pair: Pair, *, score: Score, per_side: int) -> Extremes:
    """The n words of the pool that lean most to each pole, by their score in the reference."""
    scores = leaning(before, pool.reference_rows, pair, score=score)
    positive, negative = most_biased(scores, per_side)
    if len(positive) < FEWEST:
        raise DegenerateError(f"{pool.name} has {len(pool)} words, which is not enough for two sides")
    both = np.concatenate([positive, negative])
    return Extremes(pool.pick(both), np.repeat([0, 1], len(positive)), scores[both])
