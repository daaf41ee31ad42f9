"""NT-ASGD: gradient descent that starts averaging its iterates when the validation loss stops improving."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch


class NTASGD:
    """Non-monotonically triggered averaged SGD (Merity et al. 2018).

    The update is p <- p - lr (g + decay p), with the norm of g clipped. Averaging starts at the first validation loss
    above the minimum of all but the last `patience` losses: the rule of the released code, while the algorithm in the
    paper compares with the last ones. From then on, `averages` is the arithmetic mean of the iterates, including the
    first after the trigger, which torch's own ASGD leaves out.

    Args:
        parameters: the parameters to update.
        weight_decay: L2 penalty.
        clip: largest norm of a gradient.
        patience: number of recent losses that the trigger does not compare with.
    """

    def __init__(
        self, parameters: Iterable[torch.nn.Parameter], *, weight_decay: float, clip: float, patience: int
    ) -> None:
        self.parameters = list(parameters)
        self.weight_decay, self.clip, self.patience = weight_decay, clip, patience
        self.losses: list[float] = []
        self.averages: list[torch.Tensor] = []
        self.averaged = 0  # number of iterates in the averages
        self.averaging = False

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def step(self, learning_rate: float) -> torch.Tensor:
        """Clip the gradients, update parameters and averages, and clear the gradients, without waiting for a GPU.

        Returns:
            The share of the gradient that clipping left: 1 if it was short enough.
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
        """Record a validation loss and start averaging if it triggers."""
        earlier = self.losses[: -self.patience]
        if not self.averaging and earlier and loss > min(earlier):
            self.averaging = True
            self.averages = [parameter.detach().clone() for parameter in self.parameters]
        self.losses.append(loss)

    @contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Use the averages as parameters within the block, once there are any, and restore the parameters after it."""
        if not self.averaged:
            yield
            return
        with torch.no_grad():
            current = [parameter.detach().clone() for parameter in self.parameters]
            torch._foreach_copy_(self.parameters, self.averages)
            try:
                yield
            finally:
                torch._foreach_copy_(self.parameters, current)
