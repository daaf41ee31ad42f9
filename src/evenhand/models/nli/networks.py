"""Networks in training: decomposable attention, the BiLSTM, and the BiLSTM over ELMo, as stacks of members.

Every parameter has a leading axis of members of the same shape, which are trained in one pass. A single model of a few
hundred thousand parameters leaves a GPU idle; dozens of them in one batched product do not. A network names the class
of the trained model; for the definitions see `decomposable`, `bilstm` and `elmo`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from evenhand.arrays import Matrix
from evenhand.errors import UsageError
from evenhand.models.nli.bilstm import BiLSTM, lstm_step
from evenhand.models.nli.decomposable import DISTANCES, DecomposableAttention, distance_indices
from evenhand.models.nli.over_vectors import ModelOverVectors
from evenhand.models.nli.protocol import LABELS
from evenhand.registry import Registry

if TYPE_CHECKING:
    from evenhand.models.nli.training import NLITrainingSettings


class StackedLinear(nn.Module):  # type: ignore[misc]
    """x -> weight x + bias, with one matrix per member."""

    def __init__(self, members: int, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(members, outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Map (members, ..., inputs) to (members, ..., outputs)."""
        flat = x.reshape(x.shape[0], -1, x.shape[-1])
        weight = self.weight.transpose(1, 2)
        out = torch.bmm(flat, weight) if self.bias is None else torch.baddbmm(self.bias[:, None], flat, weight)
        return out.reshape(*x.shape[:-1], out.shape[-1])


class StackedMLP(nn.Module):  # type: ignore[misc]
    """Two layers of dropout, linear and max(0, x); the first may change the width."""

    def __init__(self, members: int, inputs: int, outputs: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList([StackedLinear(members, inputs, outputs), StackedLinear(members, outputs, outputs)])
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map (members, ..., inputs) to (members, ..., outputs)."""
        for layer in self.layers:
            x = layer(self.dropout(x)).relu()
        return x


class StackedIntraAttention(StackedMLP):
    """Attention within a sentence: queries of tokens, and a bias for each distance."""

    def __init__(self, members: int, width: int, dropout: float) -> None:
        super().__init__(members, width, width, dropout)
        self.distance = nn.Parameter(torch.zeros(members, DISTANCES))


class StackedNetwork(nn.Module):  # type: ignore[misc]
    """Base class of the architectures.

    A subclass is constructed as `(members, dim, hidden, dropout)` and defines `forward` and `model_class`. `initialise`
    fills every parameter; a subclass overrides `initial_values` for those with other initial values.
    """

    model_class: ClassVar[type[ModelOverVectors]]

    def __init__(self, members: int, dim: int, hidden: int) -> None:
        super().__init__()
        self.members, self.dim, self.hidden = members, dim, hidden

    @classmethod
    def check_settings(cls, settings: NLITrainingSettings) -> None:
        """Raise `UsageError` if this architecture cannot be trained with the settings."""
        if settings.intra_attention:
            raise UsageError(
                f"intra_attention applies to decomposable attention only, not to {settings.architecture!r}"
            )

    @classmethod
    def options(cls, settings: NLITrainingSettings) -> dict[str, Any]:
        """Return the keyword arguments of the constructor beside members, dim and hidden."""
        return {"dropout": settings.dropout}

    def forward(self, premise: Tensor, hypothesis: Tensor, in_premise: Tensor, in_hypothesis: Tensor) -> Tensor:
        """Return (members, pairs, 3) logits in the order of LABELS.

        `premise` and `hypothesis` are word vectors (members, pairs, length, dim). `in_premise` and `in_hypothesis`
        (members, pairs, length) are True for tokens. Padding is at the end only, and no sentence is empty.
        """
        raise NotImplementedError

    def arrays(self, member: int) -> dict[str, Matrix]:
        """Return one member's parameters by their names in a model file; the trainer adds `oov`."""
        parameters = self.named_parameters()
        return {name.replace(".layers.", "."): member_array(parameter, member) for name, parameter in parameters}

    def initialise(self, seeds: Sequence[int]) -> None:
        """Initialise each member from its seed: a seed gives the same values in any stack and on any device."""
        with torch.no_grad():
            for member, seed in enumerate(seeds):
                generator = torch.Generator().manual_seed(seed)
                for name, parameter in self.named_parameters():
                    parameter[member].copy_(self.initial_values(name, tuple(parameter.shape[1:]), generator))

    def initial_values(self, name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return one member's initial values: zero for biases, uniform (Glorot & Bengio 2010) for matrices."""
        if len(shape) < 2:
            return torch.zeros(shape)
        bound = math.sqrt(6 / (shape[-1] + shape[-2]))
        return (torch.rand(shape, generator=generator) * 2 - 1) * bound


def attend(scores: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
    """Return mixtures of tokens by softmax of scores (..., queries, tokens); padding gets no weight."""
    masked = scores.masked_fill(~mask.unsqueeze(-2), torch.finfo(scores.dtype).min)
    return torch.softmax(masked, -1) @ tokens


def sum_tokens(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the sum over the tokens of a sentence, as a product: a plain sum would leave half precision."""
    return (mask.unsqueeze(-2).to(tokens.dtype) @ tokens).squeeze(-2)


def member_array(parameter: Tensor, member: int) -> Matrix:
    """Return one member of a parameter as a numpy array in single precision."""
    return np.array(parameter[member].detach().float().cpu().numpy())


ARCHITECTURES: Registry[type[StackedNetwork]] = Registry(
    "architecture", ("evenhand.models.nli",), group="evenhand.architectures"
)


@ARCHITECTURES.register("decomposable")
class DecomposableNetwork(StackedNetwork):
    """Project without bias, attend, compare, aggregate; with intra-attention, tokens first attend to their sentence."""

    model_class = DecomposableAttention

    def __init__(
        self, members: int, dim: int, hidden: int, dropout: float = 0.0, *, intra_attention: bool = False
    ) -> None:
        super().__init__(members, dim, hidden)
        width = 2 * hidden if intra_attention else hidden
        self.project = StackedLinear(members, dim, hidden, bias=False)
        self.intra = StackedIntraAttention(members, hidden, dropout) if intra_attention else None
        self.attend = StackedMLP(members, width, hidden, dropout)
        self.compare = StackedMLP(members, 2 * width, hidden, dropout)
        self.aggregate = StackedMLP(members, 2 * hidden, hidden, dropout)
        self.output = StackedLinear(members, hidden, len(LABELS))

    @classmethod
    def check_settings(cls, settings: NLITrainingSettings) -> None:
        """Accept all settings."""

    @classmethod
    def options(cls, settings: NLITrainingSettings) -> dict[str, Any]:
        """Return the options of every architecture, and intra-attention."""
        return super().options(settings) | {"intra_attention": settings.intra_attention}

    def forward(self, premise: Tensor, hypothesis: Tensor, in_premise: Tensor, in_hypothesis: Tensor) -> Tensor:
        """Return (members, pairs, 3) logits."""
        p = self.attend_within(self.project(premise), in_premise)
        h = self.attend_within(self.project(hypothesis), in_hypothesis)
        scores = self.attend(p) @ self.attend(h).transpose(-1, -2)
        to_h = attend(scores, h, in_hypothesis)
        to_p = attend(scores.transpose(-1, -2), p, in_premise)
        v_p = sum_tokens(self.compare(torch.cat([p, to_h.to(p.dtype)], -1)), in_premise)
        v_h = sum_tokens(self.compare(torch.cat([h, to_p.to(h.dtype)], -1)), in_hypothesis)
        return self.output(self.aggregate(torch.cat([v_p, v_h], -1)))

    def attend_within(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Append to each token what it attends to in its own sentence, with intra-attention."""
        if self.intra is None:
            return tokens
        queries = self.intra(tokens)
        indices = torch.as_tensor(distance_indices(tokens.shape[2]), device=tokens.device)
        scores = queries @ queries.transpose(-1, -2) + self.intra.distance[:, indices][:, None]
        return torch.cat([tokens, attend(scores, tokens, mask).to(tokens.dtype)], -1)


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
        out: Tensor = self.output(self.aggregate(compare_sentences(self.compare, p, h, in_p, in_h)))
        return out

    def initial_values(self, name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return initial values as in the base class; biases of the LSTM have two axes, and `null` is random."""
        if name == "null":
            return torch.randn(shape, generator=generator) * NULL_SD
        return torch.zeros(shape) if name.endswith("bias") else super().initial_values(name, shape, generator)


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

    Padding stays where it is, so it comes after all tokens in both directions.
    """
    positions = torch.arange(inside.shape[-1], device=inside.device)
    return torch.where(inside, inside.sum(-1, keepdim=True) - 1 - positions, positions)


def _gather(x: Tensor, indices: Tensor) -> Tensor:
    return x.gather(2, indices[..., None].expand(*indices.shape, x.shape[-1]))


def compare_sentences(compare: StackedMLP, p: Tensor, h: Tensor, in_p: Tensor, in_h: Tensor) -> Tensor:
    """Let the states of two sentences attend to each other by dot product; return the sums of their compared rows."""

    def side(own: Tensor, in_own: Tensor, other: Tensor, in_other: Tensor, scores: Tensor) -> Tensor:
        attended = scores.masked_fill(~in_other[:, :, None], -torch.inf).softmax(-1) @ other
        return (compare(torch.cat([own, attended.to(own.dtype)], -1)) * in_own[..., None]).sum(2)

    scores = p @ h.transpose(2, 3)
    return torch.cat([side(p, in_p, h, in_h, scores), side(h, in_h, p, in_p, scores.transpose(2, 3))], -1)


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
        compared = compare_sentences(self.compare, p, h, in_premise, in_hypothesis)
        out: Tensor = self.output(self.aggregate(compared))
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
