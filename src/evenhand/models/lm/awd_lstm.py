"""The word-level language model of Merity et al. 2018, which Bordia & Bowman 2019 train."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.nn import functional

from evenhand.models.lm.masks import locked, mask
from evenhand.models.lm.recurrence import LSTMLayer, State
from evenhand.models.lm.settings import Settings

States: TypeAlias = "tuple[State, ...]"
SPREAD = 0.1  # of the word vectors at the start


class Output(NamedTuple):
    """What a stretch of text gave: scores of the next word, the state after it, and the last layer's activations."""

    logits: torch.Tensor  # (steps, batch, words)
    state: States
    raw: torch.Tensor  # (steps, batch, embedding), before dropout: TAR looks at its change in time
    dropped: torch.Tensor  # after dropout: AR looks at its size


class AWDLSTM(nn.Module):  # type: ignore[misc]
    """LSTM layers between an embedding and a softmax, with dropout everywhere and dropped recurrent weights.

    `encoder.weight` are the input and `decoder.weight` the output word vectors: one matrix when tied. Untied, the last
    layer keeps the width of the embedding, so that the two models differ in the decoder alone.

    What it does not tell you: perplexities of closed vocabularies compare only over the same vocabulary.
    """

    def __init__(self, words: int, settings: Settings | None = None, *, seed: int = 0) -> None:
        super().__init__()
        self.settings = settings or Settings()
        self.encoder = nn.Embedding(words, self.settings.embedding)
        self.layers = nn.ModuleList(LSTMLayer(*sizes) for sizes in _sizes(self.settings))
        self.decoder = nn.Linear(self.settings.embedding, words)
        if self.settings.tied:
            self.decoder.weight = self.encoder.weight
        self._initialise(torch.Generator().manual_seed(seed))

    @property
    def words(self) -> int:
        """Size of the vocabulary."""
        return int(self.encoder.num_embeddings)

    @property
    def device(self) -> Any:
        """Where the weights are."""
        return self.encoder.weight.device

    def start(self, batch: int, *, dtype: Any = None) -> States:
        """The zero state of every layer."""
        like = torch.empty(0, dtype=dtype or self.encoder.weight.dtype, device=self.device)
        return tuple(layer.start(batch, like) for layer in self.layers)

    def forward(
        self, tokens: torch.Tensor, state: States | None = None, *, dtype: Any = None, generator: Any = None
    ) -> Output:
        """Scores of the word after each token of (steps, batch).

        Args:
            tokens: numbers of words.
            state: of an earlier stretch; zero unless given.
            dtype: precision of the arithmetic, such as torch.bfloat16; that of the weights unless said.
            generator: for dropout; torch's own unless given.
        """
        dtype = dtype or self.encoder.weight.dtype
        state = state if state is not None else self.start(tokens.shape[1], dtype=dtype)
        values = self._embedded(tokens, generator).to(dtype)
        after: list[State] = []
        raw = values
        for place, layer in enumerate(self.layers):
            raw, reached = layer(values, state[place], drop=self.settings.weight_drop, generator=generator)
            after.append(reached)
            values = self._locked(raw, self._share(place), generator)
        width = self.settings.embedding
        logits = functional.linear(values[..., :width], self.decoder.weight.to(dtype), self.decoder.bias.to(dtype))
        return Output(logits, tuple(after), raw[..., :width], values[..., :width])

    def _embedded(self, tokens: torch.Tensor, generator: Any) -> torch.Tensor:
        vectors = self.encoder(tokens)
        if self.training and (share := self.settings.dropout_embedding):
            # A word is dropped wherever it stands: a mask over the vocabulary, looked up like the vectors.
            vectors = vectors * mask(vectors, (self.words, 1), share, generator)[tokens]
        return self._locked(vectors, self.settings.dropout_input, generator)

    def _share(self, place: int) -> float:
        return self.settings.dropout_output if place == len(self.layers) - 1 else self.settings.dropout_hidden

    def _locked(self, values: torch.Tensor, share: float, generator: Any) -> torch.Tensor:
        return locked(values, share, generator) if self.training else values

    def _initialise(self, generator: Any) -> None:
        """Drawn on the processor, so that a seed means the same weights on every device."""
        for weight in {id(w): w for w in (self.encoder.weight, self.decoder.weight)}.values():
            weight.data.uniform_(-SPREAD, SPREAD, generator=generator)
        self.decoder.bias.data.zero_()
        for layer in self.layers:
            layer.initialise(generator)


def detached(state: States) -> States:
    """The state without its history: gradients stop here."""
    return tuple((hidden.detach(), cell.detach()) for hidden, cell in state)


def _sizes(settings: Settings) -> list[tuple[int, int]]:
    widths = [settings.embedding, *[settings.hidden] * (settings.layers - 1), settings.embedding]
    return list(pairwise(widths))
