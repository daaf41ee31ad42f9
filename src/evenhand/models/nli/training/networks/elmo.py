"""Dev et al.'s NLI model over ELMo as a stack of members; for the model see `models.nli.elmo`."""

from __future__ import annotations

import torch
from torch import nn

from evenhand.arrays import Matrix
from evenhand.models.nli.protocol import LABELS
from evenhand.models.nli.training.networks.bilstm import StackedBiLSTM, attention, concatenate
from evenhand.models.nli.training.networks.stacked import (
    StackedLinear,
    StackedMLP,
    StackedNetwork,
    Tensor,
    member_array,
)

ELMO_DROPOUT = 0.5


class ElmoNLINetwork(StackedNetwork):
    """A BiLSTM over one scalar mix of the layers, concatenated with a second mix; attention, compare, aggregate.

    Args:
        members: number of members.
        dim: dimensions of a layer.
        hidden: width of the layers after attention, 400 in the paper.
        layers: number of ELMo's layers, that of token vectors included.
        states: width of the BiLSTM, both directions together.
        dropout: of the BiLSTM's input and before each layer.
        elmo_dropout: of both mixes.
    """

    def __init__(
        self,
        members: int,
        dim: int,
        hidden: int = 400,
        *,
        layers: int = 3,
        states: int = 200,
        dropout: float = 0.2,
        elmo_dropout: float = ELMO_DROPOUT,
    ) -> None:
        super().__init__(members, dim, hidden)
        self.layers, self.states = layers, states
        self.scores = nn.Parameter(torch.zeros(members, 2, layers))
        self.gamma = nn.Parameter(torch.ones(members, 2))
        self.elmo_dropout = nn.Dropout(elmo_dropout)
        self.lstm = StackedBiLSTM(members, dim, states // 2, dropout)
        self.compare = StackedMLP(members, 2 * (states + dim), hidden, dropout)
        self.aggregate = StackedMLP(members, 2 * hidden, hidden, dropout)
        self.output = StackedLinear(members, hidden, len(LABELS))

    def forward(self, premise: Tensor, hypothesis: Tensor, in_premise: Tensor, in_hypothesis: Tensor) -> Tensor:
        """Return (members, pairs, 3) logits for (members, pairs, tokens, layers x dim) rows of layers."""
        sides = (premise, hypothesis)
        mixes = tuple(self._mix(side, 0) for side in sides)
        vectors, inside = concatenate((mixes[0], mixes[1]), (in_premise, in_hypothesis))
        states = self.lstm(vectors, inside)
        halves = states.split([premise.shape[1], hypothesis.shape[1]], 1)
        p, h = (self._with_second(half[:, :, : side.shape[2]], side) for half, side in zip(halves, sides, strict=True))
        scores = p @ h.transpose(2, 3)
        v_p = self._compare(p, in_premise, attention(scores, in_hypothesis) @ h)
        v_h = self._compare(h, in_hypothesis, attention(scores.transpose(2, 3), in_premise) @ p)
        out: Tensor = self.output(self.aggregate(torch.cat([v_p, v_h], -1)))
        return out

    def encode(self, rows: Tensor, inside: Tensor) -> Tensor:
        """Return the (members, sentences, tokens, states + dim) rows that attend to each other."""
        return self._with_second(self.lstm(self._mix(rows, 0), inside), rows)

    def _with_second(self, states: Tensor, rows: Tensor) -> Tensor:
        """Return the states of the BiLSTM with the second mix."""
        return torch.cat([states.to(rows.dtype), self._mix(rows, 1)], -1)

    def _mix(self, rows: Tensor, number: int) -> Tensor:
        """Return gamma * sum_k softmax(scores)_k layer_k, with dropout in training."""
        shares = (self.gamma[:, number, None] * self.scores[:, number].softmax(-1)).to(rows.dtype)
        parts = rows.unflatten(-1, (self.layers, self.dim)).unbind(-2)
        weights = shares[:, None, None, :, None].unbind(-2)
        total = parts[0] * weights[0]
        for part, weight in zip(parts[1:], weights[1:], strict=True):
            total = torch.addcmul(total, part, weight)
        mixed: Tensor = self.elmo_dropout(total)
        return mixed

    def _compare(self, own: Tensor, inside: Tensor, attended: Tensor) -> Tensor:
        """Return the sum of the compared rows of a sentence's tokens."""
        return (self.compare(torch.cat([own, attended.to(own.dtype)], -1)) * inside[..., None]).sum(2)

    def initial_values(self, name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return initial values: layers mixed evenly, biases zero, matrices as in the base class."""
        if name == "gamma":
            return torch.ones(shape)
        if name == "scores" or name.endswith("bias"):
            return torch.zeros(shape)
        return super().initial_values(name, shape, generator)

    def arrays(self, member: int) -> dict[str, Matrix]:
        """Return one member's parameters by name."""
        return {name: member_array(parameter, member) for name, parameter in self.named_parameters()}
