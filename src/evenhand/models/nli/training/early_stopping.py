"""Early stopping: the best epoch of each member of a stack, and when to stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class EarlyStopping:
    """Best accuracy, best epoch and history of each member; `epoch` counts the finished epochs."""

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
        """Record an epoch; return a mask of the members that improved. Members out of patience no longer change."""
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
        """Return True when every member has stopped."""
        return self.epoch >= epochs or bool(self.done.all())

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON; floats keep every bit."""
        return {
            "epoch": self.epoch,
            "best": self.best.tolist(),
            "best_epoch": self.best_epoch.tolist(),
            "done": self.done.tolist(),
            "history": self.history,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> EarlyStopping:
        """Return the state that `to_dict` wrote."""
        state = cls(len(record["best"]), int(record["epoch"]))
        state.best = np.array(record["best"], float)
        state.best_epoch = np.array(record["best_epoch"], int)
        state.done = np.array(record["done"], bool)
        state.history = [[dict(entry) for entry in entries] for entries in record["history"]]
        return state
