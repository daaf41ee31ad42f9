"""ELMo as a sentence encoder, and vectors of single words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix, Rows
from evenhand.errors import DegenerateError, UsageError, VocabularyError, counted, require, unknown_name
from evenhand.models.encoders.elmo.encoder import Elmo, Sentence
from evenhand.models.encoders.protocol import POOLINGS, Pooling, layer_number
from evenhand.models.encoders.sentences import pool
from evenhand.models.lm.likelihood import check_texts
from evenhand.models.tokenizing import split_words as split
from evenhand.models.vectors import Vectors

if TYPE_CHECKING:
    from torch import Tensor


class ElmoSentences:
    """The sentence vectors of an ELMo model.

    Texts are split into words and punctuation marks; case is kept. Boundaries of sentences are not pooled, so `mean`
    and `mean-no-special` are the same, and there is no `cls`.

    Args:
        elmo: the model.
        pooling: the default pooling.
        mix: a score for each layer. If given, the scalar mix gamma * sum_k softmax(mix)_k layer_k is one more layer,
            the last one. Equal scores give the mean of the layers.
        gamma: factor of the mix.

    Attributes:
        layers: number of the last layer: that of the biLM, or one more with a mix.
    """

    def __init__(
        self, elmo: Elmo, *, pooling: Pooling = "mean", mix: Sequence[float] | None = None, gamma: float = 1.0
    ) -> None:
        if mix is not None and len(mix) != elmo.layers + 1:
            raise UsageError(f"the mix has {counted(len(mix), 'score')}, and the model {elmo.layers + 1} layers")
        self.elmo, self.name = elmo, elmo.name
        self.pooling: Pooling = pooling
        self._combinations = np.eye(elmo.layers + 1)
        if mix is not None:
            self._combinations = np.vstack([self._combinations, mixing_weights(mix, gamma)])
        self.layers = len(self._combinations) - 1

    def encode(
        self,
        texts: Sequence[str],
        *,
        layer: int | None = None,
        pooling: Pooling | None = None,
        tokens: int | None = None,
    ) -> Matrix:
        """Return the vector of each text; see `SentenceEncoder`."""
        weights = self._combinations[[layer_number(layer, self.layers)]]
        vectors: Matrix = self._encode(texts, weights, pooling, tokens)[0]
        return vectors

    def encode_layers(
        self, texts: Sequence[str], *, pooling: Pooling | None = None, tokens: int | None = None
    ) -> NDArray[np.floating]:
        """Return the vectors of all layers; see `SentenceEncoder`."""
        return self._encode(texts, self._combinations, pooling, tokens)

    def _encode(
        self, texts: Sequence[str], weights: NDArray[np.float64], pooling: Pooling | None, tokens: int | None
    ) -> NDArray[np.floating]:
        """Return (rows of weights, texts, dim): each row of weights is a linear combination of the layers."""
        torch = require("torch", extra="models")
        how = pooling or self.pooling
        if how not in POOLINGS:
            raise unknown_name("pooling", how, POOLINGS)
        if how == "cls":
            raise UsageError("ELMo has no [CLS] token", hint="use mean, last or max")
        distinct = list(dict.fromkeys(check_texts(texts)))
        sentences = [split(text) for text in distinct]
        for text, words in zip(distinct, sentences, strict=True):
            if not words:
                raise UsageError(f"the text {text!r} has no words", hint="leave empty texts out")
        vectors = np.zeros((len(weights), len(distinct), self.elmo.dim), np.float32)
        combinations = torch.as_tensor(weights, dtype=torch.float32, device=self.elmo.device)

        def consume(batch: Rows, layers: list[Tensor], lengths: Tensor) -> None:
            mask = (torch.arange(layers[0].shape[1], device=lengths.device) < lengths[:, None]).float()
            for number, combination in enumerate(combinations):
                parts = [share * layer.float() for share, layer in zip(combination, layers, strict=True) if share]
                vectors[number, batch] = pool(torch.stack(parts).sum(0), mask, how).cpu().numpy()

        self.elmo.run(sentences, consume, tokens=tokens)
        if not np.isfinite(vectors).all():
            raise DegenerateError(f"{self.name}: a sentence vector contains NaN or infinity", hint="check the weights")
        rows = {text: row for row, text in enumerate(distinct)}
        return vectors[:, [rows[text] for text in texts]]


def mixing_weights(scores: Sequence[float], gamma: float = 1.0) -> NDArray[np.float64]:
    """Return the weights of a scalar mix: gamma * softmax(scores).

    >>> mixing_weights([0.0, 0.0, 0.0, 0.0]).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    powers = np.exp(np.asarray(scores, np.float64) - np.max(scores))
    weights: NDArray[np.float64] = gamma * powers / powers.sum()
    return weights


def word_vectors(elmo: Elmo, words: Iterable[str]) -> Vectors:
    """Return the token vectors of words: layer 0, which does not depend on the context."""
    distinct = list(dict.fromkeys(words))
    table = elmo.token_table(distinct)
    return Vectors(distinct, table.vectors[table(distinct)].float().cpu().numpy(), name=elmo.name)


def average_vectors(elmo: Elmo, words: Iterable[str], sentences: Iterable[Sentence]) -> tuple[Vectors, ...]:
    """Return, for each layer, the mean vector of each word over its occurrences in sentences.

    Dev et al. 2019 learn a direction for each layer from such averages.

    Raises:
        VocabularyError: If a word occurs in none of the sentences.
    """
    torch = require("torch", extra="models")
    rows = {word: row for row, word in enumerate(dict.fromkeys(words))}
    with_words = [sentence for sentence in sentences if any(word in rows for word in sentence)]
    sums = torch.zeros(elmo.layers + 1, len(rows), elmo.dim, dtype=torch.float64, device=elmo.device)
    counts = np.zeros(len(rows), np.int64)

    def consume(batch: Rows, layers: list[Tensor], lengths: Tensor) -> None:
        found = [
            (place, position, rows[word])
            for place, number in enumerate(batch)
            for position, word in enumerate(with_words[number])
            if word in rows
        ]
        place, position, row = torch.tensor(found, device=elmo.device).T
        for layer, total in zip(layers, sums, strict=True):
            total.index_add_(0, row, layer[place, position].double())
        np.add.at(counts, row.cpu().numpy(), 1)

    elmo.run(with_words, consume)
    if missing := [word for word, row in rows.items() if not counts[row]]:
        raise VocabularyError(f"{missing[0]!r} occurs in none of the sentences", hint="give more sentences")
    means = sums.cpu().numpy() / counts[:, None]
    return tuple(
        Vectors(list(rows), mean.astype(np.float32), name=f"{elmo.name}, layer {layer}")
        for layer, mean in enumerate(means)
    )
