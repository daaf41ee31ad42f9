"""Masks for dropout: drawn once for a batch, from a generator of the training's own, so that it can be resumed."""

from __future__ import annotations

from typing import Any

import torch


def mask(like: torch.Tensor, shape: tuple[int, ...], share: float, generator: Any = None) -> torch.Tensor:
    """Zeros for this share of the entries, 1 / (1 - share) for the others: the expectation stays what it was."""
    drawn = torch.empty(shape, dtype=like.dtype, device=like.device).bernoulli_(1 - share, generator=generator)
    return drawn.div_(1 - share)


def locked(values: torch.Tensor, share: float, generator: Any = None) -> torch.Tensor:
    """Dropout with one mask for all time steps (Gal & Ghahramani 2016): values are (steps, batch, width)."""
    return values * mask(values, (1, *values.shape[1:]), share, generator) if share else values
