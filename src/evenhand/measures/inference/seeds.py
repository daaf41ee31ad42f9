"""The same probe on models that differ in their training seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from evenhand.errors import UsageError
from evenhand.measures.inference.result import ProbeResult

LEVEL = 0.95


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over seeds, and Student's interval for the mean."""

    mean: float
    sd: float
    interval: tuple[float, float]
    values: tuple[float, ...]


def over_seeds(results: Sequence[ProbeResult]) -> Mapping[str, Spread]:
    """Every headline score over the seeds; one training run tells nothing about a method."""
    if len(results) < 2:
        raise UsageError(f"a spread over seeds needs at least 2 results, got {len(results)}")
    if len({result.probe for result in results}) > 1:
        raise UsageError(f"results of different probes: {sorted({result.probe for result in results})}")
    return {name: _spread([result.headline[name] for result in results]) for name in results[0].headline}


def _spread(values: Sequence[float]) -> Spread:
    mean, sd = float(np.mean(values)), float(np.std(values, ddof=1))
    reach = float(stdtrit(len(values) - 1, (1 + LEVEL) / 2)) * sd / len(values) ** 0.5
    return Spread(mean, sd, (mean - reach, mean + reach), tuple(values))
