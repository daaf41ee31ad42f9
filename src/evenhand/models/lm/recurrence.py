"""One LSTM layer whose hidden-to-hidden weights are dropped before the fused kernel gets them."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn import functional

from evenhand.models.lm.masks import mask

State: TypeAlias = "tuple[torch.Tensor, torch.Tensor]"  # hidden and cell, each (1, batch, units)
GATES = 4
# Rows of 16 bytes in half precision: with 1,150 units, as published, the tensor cores would run unaligned.
ALIGNED = 8


class LSTMLayer(nn.Module):  # type: ignore[misc]
    """A layer of LSTM cells; gates in torch's order (input, forget, cell, output).

    Weight drop (Merity et al. 2018) would need a module whose weights change at every call; here the dropped weights
    are an intermediate result like any other, handed to the same fused kernel that `nn.LSTM` uses. On a GPU they are
    laid out in one buffer as cuDNN wants them, and the units are rounded up to a multiple of 8. The added units have
    zero weights: their cell stays 0, they send 0 on, and what they get as a gradient is 0 and cut off.
    """

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.inputs, self.units = inputs, units
        self.align: int | None = None  # what units are rounded up to; None lets the device decide
        shapes = {
            "weight_ih": (GATES * units, inputs),
            "weight_hh": (GATES * units, units),
            "bias_ih": (GATES * units,),
            "bias_hh": (GATES * units,),
        }
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    def initialise(self, generator: Any) -> None:
        """Uniform within 1 / sqrt(units), as `nn.LSTM` has it."""
        bound = 1 / math.sqrt(self.units)
        for parameter in self.parameters():
            parameter.data.uniform_(-bound, bound, generator=generator)

    def width(self, device: Any) -> int:
        """Units with those that are added for alignment."""
        align = self.align if self.align is not None else (ALIGNED if torch.device(device).type == "cuda" else 1)
        return -(-self.units // align) * align

    def start(self, batch: int, like: torch.Tensor) -> State:
        """The zero state."""
        zero = like.new_zeros((1, batch, self.width(like.device)))
        return zero, zero.clone()

    def forward(
        self, values: torch.Tensor, state: State, *, drop: float = 0.0, generator: Any = None
    ) -> tuple[torch.Tensor, State]:
        """Outputs (steps, batch, width) and the state after them, in the precision of `values`."""
        hidden = self.weight_hh
        if drop and self.training:
            hidden = hidden * mask(hidden, tuple(hidden.shape), drop, generator)
        weights = [self.weight_ih, hidden, self.bias_ih, self.bias_hh]
        if values.is_cuda or self.align:
            weights = self._packed(weights, values)
        # cuDNN keeps what the backward pass needs only when told that this is training; there is no dropout inside.
        keep = torch.is_grad_enabled()
        output, *after = torch._VF.lstm(values, state, weights, True, 1, 0.0, keep, False, False)
        return output, (after[0], after[1])

    def _packed(self, weights: list[torch.Tensor], values: torch.Tensor) -> list[torch.Tensor]:
        """The weights as pieces of one buffer, which spares cuDNN from copying them together, and a warning."""
        units, inputs = self.width(values.device), values.shape[-1]
        shapes = [(GATES * units, inputs), (GATES * units, units), (GATES * units,), (GATES * units,)]
        grown = [
            self._grown(weight, units, shape[1] if len(shape) > 1 else 1)
            for weight, shape in zip(weights, shapes, strict=True)
        ]
        buffer = torch.cat([weight.flatten() for weight in grown]).to(values.dtype)
        pieces = buffer.split([math.prod(shape) for shape in shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def _grown(self, weight: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
        gates = weight.view(GATES, self.units, -1)
        missing = (columns - gates.shape[2], rows - self.units)
        return functional.pad(gates, (0, missing[0], 0, missing[1])) if any(missing) else gates
