"""The clock of a training: when to look, when to save, when to stop, what to show."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from evenhand.models.lm.checkpoint import keep
from evenhand.models.lm.training_state import Run

Progress: TypeAlias = "Callable[[int, int, str], None] | None"
LOOK = 1.0  # seconds between two looks at the losses, each of which waits for the device
WITHIN_EPOCH = 600.0  # seconds after which a long epoch is saved before its end


class Watch:
    """One call of `train`."""

    def __init__(
        self,
        run: Run,
        limit: float | None,
        path: Path | None,
        save_every: float,
        identity: Mapping[str, Any],
        progress: Progress,
        interrupted: Callable[[], bool],
    ) -> None:
        self.run, self.path, self.identity, self.progress = run, path, identity, progress
        self.interrupted = interrupted
        self.limit = float("inf") if limit is None else limit
        self.save_every = save_every
        # What an epoch takes, for the decision whether another fits.
        self.usual, self.epoch_began = run.history[-1].seconds if run.history else 0.0, 0.0
        self.began = self.looked = self.saved = time.perf_counter()

    def elapsed(self) -> float:
        """Seconds since the call began."""
        return time.perf_counter() - self.began

    def has_time_for(self, seconds: float) -> bool:
        """Whether so many more seconds fit the limit."""
        return self.elapsed() + seconds <= self.limit

    def look(self) -> None:
        """Once a second: is everything a number, is a checkpoint due?"""
        now = time.perf_counter()
        if now - self.looked < LOOK:
            return
        self.run.refuse_broken()
        if now - self.saved > WITHIN_EPOCH:
            self.save()
        self.show()
        self.looked = time.perf_counter()

    def show(self) -> None:
        """Tell how far it is."""
        if self.progress:
            known = f", valid perplexity {self.run.history[-1].valid_perplexity:.1f}" if self.run.history else ""
            self.progress(self.run.step, len(self.run.lengths), f"epoch {self.run.epoch}{known}")

    def save(self) -> None:
        """Write a checkpoint, where one is wanted."""
        if self.path:
            keep(self.run, self.path, self.identity)
        self.saved = time.perf_counter()

    def note_epoch(self) -> None:
        """An epoch is over: remember what it took, validation included, and save if the last checkpoint is old."""
        if time.perf_counter() - self.saved >= self.save_every:
            self.save()
        self.show()
        self.usual, self.epoch_began = self.elapsed() - self.epoch_began, self.elapsed()
