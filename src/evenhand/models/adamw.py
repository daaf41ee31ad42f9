"""AdamW with warm-up, linear decay and clipping, as pre-trained encoders are fine-tuned (Devlin et al. 2019)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from evenhand.errors import UsageError

Tensor = Any  # torch is not typed here


@dataclass(frozen=True)
class AdamWSettings:
    """Learning rate and what limits it.

    Attributes:
        learning_rate: the largest one, reached after warm-up.
        weight_decay: of weight matrices; biases and the weights of LayerNorm do not decay.
        warm_up: share of the steps in which the learning rate rises; it then falls linearly to 0.
        clip: largest norm of the gradient.
    """

    learning_rate: float = 3e-5
    weight_decay: float = 0.01
    warm_up: float = 0.1
    clip: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise UsageError(f"learning_rate must be positive, got {self.learning_rate}", hint="try 3e-5")
        if not 0 <= self.warm_up < 1 or not 0 <= self.weight_decay < math.inf or not self.clip > 0:
            raise UsageError(
                "warm_up must be in [0, 1), weight_decay not negative and clip positive, got "
                f"warm_up={self.warm_up}, weight_decay={self.weight_decay} and clip={self.clip}"
            )

    def rate(self, done: float) -> float:
        """Return the learning rate after a share of the training.

        >>> AdamWSettings(learning_rate=1.0, warm_up=0.5).rate(0.25), AdamWSettings(learning_rate=1.0).rate(1.0)
        (0.5, 0.0)
        """
        if done < self.warm_up:
            return self.learning_rate * done / self.warm_up
        return self.learning_rate * max(0.0, 1.0 - done) / (1.0 - self.warm_up)


class DecayingAdamW:
    """The optimiser of some parameters; only those that require a gradient are trained."""

    def __init__(self, parameters: Iterable[Tensor], settings: AdamWSettings) -> None:
        self.settings = settings
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        matrices = [parameter for parameter in self.parameters if parameter.dim() > 1]
        others = [parameter for parameter in self.parameters if parameter.dim() <= 1]
        groups = [
            {"params": matrices, "weight_decay": settings.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        on_gpu = any(parameter.is_cuda for parameter in self.parameters)
        self.optimiser = torch.optim.AdamW(groups, lr=settings.learning_rate, fused=on_gpu)

    def step(self, done: float) -> None:
        """Clip the gradients, update the parameters with the rate after this share of the training, and start anew."""
        torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.rate(done)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the tensors of an optimiser's state by name, for a checkpoint."""
    states = optimiser.state_dict()["state"]
    return {f"optimiser.{index}.{key}": value for index, entries in states.items() for key, value in entries.items()}


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the state that `optimiser_tensors` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "optimiser":
            index, _, key = rest.partition(".")
            state.setdefault(int(index), {})[key] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
