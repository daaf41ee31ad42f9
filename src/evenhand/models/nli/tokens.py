"""From a sentence to rows of a table of vectors."""

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
    """Words (with their hyphens and apostrophes inside) and single punctuation marks.

    >>> tokens("The vice-president can afford a SUV.")
    ['The', 'vice-president', 'can', 'afford', 'a', 'SUV', '.']
    """
    return TOKEN.findall(sentence)


@dataclass(frozen=True)
class Lookup:
    """Rows of words in a table of the vectors with some spare rows at its end, for words the vectors do not have.

    A lost word always gets the same spare row (CRC-32 of its spelling), where published code draws one at random for
    each occurrence and so answers differently every time.
    """

    vectors: Vectors
    spare: int
    lower: bool = True
    _seen: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def known(self, word: str) -> bool:
        """Whether the vectors have the word."""
        return self._find(word) is not None

    def row(self, word: str) -> int:
        """The row of a token."""
        if word not in self._seen:
            found = self._find(word)
            # by the spelling as it stands, in lower case or not: trained models have learnt their stand-ins so
            lost = len(self.vectors) + zlib.crc32(word.encode()) % max(self.spare, 1)
            self._seen[word] = self.vectors.index[found] if found is not None else lost
        return self._seen[word]

    def rows(self, words: Iterable[str]) -> tuple[int, ...]:
        """The rows of tokens."""
        return tuple(map(self.row, words))

    def sentence(self, text: str) -> tuple[int, ...]:
        """The rows of a sentence."""
        return self.rows(tokens(text))

    def _find(self, word: str) -> str | None:
        return self.vectors.find(word.lower() if self.lower else word)


def table(vectors: Vectors, rows: Rows, spare: Matrix, *, normalise: bool) -> Matrix:
    """The vectors of some rows, those beyond the vocabulary from the stand-ins."""
    known = rows < len(vectors)
    found = np.empty((len(rows), vectors.dim), np.float32)
    found[known] = vectors.matrix[rows[known]]
    found[~known] = spare[rows[~known] - len(vectors)]
    return unit_rows(found).astype(np.float32) if normalise else found
