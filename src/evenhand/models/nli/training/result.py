"""What training gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.models.vectors import Vectors


@dataclass(frozen=True, eq=False)
class Trained:
    """A model at its best epoch on the development pairs, how it came there, and from what.

    `history` has one entry for each epoch up to the one at which patience ended: training loss and dev accuracy.
    """

    model: Any  # an NLIModel with save()
    seed: int
    vectors: Vectors
    dev_accuracy: float
    epoch: int
    history: tuple[Mapping[str, float], ...]
    manifest: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, without the weights."""
        return {
            "name": self.model.name,
            "seed": self.seed,
            "vectors": self.vectors.name,
            "dev_accuracy": self.dev_accuracy,
            "epoch": self.epoch,
            "history": [dict(entry) for entry in self.history],
            **self.manifest,
        }
