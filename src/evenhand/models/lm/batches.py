"""A token stream as columns read side by side, cut into stretches of varying length."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import torch

from evenhand.errors import UsageError
from evenhand.models.lm.vocabulary import Tokens

HALF = 0.05  # of the stretches are meant to be half as long (Merity et al. 2018, section 5)
JITTER = 5.0  # standard deviation of a stretch's length
SHORTEST = 5


def columns(tokens: Tokens, batch: int, device: Any = "cpu") -> torch.Tensor:
    """The stream cut into `batch` equal columns, (steps, batch); what is left over at its end is not used."""
    steps = len(tokens) // batch
    if steps < 2:
        raise UsageError(
            f"{len(tokens)} tokens are too few for {batch} columns of at least 2",
            hint="use more text" + (", or a smaller batch" if batch > 1 else ""),
        )
    cut = np.asarray(tokens[: steps * batch]).reshape(batch, steps).T
    return torch.from_numpy(np.ascontiguousarray(cut, dtype=np.int64)).to(device)


def stretches(steps: int, bptt: int, *, seed: int, epoch: int) -> list[int]:
    """Lengths that cover the steps - 1 predictions of a column, drawn for this epoch.

    About bptt, half of it for 5 %, with a jitter of 5 and at least 5; only the last is what is left. They depend on
    seed and epoch alone, so that a resumed training cuts the text as an uninterrupted one does.
    """
    rng = np.random.default_rng([seed, epoch])
    lengths: list[int] = []
    left = steps - 1
    while left > 0:
        centre = bptt if rng.random() >= HALF else bptt / 2
        lengths.append(min(left, max(SHORTEST, int(rng.normal(centre, JITTER)))))
        left -= lengths[-1]
    return lengths


def starts(lengths: list[int]) -> list[int]:
    """Where each stretch begins."""
    return [0, *accumulate(lengths)][:-1]
