"""Decomposable attention (Parikh et al. 2016) as a stack, for training."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from evenhand.models.nli.decomposable_network import DISTANCES, distances
from evenhand.models.nli.protocol import LABELS
from evenhand.models.nli.training.networks.stacked import (
    StackedLinear,
    StackedMLP,
    StackedNetwork,
    Tensor,
    array,
    attended,
    sum_of,
)


class DecomposableNetwork(StackedNetwork):
    """Project without bias, attend, compare, aggregate; with intra-attention tokens first look around themselves."""

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

    def forward(self, premise: Tensor, hypothesis: Tensor, in_premise: Tensor, in_hypothesis: Tensor) -> Tensor:
        """Logits (members, pairs, 3)."""
        p = self.within(self.project(premise), in_premise)
        h = self.within(self.project(hypothesis), in_hypothesis)
        scores = self.attend(p) @ self.attend(h).transpose(-1, -2)
        to_h = attended(scores, h, in_hypothesis)
        to_p = attended(scores.transpose(-1, -2), p, in_premise)
        v_p = sum_of(self.compare(torch.cat([p, to_h.to(p.dtype)], -1)), in_premise)
        v_h = sum_of(self.compare(torch.cat([h, to_p.to(h.dtype)], -1)), in_hypothesis)
        return self.output(self.aggregate(torch.cat([v_p, v_h], -1)))

    def within(self, tokens: Tensor, there: Tensor) -> Tensor:
        """Each token beside what it attends to in its own sentence, where intra-attention is asked for."""
        if self.intra is None or self.distance is None:
            return tokens
        made = self.intra(tokens)
        places = torch.as_tensor(distances(tokens.shape[2]), device=tokens.device)
        scores = made @ made.transpose(-1, -2) + self.distance[:, places][:, None]
        return torch.cat([tokens, attended(scores, tokens, there).to(tokens.dtype)], -1)

    def arrays(self, member: int) -> dict[str, np.ndarray]:
        """One member's parameters by their names in a model file."""
        layers: dict[str, Any] = {"project": self.project, "output": self.output}
        for name in ("attend", "compare", "aggregate", *(["intra"] if self.intra is not None else [])):
            layers |= {f"{name}.{place}": layer for place, layer in enumerate(getattr(self, name).layers)}
        found = {f"{name}.weight": array(layer.weight, member) for name, layer in layers.items()}
        found |= {f"{name}.bias": array(layer.bias, member) for name, layer in layers.items() if layer.bias is not None}
        if self.distance is not None:
            found["intra.distance"] = array(self.distance, member)
        return found
