"""The BiLSTM model as a stack of members: both directions of all members are one recurrence.

One batched product and a few pointwise kernels a time step cost a GPU about the same for 20 members as for one, where
a call of its own recurrent kernels for each member would cost as many times more. For the model see
`models.nli.bilstm`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from evenhand.models.nli.bilstm_network import step
from evenhand.models.nli.protocol import LABELS
from evenhand.models.nli.training.networks.stacked import StackedLinear, StackedMLP, StackedNetwork, Tensor, array

NULL_SPREAD = 0.05  # standard deviation of the null token's vector, in the authors' code that of every drawn vector


class BiLSTMNetwork(StackedNetwork):
    """BiLSTM, attention by dot product, compare, aggregate; `hidden` is the width of both directions together."""

    def __init__(self, members: int, dim: int, hidden: int, dropout: float) -> None:
        super().__init__(members, dim, hidden)
        self.lstm = StackedBiLSTM(members, dim, hidden // 2, dropout)
        self.compare = StackedMLP(members, 2 * hidden, hidden, dropout)
        self.aggregate = StackedMLP(members, 2 * hidden, hidden, dropout)
        self.output = StackedLinear(members, hidden, len(LABELS))
        self.null = nn.Parameter(torch.zeros(members, dim), requires_grad=False)

    def forward(self, premise: Tensor, hypothesis: Tensor, in_premise: Tensor, in_hypothesis: Tensor) -> Tensor:
        """Logits (members, pairs, 3)."""
        pairs, tokens = premise.shape[1], premise.shape[2] + 1
        vectors, inside = _together((premise, hypothesis), (in_premise, in_hypothesis))
        null = self.null[:, None, None].expand(-1, vectors.shape[1], 1, -1).to(vectors.dtype)
        vectors = torch.cat([null, vectors], 2)
        inside = torch.cat([inside.new_ones(*inside.shape[:2], 1), inside], 2)
        states = self.lstm(vectors, inside)
        p, in_p = states[:, :pairs, :tokens], inside[:, :pairs, :tokens]
        h, in_h = (x[:, pairs:, : hypothesis.shape[2] + 1] for x in (states, inside))
        scores = p @ h.transpose(2, 3)
        v_p = self._compared(p, in_p, _attention(scores, in_h) @ h)
        v_h = self._compared(h, in_h, _attention(scores.transpose(2, 3), in_p) @ p)
        out: Tensor = self.output(self.aggregate(torch.cat([v_p, v_h], -1)))
        return out

    def _compared(self, own: Tensor, inside: Tensor, attended: Tensor) -> Tensor:
        """The sum over a sentence's tokens of their compared rows."""
        return (self.compare(torch.cat([own, attended], -1)) * inside[..., None]).sum(2)

    def start(self, name: str, shape: tuple[int, ...], generator: Any) -> Tensor:
        """As for every network; the biases of the LSTM have two axes, and the null token is drawn."""
        if name == "null":
            return torch.randn(shape, generator=generator) * NULL_SPREAD
        return torch.zeros(shape) if name.endswith("bias") else super().start(name, shape, generator)

    def arrays(self, member: int) -> dict[str, np.ndarray]:
        """Named as in the file of a `BiLSTM`, but for `oov`."""
        named = {f"lstm.{name}": parameter for name, parameter in self.lstm.named_parameters()}
        for name in ("compare", "aggregate"):
            for place, layer in enumerate(getattr(self, name).layers):
                named |= {f"{name}.{place}.weight": layer.weight, f"{name}.{place}.bias": layer.bias}
        named |= {"output.weight": self.output.weight, "output.bias": self.output.bias, "null": self.null}
        return {name: array(parameter, member) for name, parameter in named.items()}


class StackedBiLSTM(nn.Module):  # type: ignore[misc]
    """(members, sentences, tokens, dim) to (members, sentences, tokens, 2 half).

    Dropout is locked (Gal & Ghahramani 2016): in a sentence the same coordinates are left out of every token.
    """

    def __init__(self, members: int, dim: int, half: int, dropout: float) -> None:
        super().__init__()
        self.half, self.dropout = half, nn.Dropout(dropout)
        self.input = nn.Parameter(torch.empty(members, 2, 4 * half, dim))
        self.recurrent = nn.Parameter(torch.empty(members, 2, 4 * half, half))
        self.bias = nn.Parameter(torch.zeros(members, 2, 4 * half))

    def forward(self, vectors: Tensor, inside: Tensor) -> Tensor:
        """`inside` is true where there is a token; what stands in place of the others is not defined."""
        members, sentences, _, dim = vectors.shape
        vectors = vectors * self.dropout(vectors.new_ones(members, sentences, 1, dim))
        turned = _turned(inside)
        both = torch.stack([vectors, _gathered(vectors, turned)], 1)
        onwards, backwards = self._states(both.transpose(2, 3)).unbind(1)
        return torch.cat([onwards, _gathered(backwards, turned)], -1)

    def _states(self, vectors: Tensor) -> Tensor:
        """(members, 2, sentences, tokens, half) from (members, 2, tokens, sentences, dim)."""
        members, two, tokens, sentences, dim = vectors.shape
        stacked = members * two
        bias = self.bias.flatten(0, 1)[:, None]
        weight = self.input.flatten(0, 1).transpose(1, 2)
        gates = torch.baddbmm(bias, vectors.reshape(stacked, tokens * sentences, dim), weight)
        # Cast once: under autocast every product of the loop would cast it again.
        recurrent = self.recurrent.flatten(0, 1).transpose(1, 2).to(gates.dtype)
        hidden = cell = self.bias.new_zeros(stacked, sentences, self.half)
        found = []
        for sums in gates.view(stacked, tokens, sentences, -1).unbind(1):
            hidden, cell = step(torch.baddbmm(sums, hidden.to(sums.dtype), recurrent), cell)
            found.append(hidden)
        return torch.stack(found, 2).view(members, two, sentences, tokens, self.half)


def _together(sides: tuple[Tensor, Tensor], inside: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Premises and hypotheses below one another, padded to one length."""
    longest = max(side.shape[2] for side in sides)

    def padded(x: Tensor, axes: int) -> Tensor:
        return nn.functional.pad(x, (0, 0) * axes + (0, longest - x.shape[2]))

    return torch.cat([padded(x, 1) for x in sides], 1), torch.cat([padded(x, 0) for x in inside], 1)


def _turned(inside: Tensor) -> Tensor:
    """For each place of a sentence, the place that holds its token when the sentence is read from its end.

    Padding stays where it is, so that reading on from the last token, it comes after all others in both directions.
    """
    places = torch.arange(inside.shape[-1], device=inside.device)
    return torch.where(inside, inside.sum(-1, keepdim=True) - 1 - places, places)


def _gathered(x: Tensor, places: Tensor) -> Tensor:
    return x.gather(2, places[..., None].expand(*places.shape, x.shape[-1]))


def _attention(scores: Tensor, inside: Tensor) -> Tensor:
    """Softmax over the other sentence's tokens, its padding left out."""
    return scores.masked_fill(~inside[:, :, None], -torch.inf).softmax(-1)
