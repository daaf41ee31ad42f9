"""Layers whose products are taken in bfloat16 without rounding their weights to it.

Rounding the weights is the same small change of the model for every pair and does not average out: it moved net neutral
by 0.001 to 0.005 in random BERTs of 12 layers. What is rounded at the input of a product differs from pair to pair, and
averages out: 0.0002. A weight is therefore kept as the sum of two bfloat16 numbers, which costs a second product.
"""

from __future__ import annotations

from typing import Any

import torch


class SplitLinear(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A linear layer for float32 in and out, with products in bfloat16 and its weights exact to 16 bits."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        weight = layer.weight.detach()
        high = weight.bfloat16()
        self.register_buffer("weight", high, persistent=False)
        self.register_buffer("rest", (weight - high).bfloat16(), persistent=False)
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach(), persistent=False)

    def forward(self, inputs: Any) -> Any:
        """Both products; their sum is made inside the second one, in float32."""
        rows = inputs.flatten(0, -2).bfloat16()
        found = torch.addmm(rows @ self.rest.T, rows, self.weight.T).float()
        found = found if self.bias is None else found.add_(self.bias)
        return found.unflatten(0, inputs.shape[:-1])


def split(model: Any, *, outputs: int) -> None:
    """Change every linear layer of a float32 model in place, but for those with so many outputs: the last one."""
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            # exactly Linear: its children, as in torch's own attention, have their weights read by others
            if type(layer) is torch.nn.Linear and layer.out_features != outputs:
                setattr(parent, name, SplitLinear(layer))
