"""What the `sentences` view offers: a vector for each text, by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix
from evenhand.errors import UsageError

Pooling = Literal["mean", "mean-no-special", "cls", "last", "max"]
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)


@runtime_checkable
class SentenceEncoder(Protocol):
    """A model that gives each text a vector.

    Attributes:
        name: for reports.
        layers: number of layers above the input; layer 0 is the input embedding, layer `layers` the last one.
        pooling: how `encode` joins the token vectors by default: the model's own way where its folder says, else the
            last token of a causal model and the mean over all tokens of any other.
    """

    name: str
    layers: int
    pooling: Pooling

    def encode(
        self,
        texts: Sequence[str],
        *,
        layer: int | None = None,
        pooling: Pooling | None = None,
        tokens: int | None = None,
    ) -> Matrix:
        """Return the vector of each text, one row each.

        The result does not depend on the order of the texts, nor, up to rounding, on the batches.

        Args:
            texts: the texts.
            layer: which layer to read; the last one by default. Negative numbers count from the last.
            pooling: how token vectors are joined; the attribute `pooling` by default.
            tokens: the largest number of tokens in a batch.
        """

    def encode_layers(
        self, texts: Sequence[str], *, pooling: Pooling | None = None, tokens: int | None = None
    ) -> NDArray[np.floating]:
        """Return the vectors of all layers from one pass, (layers + 1, texts, dimensions)."""


@runtime_checkable
class ReportsUnknownWords(Protocol):
    """An encoder that can say which words of a text it cannot read."""

    def unknown_words(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the unknown words of each text: those outside the vocabulary, or read as the unknown token."""


def unknown_words(encoder: SentenceEncoder, texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the words of each text that an encoder cannot read; none where it does not say."""
    if isinstance(encoder, ReportsUnknownWords):
        return encoder.unknown_words(texts)
    return [()] * len(texts)


def layer_number(layer: int | None, layers: int) -> int:
    """Return the number of a layer from 0 to `layers`; None is the last one, negative numbers count from it."""
    index = layers if layer is None else layer + layers + 1 if layer < 0 else layer
    if not 0 <= index <= layers:
        raise UsageError(f"layer {layer} does not exist", hint=f"use a layer from 0 to {layers}")
    return index
