"""Networks of several members with the same shape, trained in one pass: every parameter has a leading axis of members.

A model of a few hundred thousand parameters leaves a GPU idle; dozens of them as one batched product do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

Tensor = Any  # torch is not typed here


class StackedLinear(nn.Module):  # type: ignore[misc]
    """x -> weight x + bias, a matrix for each member."""

    def __init__(self, members: int, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(members, outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """(members, ..., inputs) to (members, ..., outputs)."""
        flat = x.reshape(x.shape[0], -1, x.shape[-1])
        turned = self.weight.transpose(1, 2)
        out = torch.bmm(flat, turned) if self.bias is None else torch.baddbmm(self.bias[:, None], flat, turned)
        return out.reshape(*x.shape[:-1], out.shape[-1])


class StackedMLP(nn.Module):  # type: ignore[misc]
    """Dropout, linear, max(0, x), twice; with another width of the first layer's input than of its output."""

    def __init__(self, members: int, inputs: int, outputs: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList([StackedLinear(members, inputs, outputs), StackedLinear(members, outputs, outputs)])
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(members, ..., inputs) to (members, ..., outputs)."""
        for layer in self.layers:
            x = layer(self.dropout(x)).relu()
        return x


class StackedNetwork(nn.Module):  # type: ignore[misc]
    """What the trainer asks of an architecture.

    A subclass is made by `(members, dim, hidden, dropout)` and defines `forward` and `arrays`. `draw` fills every
    parameter; a subclass overrides `start` for those that want another beginning than the usual one.
    """

    def __init__(self, members: int, dim: int, hidden: int) -> None:
        super().__init__()
        self.members, self.dim, self.hidden = members, dim, hidden

    def forward(self, premise: Tensor, hypothesis: Tensor, in_premise: Tensor, in_hypothesis: Tensor) -> Tensor:
        """Logits (members, pairs, 3) in the order of LABELS.

        `premise` and `hypothesis` are word vectors (members, pairs, length, dim); `in_premise` and `in_hypothesis`
        (members, pairs, length) are true where there is a token: padding stands at the end only, no sentence is empty.
        """
        raise NotImplementedError

    def arrays(self, member: int) -> dict[str, np.ndarray]:
        """One member's parameters by their names in a model file; the spare vectors `oov` are added by the trainer."""
        raise NotImplementedError

    def draw(self, seeds: Sequence[int]) -> None:
        """Begin anew, each member from its own seed: a seed gives the same start in any stack and on any device."""
        with torch.no_grad():
            for member, seed in enumerate(seeds):
                generator = torch.Generator().manual_seed(seed)
                for name, parameter in self.named_parameters():
                    parameter[member].copy_(self.start(name, tuple(parameter.shape[1:]), generator))

    def start(self, name: str, shape: tuple[int, ...], generator: Any) -> Tensor:
        """One member's first values: zero for biases, uniform after Glorot & Bengio 2010 for matrices."""
        if len(shape) < 2:
            return torch.zeros(shape)
        bound = math.sqrt(6 / (shape[-1] + shape[-2]))
        return (torch.rand(shape, generator=generator) * 2 - 1) * bound


def attended(scores: Tensor, tokens: Tensor, there: Tensor) -> Tensor:
    """Mixtures of tokens by softmax of scores (..., asking, tokens); padding gets no weight."""
    masked = scores.masked_fill(~there.unsqueeze(-2), torch.finfo(scores.dtype).min)
    return torch.softmax(masked, -1) @ tokens


def sum_of(tokens: Tensor, there: Tensor) -> Tensor:
    """The sum over the tokens of a sentence, as a product: a plain sum would leave half precision and come back."""
    return (there.unsqueeze(-2).to(tokens.dtype) @ tokens).squeeze(-2)


def array(parameter: Tensor, member: int) -> np.ndarray:
    """One member of a parameter, on the processor in single precision."""
    return np.array(parameter[member].detach().float().cpu().numpy())
