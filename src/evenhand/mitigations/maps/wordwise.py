"""Maps that depend on the word: a table of new vectors, and a map that exempts some words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from evenhand.arrays import Floats, Matrix64
from evenhand.errors import UsageError
from evenhand.mitigations.maps.vectormap import (
    Array,
    Backend,
    State,
    VectorMap,
    Words,
    frozen,
    plain_words,
    same_length,
)

ANY_DIMENSION = 1_000_000  # tests whether a map that takes any dimension keeps it


@dataclass(frozen=True, eq=False, repr=False)
class WordTable(VectorMap):
    """New vectors for the words listed; every other word stays unchanged.

    Words match by exact spelling: a method that fits a table uses the spellings of the vocabulary.
    """

    kind: ClassVar[str] = "word-table"

    table: Mapping[str, Floats]

    def __post_init__(self) -> None:
        if not self.table:
            raise UsageError("a word table needs at least one word")
        rows = list(self.table.values())
        matrix = frozen(rows, ndim=2, what="the vectors of a word table")
        object.__setattr__(self, "table", dict(zip(self.table, matrix, strict=True)))

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.table)}

    @cached_property
    def _matrix(self) -> Matrix64:
        return frozen(list(self.table.values()), ndim=2, what="the vectors of a word table")

    @property
    def in_dim(self) -> int:
        """Return the number of coordinates."""
        return int(self._matrix.shape[1])

    @property
    def needs_words(self) -> bool:
        """Return True."""
        return True

    def transform(self, x: Array, at: Backend, words: Words | None) -> Array:
        """Return the rows with those of listed words replaced."""
        row_of = self._row_of
        matches = [(row, row_of[word]) for row, word in enumerate(words or ()) if word in row_of]
        if not matches:
            return x
        out = x.copy() if at.xp is np else x.clone()
        rows, entries = (list(side) for side in zip(*matches, strict=True))
        out[rows] = at.put(self._matrix[entries])
        return out

    def state(self) -> State:
        """Return words and vectors."""
        return State({"vectors": self._matrix}, {"words": list(self.table)})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the table of these words and vectors."""
        words, vectors = state.config["words"], state.arrays["vectors"]
        same_length(len(words), len(vectors), what="words and vectors of the table")
        return cls(dict(zip(words, vectors, strict=True)))


@dataclass(frozen=True, eq=False, repr=False)
class ExceptWords(VectorMap):
    """A map for all words except some, which stay unchanged. Words match by exact spelling."""

    kind: ClassVar[str] = "except-words"

    map: VectorMap
    words: Iterable[str]

    def __post_init__(self) -> None:
        dim = self.map.in_dim or ANY_DIMENSION
        if self.map.out_dim_of(dim) != dim:
            raise UsageError(f"{self.map!r} changes the dimension, so no word can stay unchanged")
        object.__setattr__(self, "words", plain_words(self.words, what="ExceptWords"))

    @cached_property
    def _exempt(self) -> frozenset[str]:
        return frozenset(self.words)

    @property
    def in_dim(self) -> int | None:
        """Return that of the inner map."""
        return self.map.in_dim

    def out_dim_of(self, dim: int | None) -> int | None:
        """Return `dim`."""
        return dim

    @property
    def needs_words(self) -> bool:
        """Return True."""
        return True

    @property
    def rank_removed(self) -> int:
        """Return that of the inner map, which applies to words that are not exempt."""
        return self.map.rank_removed

    def transform(self, x: Array, at: Backend, words: Words | None) -> Array:
        """Apply the inner map and restore the exempt rows."""
        mapped = self.map.transform(x, at, words)
        rows = [row for row, word in enumerate(words or ()) if word in self._exempt]
        if not rows:
            return mapped
        exempt = np.zeros(len(x), dtype=np.bool_)
        exempt[rows] = True
        return at.xp.where(at.put(exempt)[:, None], x, mapped)

    def state(self) -> State:
        """Return the words and the inner map."""
        return State({}, {"words": list(self.words)}, (self.map,))

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the map with these words and this inner map."""
        return cls(state.children[0], state.config["words"])
