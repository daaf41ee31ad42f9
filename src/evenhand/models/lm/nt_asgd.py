"""NT-ASGD: plain gradient descent that starts to average its iterates when validation stops getting better."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


class NTASGD:
    """Non-monotonically triggered averaged SGD (Merity et al. 2018).

    p <- p - lr (g + decay p), with g clipped to a norm. Averaging starts at the first validation loss that is worse
    than the best of all but the last `patience` ones (the rule of the released code; the paper's algorithm is written
    with the last ones instead); from then on `averages` is the arithmetic mean of the iterates, the first after the
    trigger included (torch's own ASGD leaves that one out).
    """

    def __init__(self, parameters: Iterable[Any], *, weight_decay: float, clip: float, patience: int) -> None:
        self.parameters = list(parameters)
        self.weight_decay, self.clip, self.patience = weight_decay, clip, patience
        self.losses: list[float] = []
        self.averages: list[torch.Tensor] = []
        self.averaged = 0  # iterates in the averages
        self.averaging = False

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def step(self, learning_rate: float) -> torch.Tensor:
        """Clip the gradients, take a step, take it into the averages, forget the gradients. Never waits for a GPU.

        Returns what clipping left of the gradient: 1 where it was short enough.
        """
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.clip, foreach=True)
        gradients = [parameter.grad for parameter in self.parameters]
        torch._foreach_mul_(self.parameters, 1 - learning_rate * self.weight_decay)
        torch._foreach_add_(self.parameters, gradients, alpha=-learning_rate)
        if self.averaging:
            self.averaged += 1
            torch._foreach_lerp_(self.averages, [p.detach() for p in self.parameters], 1 / self.averaged)
        for parameter in self.parameters:
            parameter.grad = None
        return (self.clip / norm).clamp(max=1.0)

    def observe(self, loss: float) -> None:
        """Take in a validation loss; it may start the averaging."""
        earlier = self.losses[: -self.patience]
        if not self.averaging and earlier and loss > min(earlier):
            self.averaging = True
            self.averages = [parameter.detach().clone() for parameter in self.parameters]
        self.losses.append(loss)

    @contextmanager
    def best_guess(self) -> Iterator[None]:
        """The averages in the place of the parameters, once there are any; afterwards everything is as it was."""
        if not self.averaged:
            yield
            return
        with torch.no_grad():
            kept = [parameter.detach().clone() for parameter in self.parameters]
            torch._foreach_copy_(self.parameters, self.averages)
            try:
                yield
            finally:
                torch._foreach_copy_(self.parameters, kept)
