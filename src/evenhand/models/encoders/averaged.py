"""Sentence vectors from word vectors: the mean of the vectors of the words of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix
from evenhand.errors import UsageError, VocabularyError, few, unknown_name
from evenhand.models.encoders.protocol import POOLINGS, Pooling, layer_number
from evenhand.models.vectors import Vectors

WORD = re.compile(r"\w+(?:['’-]\w+)*")


class AveragedVectors:
    """Word vectors as a sentence encoder.

    A text is split into words, without punctuation. Words outside the vocabulary are left out; `unknown_words` names
    them, and a text without any known word is refused. The only layer is layer 0.

    Args:
        vectors: the word vectors.
    """

    layers = 0
    pooling: Pooling = "mean"

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors
        self.name = vectors.name
        self._rows: dict[str, int] = {}  # of the words looked up so far; -1 for unknown words

    def encode(
        self,
        texts: Sequence[str],
        *,
        layer: int | None = None,
        pooling: Pooling | None = None,
        tokens: int | None = None,
    ) -> Matrix:
        """Return the vector of each text; see `SentenceEncoder`.

        Words have no order here, so that `cls` and `last` are refused.

        Raises:
            VocabularyError: If no word of a text is in the vocabulary.
        """
        layer_number(layer, self.layers)
        how = pooling or self.pooling
        if how not in POOLINGS:
            raise unknown_name("pooling", how, POOLINGS)
        if how in ("cls", "last"):
            raise UsageError(f"averaged word vectors have no pooling {how!r}", hint="use mean or max")
        vectors = np.empty((len(texts), self.vectors.dim), dtype=np.float32)
        for number, text in enumerate(texts):
            rows = [row for row in map(self._row, words_of(text, number)) if row >= 0]
            if not rows:
                raise VocabularyError(
                    f"no word of text {number} is in the vocabulary of {self.name}: {text[:60]!r}",
                    hint="leave the text out, or use vectors with a larger vocabulary",
                )
            found = self.vectors.matrix[rows].astype(np.float64)
            vectors[number] = found.max(axis=0) if how == "max" else found.mean(axis=0)
        return vectors

    def encode_layers(
        self, texts: Sequence[str], *, pooling: Pooling | None = None, tokens: int | None = None
    ) -> NDArray[np.floating]:
        """Return the vectors of the only layer, (1, texts, dimensions)."""
        layers: NDArray[np.floating] = self.encode(texts, pooling=pooling)[None]
        return layers

    def unknown_words(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the words of each text that are not in the vocabulary."""
        return [
            tuple(word for word in words_of(text, number) if self._row(word) < 0) for number, text in enumerate(texts)
        ]

    def _row(self, word: str) -> int:
        if word not in self._rows:
            rows, _ = self.vectors.locate([word])
            self._rows[word] = int(rows[0]) if len(rows) else -1
        return self._rows[word]


def words_of(text: str, number: int = 0) -> list[str]:
    """Return the words of a text, without punctuation."""
    if not isinstance(text, str):
        raise UsageError(f"item {number} is not a text: {few([str(text)])}", hint="pass a list of texts")
    return WORD.findall(text)
