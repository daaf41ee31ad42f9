"""Sums that grow with the fillers and not with the pairs: by pair of fillers, and by phrase."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows
from evenhand.words.probes import Points


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
