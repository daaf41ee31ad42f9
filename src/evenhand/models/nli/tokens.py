"""Tokenise sentences and look tokens up in word vectors."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from evenhand.arrays import Matrix, Rows, unit_rows
from evenhand.models.vectors import Vectors

TOKEN = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")


def tokens(sentence: str) -> list[str]:
    """Split a sentence into words, with inner hyphens and apostrophes, and punctuation marks.

    >>> tokens("The vice-president can afford a SUV.")
    ['The', 'vice-president', 'can', 'afford', 'a', 'SUV', '.']
    """
    return TOKEN.findall(sentence)


@dataclass(frozen=True)
class Lookup:
    """Rows of tokens in a table: the vectors, followed by spare rows for out-of-vocabulary words.

    An out-of-vocabulary word always gets the same spare row (CRC-32 of its spelling). Published code draws one at
    random for each occurrence, so that its answers differ between runs.
    """

    vectors: Vectors
    spare: int
    lower: bool = True
    _rows: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def known(self, word: str) -> bool:
        """Return whether the vectors have the word."""
        return self._find(word) is not None

    def row(self, word: str) -> int:
        """Return the row of a token."""
        if word not in self._rows:
            spelling = self._find(word)
            # The spelling keeps its case, with `lower` too: trained models depend on this assignment. Lone surrogates,
            # which JSON can contain, have no UTF-8 form.
            spare = len(self.vectors) + zlib.crc32(word.encode(errors="surrogatepass")) % max(self.spare, 1)
            self._rows[word] = self.vectors.index[spelling] if spelling is not None else spare
        return self._rows[word]

    def rows(self, words: Iterable[str]) -> tuple[int, ...]:
        """Return the rows of tokens."""
        return tuple(map(self.row, words))

    def sentence(self, text: str) -> tuple[int, ...]:
        """Return the rows of a sentence's tokens."""
        return self.rows(tokens(text))

    def _find(self, word: str) -> str | None:
        return self.vectors.find(word.lower() if self.lower else word)


def table(vectors: Vectors, rows: Rows, spare: Matrix, *, normalise: bool) -> Matrix:
    """Return the vectors of some rows; rows beyond the vocabulary are taken from `spare`."""
    known = rows < len(vectors)
    matrix = np.empty((len(rows), vectors.dim), np.float32)
    matrix[known] = vectors.matrix[rows[known]]
    matrix[~known] = spare[rows[~known] - len(vectors)]
    return unit_rows(matrix).astype(np.float32) if normalise else matrix
