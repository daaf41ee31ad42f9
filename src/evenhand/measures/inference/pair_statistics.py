"""What is counted of every pair: its probabilities, its label, its thresholds, its distance from neutral."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows
from evenhand.errors import UsageError
from evenhand.words.probes import Points

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


class Tables:
    """Sums of every column, and counts, as the answers come in."""

    def __init__(self, shape: tuple[int, int, int], columns: int) -> None:
        phrases, premises, hypotheses = shape
        self.words = np.zeros((premises, hypotheses, columns))
        self.word_counts = np.zeros((premises, hypotheses))
        self.phrases = np.zeros((phrases, columns))
        self.phrase_counts = np.zeros(phrases)

    def add_grid(self, phrases: Rows, values: Matrix) -> None:
        """Whole phrases: (phrases, premises, hypotheses, columns)."""
        self.words += values.sum(axis=0, dtype=np.float64)
        self.word_counts += len(phrases)
        self.phrases[phrases] += values.sum(axis=(1, 2), dtype=np.float64)
        self.phrase_counts[phrases] += values.shape[1] * values.shape[2]

    def merge(self, other: Tables, first: int) -> None:
        """The sums over some phrases, the first of which has that number here."""
        some = slice(first, first + len(other.phrases))
        self.words += other.words
        self.word_counts += other.word_counts
        self.phrases[some] += other.phrases
        self.phrase_counts[some] += other.phrase_counts

    def add_points(self, points: Points, values: Matrix) -> None:
        """Single pairs: (pairs, columns)."""
        np.add.at(self.words, (points.premise, points.hypothesis), values)
        np.add.at(self.word_counts, (points.premise, points.hypothesis), 1)
        np.add.at(self.phrases, points.phrase, values)
        np.add.at(self.phrase_counts, points.phrase, 1)

    @property
    def count(self) -> int:
        """How many pairs were added."""
        return int(self.word_counts.sum())

    @property
    def means(self) -> Matrix64:
        """The mean of every column over all pairs."""
        return np.asarray(self.words.sum(axis=(0, 1)) / max(self.count, 1))

    def word_means(self) -> Matrix64:
        """(premises, hypotheses, columns) means; NaN where a sample has no pair of the two."""
        return divided(self.words, self.word_counts)


def divided(sums: Matrix64, counts: Matrix64) -> Matrix64:
    """Sums over counts, NaN where there is nothing to count."""
    wide = np.broadcast_to(counts[..., None], sums.shape)
    return np.divide(sums, wide, out=np.full_like(sums, np.nan), where=wide > 0)
