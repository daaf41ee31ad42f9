"""The statistics of each pair (probabilities, label, thresholds, distance from neutral) and their running sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows
from evenhand.errors import UsageError
from evenhand.models.nli.protocol import LABELS
from evenhand.words.probes import Points

ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2  # columns of Probabilities.matrix
SAYS = ("says_entailment", "says_neutral", "says_contradiction")
OFF = "off_neutral"


def threshold_name(tau: float) -> str:
    """Return the name of the score T:tau, such as `T:0.5`."""
    return f"T:{tau:g}"


@dataclass(frozen=True)
class Columns:
    """The statistics computed for each pair, one per column, in a fixed order."""

    thresholds: tuple[float, ...] = (0.5, 0.7)

    def __post_init__(self) -> None:
        for tau in self.thresholds:
            if not 0 <= tau < 1:
                raise UsageError(
                    f"a threshold must be at least 0 and below 1, got {tau}", hint="Dev et al. use 0.5 and 0.7"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return (*LABELS, *SAYS, OFF, *map(threshold_name, self.thresholds))

    def index(self, name: str) -> int:
        """Return the index of a column."""
        return self.names.index(name)

    def compute(self, probabilities: Matrix) -> Matrix:
        """Return the (..., columns) statistics of (..., 3) probabilities, in the same precision.

        A tie with neutral counts as neutral, a tie between the other two as entailment. T:tau is strict. `off_neutral`
        is the distance from (0, 1, 0), eq. 1 of Dawkins 2021.
        """
        e, n, c = (probabilities[..., label] for label in (ENTAILMENT, NEUTRAL, CONTRADICTION))
        neutral = (n >= e) & (n >= c)
        entails = ~neutral & (e >= c)
        values = np.empty((*probabilities.shape[:-1], len(self.names)), dtype=probabilities.dtype)
        values[..., :3] = probabilities
        values[..., 3], values[..., 4], values[..., 5] = entails, neutral, ~neutral & ~entails
        values[..., 6] = np.sqrt(e * e + (1 - n) ** 2 + c * c)
        for column, tau in enumerate(self.thresholds, start=7):
            values[..., column] = n > tau
        return values


class Tables:
    """Running sums and counts of every column, by pair of fillers and by phrase."""

    def __init__(self, shape: tuple[int, int, int], columns: int) -> None:
        phrases, premises, hypotheses = shape
        self.words = np.zeros((premises, hypotheses, columns))
        self.word_counts = np.zeros((premises, hypotheses))
        self.phrases = np.zeros((phrases, columns))
        self.phrase_counts = np.zeros(phrases)

    def add_grid(self, phrases: Rows, values: Matrix) -> None:
        """Add whole phrases: (phrases, premises, hypotheses, columns)."""
        self.words += values.sum(axis=0, dtype=np.float64)
        self.word_counts += len(phrases)
        self.phrases[phrases] += values.sum(axis=(1, 2), dtype=np.float64)
        self.phrase_counts[phrases] += values.shape[1] * values.shape[2]

    def merge(self, other: Tables, first: int) -> None:
        """Add the sums of some phrases; `first` is the index of the first of them."""
        span = slice(first, first + len(other.phrases))
        self.words += other.words
        self.word_counts += other.word_counts
        self.phrases[span] += other.phrases
        self.phrase_counts[span] += other.phrase_counts

    def add_points(self, points: Points, values: Matrix) -> None:
        """Add single pairs: (pairs, columns)."""
        np.add.at(self.words, (points.premise, points.hypothesis), values)
        np.add.at(self.word_counts, (points.premise, points.hypothesis), 1)
        np.add.at(self.phrases, points.phrase, values)
        np.add.at(self.phrase_counts, points.phrase, 1)

    @property
    def count(self) -> int:
        """Number of pairs added."""
        return int(self.word_counts.sum())

    @property
    def means(self) -> Matrix64:
        """Mean of every column over all pairs."""
        return np.asarray(self.words.sum(axis=(0, 1)) / max(self.count, 1))

    def word_means(self) -> Matrix64:
        """Return the (premises, hypotheses, columns) means, NaN where a sample has no pair of the two."""
        return divided(self.words, self.word_counts)


def divided(sums: Matrix64, counts: Matrix64) -> Matrix64:
    """Return sums over counts, NaN where the count is zero."""
    wide = np.broadcast_to(counts[..., None], sums.shape)
    return np.divide(sums, wide, out=np.full_like(sums, np.nan), where=wide > 0)
