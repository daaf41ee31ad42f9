"""The word-level language model of Merity et al. 2018, which Bordia & Bowman 2019 train."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.nn import functional

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


State: TypeAlias = "tuple[torch.Tensor, torch.Tensor]"  # hidden and cell, each (1, batch, units)
GATES = 4
# Rows of 16 bytes in half precision: with 1,150 units, as published, the tensor cores would run unaligned.
ALIGNED = 8


class LSTMLayer(nn.Module):  # type: ignore[misc]
    """A layer of LSTM cells; gates in torch's order (input, forget, cell, output).

    Weight drop (Merity et al. 2018) would need a module whose weights change at every call; here the dropped weights
    are an intermediate result like any other, handed to the same fused kernel that `nn.LSTM` uses. On a GPU they are
    laid out in one buffer as cuDNN wants them, and the units are rounded up to a multiple of 8. The added units have
    zero weights: their cell stays 0, they send 0 on, and what they get as a gradient is 0 and cut off.
    """

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.inputs, self.units = inputs, units
        self.align: int | None = None  # what units are rounded up to; None lets the device decide
        shapes = {
            "weight_ih": (GATES * units, inputs),
            "weight_hh": (GATES * units, units),
            "bias_ih": (GATES * units,),
            "bias_hh": (GATES * units,),
        }
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    def initialise(self, generator: Any) -> None:
        """Uniform within 1 / sqrt(units), as `nn.LSTM` has it."""
        bound = 1 / math.sqrt(self.units)
        for parameter in self.parameters():
            parameter.data.uniform_(-bound, bound, generator=generator)

    def width(self, device: Any) -> int:
        """Units with those that are added for alignment."""
        align = self.align if self.align is not None else (ALIGNED if torch.device(device).type == "cuda" else 1)
        return -(-self.units // align) * align

    def start(self, batch: int, like: torch.Tensor) -> State:
        """The zero state."""
        zero = like.new_zeros((1, batch, self.width(like.device)))
        return zero, zero.clone()

    def forward(
        self, values: torch.Tensor, state: State, *, drop: float = 0.0, generator: Any = None
    ) -> tuple[torch.Tensor, State]:
        """Outputs (steps, batch, width) and the state after them, in the precision of `values`."""
        hidden = self.weight_hh
        if drop and self.training:
            hidden = hidden * mask(hidden, tuple(hidden.shape), drop, generator)
        weights = [self.weight_ih, hidden, self.bias_ih, self.bias_hh]
        if values.is_cuda or self.align:
            weights = self._packed(weights, values)
        # cuDNN keeps what the backward pass needs only when told that this is training; there is no dropout inside.
        keep = torch.is_grad_enabled()
        output, *after = torch._VF.lstm(values, state, weights, True, 1, 0.0, keep, False, False)
        return output, (after[0], after[1])

    def _packed(self, weights: list[torch.Tensor], values: torch.Tensor) -> list[torch.Tensor]:
        """The weights as pieces of one buffer, which spares cuDNN from copying them together, and a warning."""
        units, inputs = self.width(values.device), values.shape[-1]
        shapes = [(GATES * units, inputs), (GATES * units, units), (GATES * units,), (GATES * units,)]
        grown = [
            self._grown(weight, units, shape[1] if len(shape) > 1 else 1)
            for weight, shape in zip(weights, shapes, strict=True)
        ]
        buffer = torch.cat([weight.flatten() for weight in grown]).to(values.dtype)
        pieces = buffer.split([math.prod(shape) for shape in shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def _grown(self, weight: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
        gates = weight.view(GATES, self.units, -1)
        missing = (columns - gates.shape[2], rows - self.units)
        return functional.pad(gates, (0, missing[0], 0, missing[1])) if any(missing) else gates


def mask(like: torch.Tensor, shape: tuple[int, ...], share: float, generator: Any = None) -> torch.Tensor:
    """Zeros for this share of the entries, 1 / (1 - share) for the others: the expectation stays what it was."""
    drawn = torch.empty(shape, dtype=like.dtype, device=like.device).bernoulli_(1 - share, generator=generator)
    return drawn.div_(1 - share)


def locked(values: torch.Tensor, share: float, generator: Any = None) -> torch.Tensor:
    """Dropout with one mask for all time steps (Gal & Ghahramani 2016): values are (steps, batch, width)."""
    return values * mask(values, (1, *values.shape[1:]), share, generator) if share else values
