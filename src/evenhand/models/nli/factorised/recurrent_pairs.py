"""What is left for each pair when all sentences are encoded: attention, compare's second layer, aggregate."""

from __future__ import annotations

from evenhand.models.nli.backend import Array
from evenhand.models.nli.bilstm_forward import PlacedBiLSTM
from evenhand.models.nli.factorised.encoding import Encoded


class PairKernel:
    """The formulas for blocks of pairs, one sentence of them after the other.

    max(0, x + b) = max(x, -b) + b, and what follows is linear: a bias is added once at the end, not to every row.
    """

    def __init__(self, placed: PlacedBiLSTM) -> None:
        self.placed, self.torch = placed, placed.torch
        _, (self.compare, self.compare_bias) = placed.compare
        (first, self.first_bias), (self.second, second_bias) = placed.aggregate
        weight, bias = placed.output
        self.halves = first[: placed.hidden], first[placed.hidden :]
        self.constants = tuple(self.compare_bias @ half for half in self.halves)
        self.compare_floor, self.second_floor = -self.compare_bias, -second_bias
        self.output, self.output_bias = weight, second_bias @ weight + bias

    def probabilities(self, premise: Encoded, hypothesis: Encoded) -> Array:
        """(phrases, premises, hypotheses, labels)."""
        top = self._compared(hypothesis, premise) @ self.halves[1]
        top += (self._compared(premise, hypothesis) @ self.halves[0]).transpose(1, 2)
        tokens = premise.states.shape[2], hypothesis.states.shape[2]
        top += tokens[0] * self.constants[0] + tokens[1] * self.constants[1] + self.first_bias
        return self._classified(top)

    def _compared(self, own: Encoded, others: Encoded) -> Array:
        """Sums over the own tokens of compare's rows without its last bias: (phrases, others, own sentences, hidden).

        Both sides make the scores anew, the tokens attended to in front: a softmax over any axis but the last is
        several times faster, and costs more than so short a product.
        """
        phrases, sentences, tokens, hidden = others.states.shape
        scores = others.states.reshape(phrases, -1, hidden) @ own.states.reshape(phrases, -1, hidden).mT
        shares = scores.view(phrases * sentences, tokens, -1).softmax(1)
        rows = self.torch.bmm(shares.mT, others.other.reshape(-1, tokens, hidden))
        rows.view(phrases, sentences, -1, hidden).add_(own.own.reshape(phrases, 1, -1, hidden))
        made = self.torch.mm(rows.clamp_(min=0).view(-1, hidden), self.compare)
        self.torch.maximum(made, self.compare_floor, out=made)
        return made.view(phrases, sentences, *own.states.shape[1:]).sum(3)

    def _classified(self, top: Array) -> Array:
        """The rest of aggregate, and the output."""
        last = top.clamp_(min=0) @ self.second
        self.torch.maximum(last, self.second_floor, out=last)
        return (last @ self.output + self.output_bias).softmax(-1)
