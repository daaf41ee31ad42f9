"""Networks of several members with the same shape, trained in one pass: every parameter has a leading axis of members.

A single model of a few hundred thousand parameters leaves a GPU idle; dozens of them in one batched product do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import nn

from evenhand.arrays import Matrix
from evenhand.errors import UsageError
from evenhand.models.nli.over_vectors import ModelOverVectors
from evenhand.registry import Registry

if TYPE_CHECKING:
    from evenhand.models.nli.training.settings import NLITrainingSettings

Tensor = Any  # torch is not typed here


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


class StackedNetwork(nn.Module):  # type: ignore[misc]
    """Base class of the architectures.

    A subclass is constructed as `(members, dim, hidden, dropout)` and defines `forward`, `arrays` and `model_class`.
    `initialise` fills every parameter; a subclass overrides `initial_values` for those with other initial values.
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
        raise NotImplementedError

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
    "architecture", ("evenhand.models.nli.training.networks",), group="evenhand.architectures"
)
