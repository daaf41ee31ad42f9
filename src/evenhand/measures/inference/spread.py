"""A score over models that differ in their training seed: how far it may be from what other seeds would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from evenhand.arrays import Matrix64, Vector64
from evenhand.measures.inference.scores import Interval
from evenhand.stats import interval
from evenhand.stats.bootstrap import LEVEL


@dataclass(frozen=True)
class Spread:
    """A score over models that differ in their seed: mean, standard deviation (ddof 1), and each value.

    `interval` is of the mean, over words and seeds: each bootstrap draw of the words of all slots gives a mean over
    the models, to which a draw of Student's error of a mean of so many seeds is added. What words and seeds do together
    is in both parts, so that the interval is rather too wide than too narrow. Without bootstrap draws it is Student's
    interval over the seeds alone, with a single model the interval over words alone. `sampling`: where only
    a sample of the pairs was asked, the range that holds the mean over all of them.
    """

    mean: float
    sd: float | None
    interval: Interval
    values: tuple[float, ...]
    sampling: Interval = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        found: dict[str, Any] = {"mean": self.mean, "sd": self.sd, "min": min(self.values), "max": max(self.values)}
        found |= {"values": list(self.values), "interval": list(self.interval) if self.interval else None}
        return found | ({"sampling": list(self.sampling)} if self.sampling else {})


def spread(values: Sequence[float], draws: Matrix64 | None, ends: tuple[float, float]) -> Spread:
    """Mean, deviation and interval of one score; `draws` has a row for each model, `ends` are what it can reach."""
    count, mean = len(values), float(np.mean(values))
    sd = float(np.std(values, ddof=1)) if count > 1 else None
    reach: Interval = None
    if draws is not None:
        reach = interval(draws.mean(axis=0) + _seed_error(draws))
    elif sd is not None:
        half = float(stdtrit(count - 1, (1 + LEVEL) / 2)) * sd / count**0.5
        reach = mean - half, mean + half
    inside = (max(reach[0], ends[0]), min(reach[1], ends[1])) if reach else None
    return Spread(mean, sd, inside, tuple(values))


def bounds(name: str) -> tuple[float, float]:
    """The smallest and largest value that a score can have."""
    most = 2**0.5 if name in ("d", "E") else 1.0
    return (-most if name.startswith("gap") else 0.0), most


def _seed_error(draws: Matrix64) -> Vector64:
    """Student's error of the mean over seeds, one for each draw: evenly spaced quantiles in a shuffled order."""
    count, size = draws.shape
    if count < 2:
        return np.zeros(size)
    quantiles = stdtrit(count - 1, (np.arange(size) + 0.5) / size)
    shuffled = np.random.default_rng(0).permutation(quantiles)
    return np.asarray(shuffled * draws.std(axis=0, ddof=1) / count**0.5)
