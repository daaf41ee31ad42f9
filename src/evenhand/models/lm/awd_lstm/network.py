"""AWD-LSTM, the word-level language model of Merity et al. 2018 that Bordia & Bowman 2019 train."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import torch
from torch import nn
from torch.nn import functional

from evenhand.models.lm.awd_lstm.model_folder import GATES, LMSettings

State: TypeAlias = "tuple[torch.Tensor, torch.Tensor]"  # hidden and cell, each (1, batch, units)
States: TypeAlias = "tuple[State, ...]"  # one of each layer
INITIAL_RANGE = 0.1  # word vectors are initialised uniformly within this distance of 0
# Rows of 16 bytes in half precision; the published 1,150 units would keep tensor cores from aligned access.
ALIGNED = 8


class LMOutput(NamedTuple):
    """The output for a stretch of text: scores of the next word, the state after it, and the last activations."""

    logits: torch.Tensor  # (steps, batch, words)
    state: States
    raw: torch.Tensor  # (steps, batch, embedding), before dropout: used by TAR
    dropped: torch.Tensor  # after dropout: used by AR


class AWDLSTM(nn.Module):  # type: ignore[misc]
    """LSTM layers between an embedding and a softmax, with dropout at every stage and dropped recurrent weights.

    `encoder.weight` are the input and `decoder.weight` the output word vectors: one matrix when tied. In an untied
    model, the last layer still has the width of the embedding, so that the two models differ in the decoder alone.

    Limits: perplexities of closed vocabularies compare only over the same vocabulary.

    Args:
        words: size of the vocabulary.
        settings: sizes and rates; those of the Penn Treebank by default.
        seed: seed of the initial weights.
    """

    def __init__(self, words: int, settings: LMSettings | None = None, *, seed: int = 0) -> None:
        super().__init__()
        self.settings = settings or LMSettings()
        self.encoder = nn.Embedding(words, self.settings.embedding)
        self.layers = nn.ModuleList(LSTMLayer(*sizes) for sizes in pairwise(self.settings.layer_widths()))
        self.decoder = nn.Linear(self.settings.embedding, words)
        if self.settings.tied:
            self.decoder.weight = self.encoder.weight
        self._initialise(torch.Generator().manual_seed(seed))

    @property
    def words(self) -> int:
        """Size of the vocabulary."""
        return int(self.encoder.num_embeddings)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.encoder.weight.device

    def start(self, batch: int, *, dtype: torch.dtype | None = None) -> States:
        """Return the zero state of every layer."""
        like = torch.empty(0, dtype=dtype or self.encoder.weight.dtype, device=self.device)
        return tuple(layer.start(batch, like) for layer in self.layers)

    def forward(
        self,
        tokens: torch.Tensor,
        state: States | None = None,
        *,
        dtype: torch.dtype | None = None,
        generator: torch.Generator | None = None,
    ) -> LMOutput:
        """Return scores of the word after each token of (steps, batch).

        Args:
            tokens: numbers of words.
            state: the state after an earlier stretch; zero by default.
            dtype: precision of the arithmetic, such as torch.bfloat16; that of the weights by default.
            generator: random numbers for dropout; torch's own by default.
        """
        dtype = dtype or self.encoder.weight.dtype
        state = state if state is not None else self.start(tokens.shape[1], dtype=dtype)
        values = self._embed(tokens, generator).to(dtype)
        after: list[State] = []
        raw = values
        for number, layer in enumerate(self.layers):
            raw, new_state = layer(values, state[number], drop=self.settings.weight_drop, generator=generator)
            after.append(new_state)
            values = self._drop(raw, self._layer_dropout(number), generator)
        width = self.settings.embedding
        logits = functional.linear(values[..., :width], self.decoder.weight.to(dtype), self.decoder.bias.to(dtype))
        return LMOutput(logits, tuple(after), raw[..., :width], values[..., :width])

    def _embed(self, tokens: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        vectors = self.encoder(tokens)
        if self.training and (share := self.settings.dropout_embedding):
            # A word is dropped at all of its occurrences: a mask over the vocabulary, looked up like the vectors.
            vectors = vectors * mask(vectors, (self.words, 1), share, generator)[tokens]
        return self._drop(vectors, self.settings.dropout_input, generator)

    def _layer_dropout(self, number: int) -> float:
        return self.settings.dropout_output if number == len(self.layers) - 1 else self.settings.dropout_hidden

    def _drop(self, values: torch.Tensor, share: float, generator: torch.Generator | None) -> torch.Tensor:
        return locked_dropout(values, share, generator) if self.training else values

    def _initialise(self, generator: torch.Generator) -> None:
        """Draw the weights on the CPU, so that a seed gives the same weights on every device."""
        for weight in {id(w): w for w in (self.encoder.weight, self.decoder.weight)}.values():
            weight.data.uniform_(-INITIAL_RANGE, INITIAL_RANGE, generator=generator)
        self.decoder.bias.data.zero_()
        for layer in self.layers:
            layer.initialise(generator)


def detach(state: States) -> States:
    """Return the state without its history, so that gradients stop there."""
    return tuple((hidden.detach(), cell.detach()) for hidden, cell in state)


class LSTMLayer(nn.Module):  # type: ignore[misc]
    """A layer of LSTM cells with gates in torch's order (input, forget, cell, output).

    The dropped weights of weight drop (Merity et al. 2018) are an intermediate result, passed to the fused kernel of
    `nn.LSTM`. On a GPU, they are laid out in one buffer as cuDNN expects them, and the units are rounded up to a
    multiple of 8. The added units have zero weights: their cell and output stay 0, and their gradient is 0.
    """

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.inputs, self.units = inputs, units
        self.align: int | None = None  # units are rounded up to a multiple of it; None decides by device
        shapes = {
            "weight_ih": (GATES * units, inputs),
            "weight_hh": (GATES * units, units),
            "bias_ih": (GATES * units,),
            "bias_hh": (GATES * units,),
        }
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights uniformly within 1 / sqrt(units), as `nn.LSTM` does."""
        bound = 1 / math.sqrt(self.units)
        for parameter in self.parameters():
            parameter.data.uniform_(-bound, bound, generator=generator)

    def width(self, device: str | torch.device) -> int:
        """Return the number of units, including those added for alignment."""
        align = self.align if self.align is not None else (ALIGNED if torch.device(device).type == "cuda" else 1)
        return -(-self.units // align) * align

    def start(self, batch: int, like: torch.Tensor) -> State:
        """Return the zero state, with the device and precision of a tensor."""
        zero = like.new_zeros((1, batch, self.width(like.device)))
        return zero, zero.clone()

    def forward(
        self, values: torch.Tensor, state: State, *, drop: float = 0.0, generator: torch.Generator | None = None
    ) -> tuple[torch.Tensor, State]:
        """Return outputs (steps, batch, width) and the state after them, in the precision of `values`."""
        hidden = self.weight_hh
        if drop and self.training:
            hidden = hidden * mask(hidden, tuple(hidden.shape), drop, generator)
        weights = [self.weight_ih, hidden, self.bias_ih, self.bias_hh]
        if values.is_cuda or self.align:
            weights = self._pack(weights, values)
        # cuDNN stores what the backward pass needs only in training mode; there is no dropout inside.
        training = torch.is_grad_enabled()
        output, *after = torch._VF.lstm(values, state, weights, True, 1, 0.0, training, False, False)
        return output, (after[0], after[1])

    def _pack(self, weights: list[torch.Tensor], values: torch.Tensor) -> list[torch.Tensor]:
        """Return the weights as views of one buffer, which spares cuDNN a copy and a warning."""
        units, inputs = self.width(values.device), values.shape[-1]
        shapes = [(GATES * units, inputs), (GATES * units, units), (GATES * units,), (GATES * units,)]
        enlarged = [
            self._enlarge(weight, units, shape[1] if len(shape) > 1 else 1)
            for weight, shape in zip(weights, shapes, strict=True)
        ]
        buffer = torch.cat([weight.flatten() for weight in enlarged]).to(values.dtype)
        parts = buffer.split([math.prod(shape) for shape in shapes])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def _enlarge(self, weight: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
        gates = weight.view(GATES, self.units, -1)
        missing = (columns - gates.shape[2], rows - self.units)
        return functional.pad(gates, (0, missing[0], 0, missing[1])) if any(missing) else gates


def mask(
    like: torch.Tensor, shape: tuple[int, ...], share: float, generator: torch.Generator | None = None
) -> torch.Tensor:
    """Return zeros for this share of the entries and 1 / (1 - share) for the others, so that the mean is 1."""
    values = torch.empty(shape, dtype=like.dtype, device=like.device).bernoulli_(1 - share, generator=generator)
    return values.div_(1 - share)


def locked_dropout(values: torch.Tensor, share: float, generator: torch.Generator | None = None) -> torch.Tensor:
    """Apply dropout with one mask for all steps of (steps, batch, width) (Gal & Ghahramani 2016)."""
    return values * mask(values, (1, *values.shape[1:]), share, generator) if share else values
