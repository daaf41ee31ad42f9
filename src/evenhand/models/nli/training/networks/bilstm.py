"""The BiLSTM model as a stack of members: both directions of all members are one recurrence.

One batched product and a few pointwise kernels per time step take a GPU about as long for 20 members as for one, while
calling its recurrent kernels for each member takes 20 times as long. For the model see `models.nli.bilstm`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from evenhand.arrays import Matrix
from evenhand.errors import UsageError
from evenhand.models.nli.bilstm import BiLSTM, lstm_step
from evenhand.models.nli.protocol import LABELS
from evenhand.models.nli.training.networks.stacked import (
    ARCHITECTURES,
    StackedLinear,
    StackedMLP,
    StackedNetwork,
    Tensor,
    member_array,
)

if TYPE_CHECKING:
    from evenhand.models.nli.training.settings import NLITrainingSettings

NULL_SD = 0.05  # standard deviation of the null token's vector, as of every random vector in the authors' code


@ARCHITECTURES.register("bilstm")
class BiLSTMNetwork(StackedNetwork):
    """BiLSTM, attention by dot product, compare, aggregate; `hidden` is the width of both directions together."""

    model_class = BiLSTM

    def __init__(self, members: int, dim: int, hidden: int, dropout: float) -> None:
        super().__init__(members, dim, hidden)
        self.lstm = StackedBiLSTM(members, dim, hidden // 2, dropout)
        self.compare = StackedMLP(members, 2 * hidden, hidden, dropout)
        self.aggregate = StackedMLP(members, 2 * hidden, hidden, dropout)
        self.output = StackedLinear(members, hidden, len(LABELS))
        self.null = nn.Parameter(torch.zeros(members, dim), requires_grad=False)

    @classmethod
    def check_settings(cls, settings: NLITrainingSettings) -> None:
        """Require an even width."""
        super().check_settings(settings)
        if settings.hidden % 2:
            raise UsageError(
                f"hidden must be even for a BiLSTM, whose two directions share it, got {settings.hidden}",
                hint=f"use hidden={settings.hidden + 1}",
            )

    def forward(self, premise: Tensor, hypothesis: Tensor, in_premise: Tensor, in_hypothesis: Tensor) -> Tensor:
        """Return (members, pairs, 3) logits."""
        pairs, tokens = premise.shape[1], premise.shape[2] + 1
        vectors, inside = concatenate((premise, hypothesis), (in_premise, in_hypothesis))
        null = self.null[:, None, None].expand(-1, vectors.shape[1], 1, -1).to(vectors.dtype)
        vectors = torch.cat([null, vectors], 2)
        inside = torch.cat([inside.new_ones(*inside.shape[:2], 1), inside], 2)
        states = self.lstm(vectors, inside)
        p, in_p = states[:, :pairs, :tokens], inside[:, :pairs, :tokens]
        h, in_h = (x[:, pairs:, : hypothesis.shape[2] + 1] for x in (states, inside))
        scores = p @ h.transpose(2, 3)
        v_p = self._compare(p, in_p, attention(scores, in_h) @ h)
        v_h = self._compare(h, in_h, attention(scores.transpose(2, 3), in_p) @ p)
        out: Tensor = self.output(self.aggregate(torch.cat([v_p, v_h], -1)))
        return out

    def _compare(self, own: Tensor, inside: Tensor, attended: Tensor) -> Tensor:
        """Return the sum of the compared rows of a sentence's tokens."""
        return (self.compare(torch.cat([own, attended], -1)) * inside[..., None]).sum(2)

    def initial_values(self, name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return initial values as in the base class; biases of the LSTM have two axes, and `null` is random."""
        if name == "null":
            return torch.randn(shape, generator=generator) * NULL_SD
        return torch.zeros(shape) if name.endswith("bias") else super().initial_values(name, shape, generator)

    def arrays(self, member: int) -> dict[str, Matrix]:
        """Return one member's parameters by their names in a model file, except `oov`."""
        named = {f"lstm.{name}": parameter for name, parameter in self.lstm.named_parameters()}
        for name in ("compare", "aggregate"):
            for number, layer in enumerate(getattr(self, name).layers):
                named |= {f"{name}.{number}.weight": layer.weight, f"{name}.{number}.bias": layer.bias}
        named |= {"output.weight": self.output.weight, "output.bias": self.output.bias, "null": self.null}
        return {name: member_array(parameter, member) for name, parameter in named.items()}


class StackedBiLSTM(nn.Module):  # type: ignore[misc]
    """Map (members, sentences, tokens, dim) to (members, sentences, tokens, 2 half).

    Dropout is locked (Gal & Ghahramani 2016): it drops the same coordinates of every token of a sentence.
    """

    def __init__(self, members: int, dim: int, half: int, dropout: float) -> None:
        super().__init__()
        self.half, self.dropout = half, nn.Dropout(dropout)
        self.input = nn.Parameter(torch.empty(members, 2, 4 * half, dim))
        self.recurrent = nn.Parameter(torch.empty(members, 2, 4 * half, half))
        self.bias = nn.Parameter(torch.zeros(members, 2, 4 * half))

    def forward(self, vectors: Tensor, inside: Tensor) -> Tensor:
        """Return the states; `inside` is True for tokens, and the states of padding are undefined."""
        members, sentences, _, dim = vectors.shape
        vectors = vectors * self.dropout(vectors.new_ones(members, sentences, 1, dim))
        reversal = _reversal(inside)
        both = torch.stack([vectors, _gather(vectors, reversal)], 1)
        forward, backward = self._states(both.transpose(2, 3)).unbind(1)
        return torch.cat([forward, _gather(backward, reversal)], -1)

    def _states(self, vectors: Tensor) -> Tensor:
        """Return (members, 2, sentences, tokens, half) states for (members, 2, tokens, sentences, dim) vectors."""
        members, two, tokens, sentences, dim = vectors.shape
        stacked = members * two
        bias = self.bias.flatten(0, 1)[:, None]
        weight = self.input.flatten(0, 1).transpose(1, 2)
        gates = torch.baddbmm(bias, vectors.reshape(stacked, tokens * sentences, dim), weight)
        # Cast once: autocast would cast it again in every step of the loop.
        recurrent = self.recurrent.flatten(0, 1).transpose(1, 2).to(gates.dtype)
        hidden = cell = self.bias.new_zeros(stacked, sentences, self.half)
        states = []
        for sums in gates.view(stacked, tokens, sentences, -1).unbind(1):
            hidden, cell = lstm_step(torch.baddbmm(sums, hidden.to(sums.dtype), recurrent), cell)
            states.append(hidden)
        return torch.stack(states, 2).view(members, two, sentences, tokens, self.half)


def concatenate(sides: tuple[Tensor, Tensor], inside: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Concatenate premises and hypotheses, padded to the same length."""
    longest = max(side.shape[2] for side in sides)

    def pad(x: Tensor, axes: int) -> Tensor:
        return nn.functional.pad(x, (0, 0) * axes + (0, longest - x.shape[2]))

    return torch.cat([pad(x, 1) for x in sides], 1), torch.cat([pad(x, 0) for x in inside], 1)


def _reversal(inside: Tensor) -> Tensor:
    """Return the indices that reverse the tokens of each sentence.

    Padding stays where it is, so that it comes after all tokens in both directions.
    """
    positions = torch.arange(inside.shape[-1], device=inside.device)
    return torch.where(inside, inside.sum(-1, keepdim=True) - 1 - positions, positions)


def _gather(x: Tensor, indices: Tensor) -> Tensor:
    return x.gather(2, indices[..., None].expand(*indices.shape, x.shape[-1]))


def attention(scores: Tensor, inside: Tensor) -> Tensor:
    """Return the softmax over the other sentence's tokens, without its padding."""
    return scores.masked_fill(~inside[:, :, None], -torch.inf).softmax(-1)
