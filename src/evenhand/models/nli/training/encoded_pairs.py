"""Labelled pairs as numbers, and the vectors of the words that occur in them."""

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

SPARE_SEED = 0  # the same stand-ins for unknown words in every run


@dataclass(frozen=True)
class Sentences:
    """Sentences of any length as one row of word numbers; sentence i is the `lengths[i]` words from `starts[i]`."""

    words: Rows
    starts: Rows
    lengths: Rows

    @classmethod
    def of(cls, texts: Sequence[str], lookup: Lookup) -> Sentences:
        """Rows of the tokens in a table of vectors with spare rows at its end."""
        rows = [lookup.sentence(text) for text in texts]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        words = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
        return cls(words, np.cumsum(lengths) - lengths, lengths)


@dataclass(frozen=True)
class Numbered:
    """Both sentences of every pair, and the labels."""

    premise: Sentences
    hypothesis: Sentences
    labels: Labels

    @classmethod
    def of(cls, pairs: LabelledPairs, lookup: Lookup) -> Numbered:
        """Pairs as rows of the table."""
        return cls(Sentences.of(pairs.premises, lookup), Sentences.of(pairs.hypotheses, lookup), pairs.labels)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def sides(self) -> tuple[Sentences, Sentences]:
        """Premises, then hypotheses."""
        return self.premise, self.hypothesis


def compacted(*several: Numbered) -> tuple[Rows, tuple[Numbered, ...]]:
    """The rows that occur anywhere, and the pairs with words numbered among these: a table as small as can be."""
    rows, numbers = np.unique(np.concatenate([side.words for n in several for side in n.sides]), return_inverse=True)
    ends = np.cumsum([len(side.words) for n in several for side in n.sides])[:-1]
    parts = iter(np.split(numbers, ends))

    def again(side: Sentences) -> Sentences:
        return Sentences(next(parts), side.starts, side.lengths)

    found = tuple(Numbered(again(n.premise), again(n.hypothesis), n.labels) for n in several)
    return np.asarray(rows, dtype=np.int64), found


def stand_ins(vectors: Vectors, rows: Rows, count: int) -> Matrix:
    """Vectors for unknown words: normal, as widely spread as the vectors of the words that occur."""
    known = rows[rows < len(vectors)]
    if not len(known):
        raise UsageError(
            f"{vectors.name} has no word of the training pairs",
            hint="are the vectors of the same language, and lower-cased where lower=True?",
        )
    spread = float(vectors.matrix[known].std(dtype=np.float64))
    drawn = np.random.default_rng(SPARE_SEED).normal(0, spread, (count, vectors.dim))
    return drawn.astype(np.float32)


def digest(matrix: Matrix) -> str:
    """Hash of the numbers that a member reads."""
    return hashlib.sha256(np.ascontiguousarray(matrix).data).hexdigest()
