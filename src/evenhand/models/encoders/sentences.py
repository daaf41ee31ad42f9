"""Sentence vectors of transformers: every layer in one pass, with the pooling stated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix
from evenhand.errors import DegenerateError, FormatError, UsageError, require, unknown_name
from evenhand.models.batching import run_in_batches, tokens_at_once
from evenhand.models.encoders.protocol import POOLINGS, Pooling
from evenhand.models.lm.likelihood import check_texts
from evenhand.models.transformer import Transformer

if TYPE_CHECKING:
    import torch


class TransformerSentences:
    """The sentence vectors of a transformer.

    Texts longer than the model's window are refused rather than cut.

    Args:
        transformer: the model.
        pooling: the default pooling.
    """

    def __init__(self, transformer: Transformer, *, pooling: Pooling = "mean") -> None:
        self.transformer = transformer
        self.name = transformer.name
        self.pooling: Pooling = pooling
        self.layers = int(transformer.model.config.num_hidden_layers)

    def encode(
        self,
        texts: Sequence[str],
        *,
        layer: int | None = None,
        pooling: Pooling | None = None,
        tokens: int | None = None,
    ) -> Matrix:
        """Return the vector of each text; see `SentenceEncoder`."""
        index = self.layers if layer is None else layer + self.layers + 1 if layer < 0 else layer
        if not 0 <= index <= self.layers:
            raise UsageError(f"layer {layer} does not exist", hint=f"use a layer from 0 to {self.layers}")
        vectors: Matrix = self._encode(texts, [index], pooling, tokens)[0]
        return vectors

    def encode_layers(
        self, texts: Sequence[str], *, pooling: Pooling | None = None, tokens: int | None = None
    ) -> NDArray[np.floating]:
        """Return the vectors of all layers; see `SentenceEncoder`."""
        return self._encode(texts, list(range(self.layers + 1)), pooling, tokens)

    def _encode(
        self, texts: Sequence[str], layers: list[int], pooling: Pooling | None, tokens: int | None
    ) -> NDArray[np.floating]:
        torch = require("torch", extra="models")
        how = pooling or self.pooling
        if how not in POOLINGS:
            raise unknown_name("pooling", how, POOLINGS)
        encoded = self.transformer.tokenizer(list(check_texts(texts)), return_special_tokens_mask=True, verbose=False)
        ids: list[list[int]] = encoded["input_ids"]
        special: list[list[int]] = encoded["special_tokens_mask"]
        lengths = [len(row) for row in ids]
        self._check_lengths(lengths)
        width = int(self.transformer.model.config.hidden_size)
        vectors = np.zeros((len(layers), len(ids), width), dtype=np.float32)

        def compute(rows: NDArray[np.int64]) -> None:
            states = self._hidden_states([ids[row] for row in rows], layers)
            masks = torch.zeros(states[0].shape[:2], device=states[0].device)
            for place, row in enumerate(rows):
                counted = [how != "mean-no-special" or not flag for flag in special[row]]
                masks[place, : lengths[row]] = torch.tensor(counted, dtype=torch.float32)
            for number, state in enumerate(states):
                vectors[number, rows] = pool(state.float(), masks, how).cpu().numpy()

        run_in_batches(lengths, compute, tokens=tokens or tokens_at_once(self.transformer.device))
        if not np.isfinite(vectors).all():
            raise DegenerateError(f"{self.name}: a sentence vector contains NaN or infinity", hint="check the weights")
        return vectors

    def _hidden_states(self, ids: list[list[int]], layers: list[int]) -> list[torch.Tensor]:
        """Return the states of the chosen layers, (texts, longest, dimensions) each."""
        torch = require("torch", extra="models")
        longest = max(map(len, ids))
        rows = np.zeros((len(ids), longest), dtype=np.int64)
        mask = np.zeros((len(ids), longest), dtype=np.int64)
        for row, sequence in enumerate(ids):
            rows[row, : len(sequence)] = sequence
            mask[row, : len(sequence)] = 1
        self.transformer.check_ids(rows)
        with torch.inference_mode():
            output = self.transformer.model(
                input_ids=torch.from_numpy(rows).to(self.transformer.device),
                attention_mask=torch.from_numpy(mask).to(self.transformer.device),
                output_hidden_states=True,
            )
        states = output.hidden_states
        if states is None or len(states) != self.layers + 1:
            raise FormatError(
                f"{self.name}: {type(self.transformer.model).__name__} does not return the states of its layers",
                hint="use an encoder or a language model of transformers",
            )
        return [states[layer] for layer in layers]

    def _check_lengths(self, lengths: list[int]) -> None:
        limit = self.transformer.window
        longest = int(np.argmax(lengths)) if lengths else 0
        if lengths and lengths[longest] > limit:
            raise UsageError(
                f"text {longest} has {lengths[longest]:,} tokens, and the model reads {limit:,}",
                hint="split the text, or shorten it",
            )
        if lengths and min(lengths) == 0:
            raise UsageError(f"text {lengths.index(0)} has no tokens", hint="leave empty texts out")


def pool(states: torch.Tensor, mask: torch.Tensor, how: Pooling) -> torch.Tensor:
    """Return one vector for each row of token states.

    Args:
        states: (rows, tokens, dimensions).
        mask: 1 for tokens that count, (rows, tokens).
        how: the mean or the maximum of the tokens that count, the first token, or the last token that counts.
    """
    import torch

    if how == "cls":
        return states[:, 0]
    if how == "last":
        positions = torch.arange(mask.shape[1], device=mask.device)
        return states[torch.arange(len(states), device=states.device), (mask * positions).argmax(dim=1)]
    if how == "max":
        return states.masked_fill(mask[..., None] == 0, float("-inf")).amax(dim=1)
    return (states * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
