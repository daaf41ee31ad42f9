"""Labelled pairs as word indices, and vectors for out-of-vocabulary words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from evenhand.arrays import Matrix, Rows
from evenhand.errors import UsageError
from evenhand.models.nli.labelled_pairs import LabelledPairs, Labels
from evenhand.models.nli.tokens import Lookup
from evenhand.models.vectors import Vectors

SPARE_SEED = 0  # the same vectors for out-of-vocabulary words in every run


@dataclass(frozen=True)
class SentenceRows:
    """Sentences of any length as one array of word indices; sentence i has `lengths[i]` words from `starts[i]` on."""

    words: Rows
    starts: Rows
    lengths: Rows

    @classmethod
    def of(cls, texts: Sequence[str], lookup: Lookup) -> SentenceRows:
        """Look up the tokens of sentences in a table of vectors followed by spare rows."""
        rows = [lookup.sentence(text) for text in texts]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        words = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
        return cls(words, np.cumsum(lengths) - lengths, lengths)


@dataclass(frozen=True)
class EncodedPairs:
    """Premise, hypothesis and label of every pair."""

    premise: SentenceRows
    hypothesis: SentenceRows
    labels: Labels

    @classmethod
    def of(cls, pairs: LabelledPairs, lookup: Lookup) -> EncodedPairs:
        """Look up the words of labelled pairs."""
        return cls(SentenceRows.of(pairs.premises, lookup), SentenceRows.of(pairs.hypotheses, lookup), pairs.labels)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def sides(self) -> tuple[SentenceRows, SentenceRows]:
        """Premises, then hypotheses."""
        return self.premise, self.hypothesis


def compact(*data: EncodedPairs) -> tuple[Rows, tuple[EncodedPairs, ...]]:
    """Return the rows that occur anywhere, and the pairs with words numbered among them, for the smallest table."""
    rows, numbers = np.unique(np.concatenate([side.words for d in data for side in d.sides]), return_inverse=True)
    ends = np.cumsum([len(side.words) for d in data for side in d.sides])[:-1]
    parts = iter(np.split(numbers, ends))

    def renumber(side: SentenceRows) -> SentenceRows:
        return SentenceRows(next(parts), side.starts, side.lengths)

    smaller = tuple(EncodedPairs(renumber(d.premise), renumber(d.hypothesis), d.labels) for d in data)
    return np.asarray(rows, dtype=np.int64), smaller


def spare_vectors(vectors: Vectors, rows: Rows, count: int) -> Matrix:
    """Return random vectors for out-of-vocabulary words, with the standard deviation of the vectors that occur."""
    present = rows[rows < len(vectors)]
    if not len(present):
        raise UsageError(
            f"{vectors.name} has no vector for any word of the training pairs",
            hint="check the language of the vectors, and lower=False if they are cased",
        )
    sd = float(vectors.matrix[present].std(dtype=np.float64))
    sample = np.random.default_rng(SPARE_SEED).normal(0, sd, (count, vectors.dim))
    return sample.astype(np.float32)


def digest(matrix: Matrix) -> str:
    """Return the SHA-256 of the vectors that a member reads."""
    return hashlib.sha256(np.ascontiguousarray(matrix).data).hexdigest()
