"""Decomposable attention (Parikh et al. 2016) as a stack of members, for training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from evenhand.arrays import Matrix
from evenhand.models.nli.decomposable import DISTANCES, DecomposableAttention, distance_indices
from evenhand.models.nli.protocol import LABELS
from evenhand.models.nli.training.networks.stacked import (
    ARCHITECTURES,
    StackedLinear,
    StackedMLP,
    StackedNetwork,
    Tensor,
    attend,
    member_array,
    sum_tokens,
)

if TYPE_CHECKING:
    from evenhand.models.nli.training.settings import NLITrainingSettings


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
        self.intra = StackedMLP(members, hidden, hidden, dropout) if intra_attention else None
        self.distance = nn.Parameter(torch.zeros(members, DISTANCES)) if intra_attention else None
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
        if self.intra is None or self.distance is None:
            return tokens
        queries = self.intra(tokens)
        indices = torch.as_tensor(distance_indices(tokens.shape[2]), device=tokens.device)
        scores = queries @ queries.transpose(-1, -2) + self.distance[:, indices][:, None]
        return torch.cat([tokens, attend(scores, tokens, mask).to(tokens.dtype)], -1)

    def arrays(self, member: int) -> dict[str, Matrix]:
        """Return one member's parameters by their names in a model file."""
        layers: dict[str, StackedLinear] = {"project": self.project, "output": self.output}
        for name in ("attend", "compare", "aggregate", *(["intra"] if self.intra is not None else [])):
            layers |= {f"{name}.{number}": layer for number, layer in enumerate(getattr(self, name).layers)}
        parameters = {f"{name}.weight": layer.weight for name, layer in layers.items()}
        parameters |= {f"{name}.bias": layer.bias for name, layer in layers.items() if layer.bias is not None}
        if self.distance is not None:
            parameters["intra.distance"] = self.distance
        return {name: member_array(parameter, member) for name, parameter in parameters.items()}
