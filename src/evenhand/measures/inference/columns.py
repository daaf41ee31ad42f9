"""What is counted of every pair: its probabilities, its label, its thresholds, its distance from neutral."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import UsageError

ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2  # columns of Probabilities.matrix
SAYS = ("says_entailment", "says_neutral", "says_contradiction")
OFF = "off_neutral"


def threshold_name(tau: float) -> str:
    """How T:tau is written: T:0.5."""
    return f"T:{tau:g}"


@dataclass(frozen=True)
class Columns:
    """The columns for some thresholds, in a fixed order."""

    thresholds: tuple[float, ...] = (0.5, 0.7)

    def __post_init__(self) -> None:
        for tau in self.thresholds:
            if not 0 <= tau < 1:
                raise UsageError(f"a threshold lies between 0 and 1, got {tau}", hint="use 0.5 and 0.7, as Dev et al.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return ("entailment", "neutral", "contradiction", *SAYS, OFF, *map(threshold_name, self.thresholds))

    def at(self, name: str) -> int:
        """The place of a column."""
        return self.names.index(name)

    def places(self, names: Iterable[str]) -> list[int]:
        """The places of several columns."""
        return [self.at(name) for name in names]

    def of(self, probabilities: Matrix) -> Matrix:
        """(..., columns) of (..., 3) probabilities, in the same precision.

        A tie with neutral counts as neutral, one between the other two as entailment; T:tau is strict. `off_neutral`
        is the distance of eq. 1 of Dawkins 2021 from the triple that is all neutral.
        """
        e, n, c = (probabilities[..., label] for label in (ENTAILMENT, NEUTRAL, CONTRADICTION))
        neutral = (n >= e) & (n >= c)
        entails = ~neutral & (e >= c)
        values = np.empty((*probabilities.shape[:-1], len(self.names)), dtype=probabilities.dtype)
        values[..., :3] = probabilities
        values[..., 3], values[..., 4], values[..., 5] = entails, neutral, ~neutral & ~entails
        values[..., 6] = np.sqrt(e * e + (1 - n) ** 2 + c * c)
        for place, tau in enumerate(self.thresholds, start=7):
            values[..., place] = n > tau
        return values
