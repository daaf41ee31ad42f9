"""How far each member of a stack has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Standing:
    """Best accuracy and its epoch, epochs since, and the record of each member; `epoch` counts those finished."""

    members: int
    epoch: int = 0
    best: np.ndarray = field(init=False)
    best_epoch: np.ndarray = field(init=False)
    history: list[list[dict[str, float]]] = field(init=False)
    done: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.best = np.full(self.members, -1.0)
        self.best_epoch = np.zeros(self.members, int)
        self.done = np.zeros(self.members, bool)
        self.history = [[] for _ in range(self.members)]

    def record(self, losses: np.ndarray, accuracies: np.ndarray, patience: int) -> np.ndarray:
        """Take in an epoch; true for the members whose weights are now their best. Who is past patience stays as is."""
        self.epoch += 1
        improved = ~self.done & (accuracies > self.best)
        for member in np.flatnonzero(~self.done):
            entry = {"epoch": self.epoch, "loss": float(losses[member]), "dev_accuracy": float(accuracies[member])}
            self.history[member].append(entry)
        self.best[improved] = accuracies[improved]
        self.best_epoch[improved] = self.epoch
        self.done |= self.epoch - self.best_epoch >= patience
        return improved

    def finished(self, epochs: int) -> bool:
        """Whether nobody has anything left to do."""
        return self.epoch >= epochs or bool(self.done.all())

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; floats keep every bit."""
        return {
            "epoch": self.epoch,
            "best": self.best.tolist(),
            "best_epoch": self.best_epoch.tolist(),
            "done": self.done.tolist(),
            "history": self.history,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Standing:
        """The inverse of `to_dict`."""
        made = cls(len(document["best"]), int(document["epoch"]))
        made.best = np.array(document["best"], float)
        made.best_epoch = np.array(document["best_epoch"], int)
        made.done = np.array(document["done"], bool)
        made.history = [[dict(entry) for entry in entries] for entries in document["history"]]
        return made
