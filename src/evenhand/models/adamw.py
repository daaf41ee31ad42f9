"""AdamW with warm-up, linear decay and clipping for loops that are not a `Training`."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from evenhand.models.training import AdamWSettings, adamw


class DecayingAdamW:
    """The optimiser of some parameters; only those that require a gradient are trained."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter], settings: AdamWSettings) -> None:
        self.settings = settings
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self.optimiser = adamw(self.parameters, settings)

    def step(self, done: float) -> None:
        """Clip the gradients, update the parameters with the rate after this share of the training, and start anew."""
        torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.rate(done)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
