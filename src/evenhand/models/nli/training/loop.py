"""The training loop of one stack: train, evaluate on the development pairs, keep the best, write a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.arrays import Vector64
from evenhand.errors import DegenerateError
from evenhand.models.nli.training import checkpoint
from evenhand.models.nli.training.batches import TrainingBatch, TrainingBatches
from evenhand.models.nli.training.checkpoint import EarlyStopping
from evenhand.models.nli.training.networks.stacked import StackedNetwork, Tensor
from evenhand.models.nli.training.settings import NLITrainingSettings

Progress = Callable[[int, int, str], None]


class Stack:
    """Members of one shape in training: network, optimiser and best weights so far."""

    def __init__(self, network: StackedNetwork, settings: NLITrainingSettings, seeds: Sequence[int]) -> None:
        self.network, self.settings, self.seeds = network, settings, tuple(seeds)
        self.network.initialise(self.seeds)
        self.network.to(settings.device)
        self.optimiser = _optimiser(network, settings)
        self.best = [parameter.detach().clone() for parameter in network.parameters()]
        self.stopping = EarlyStopping(len(self.seeds))
        torch.manual_seed(int(np.random.SeedSequence(self.seeds).generate_state(1)[0]))  # used by dropout only

    def autocast(self) -> AbstractContextManager[object]:
        """Compute products in bfloat16 if set; parameters and optimiser stay in single precision."""
        kind, half = torch.device(self.settings.device).type, self.settings.precision == "bfloat16"
        context: AbstractContextManager[object] = torch.autocast(kind, dtype=torch.bfloat16, enabled=half)
        return context

    def train_epoch(self, batches: TrainingBatches, report: Callable[[int], None]) -> Vector64:
        """Train for one epoch; return the mean loss of each member."""
        self.network.train()
        total = torch.zeros(len(self.seeds), device=self.settings.device)
        for step, batch in enumerate(batches.shuffled(self.seeds, self.stopping.epoch + 1)):
            losses = self._losses(batch)
            self.optimiser.zero_grad(set_to_none=True)
            losses.sum().backward()  # members share no parameters: the sum gives each its own gradient
            self.optimiser.step()
            total += losses.detach()
            report(step)
        return np.asarray((total / len(batches)).cpu().numpy(), dtype=np.float64)

    def _losses(self, batch: TrainingBatch) -> Tensor:
        with self.autocast():
            logits = self.network(*batch[:4])
        flat = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), batch.labels.flatten(), reduction="none")
        return flat.view(batch.labels.shape).mean(1)

    def accuracies(self, batches: TrainingBatches) -> Vector64:
        """Return the accuracy of each member."""
        self.network.eval()
        correct = torch.zeros(len(self.seeds), dtype=torch.int64, device=self.settings.device)
        with torch.inference_mode(), self.autocast():
            for batch in batches.in_order():
                correct += (self.network(*batch[:4]).argmax(-1) == batch.labels).sum(1)
        return np.asarray(correct.cpu().numpy() / batches.pairs, dtype=np.float64)

    def keep_best(self, improved: NDArray[np.bool_]) -> None:
        """Store the weights of the members that improved."""
        mask = torch.as_tensor(improved, device=self.settings.device)
        with torch.no_grad():
            for best, current in zip(self.best, self.network.parameters(), strict=True):
                best.copy_(torch.where(mask.view(-1, *[1] * (current.dim() - 1)), current, best))

    def restore_best(self) -> StackedNetwork:
        """Return the network with every member's best weights."""
        with torch.no_grad():
            for best, current in zip(self.best, self.network.parameters(), strict=True):
                current.copy_(best)
        return self.network


def run(
    stack: Stack,
    pairs: TrainingBatches,
    dev: TrainingBatches,
    *,
    path: Path | None,
    fingerprint: Mapping[str, object],
    progress: Progress,
) -> None:
    """Train until every member has stopped, resuming from the checkpoint at `path` if there is one."""
    if path and path.exists():
        checkpoint.load(stack, path, fingerprint)
    epochs, steps = stack.settings.epochs, len(pairs)
    while not stack.stopping.finished(epochs):
        done, best = stack.stopping.epoch, stack.stopping.best.max()
        what = f"epoch {done + 1}/{epochs}" + (f", dev {best:.1%}" if done else "")
        try:
            losses = stack.train_epoch(pairs, lambda step: progress(done * steps + step, epochs * steps, what))  # noqa: B023
            _require_finite(stack, losses, path)
            stack.keep_best(stack.stopping.record(losses, stack.accuracies(dev), stack.settings.patience))
            if path:
                checkpoint.save(stack, path, fingerprint)
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(f"stopped in epoch {done + 1}; {_how_to_resume(path, done)}") from error


def _require_finite(stack: Stack, losses: Vector64, path: Path | None) -> None:
    bad = np.flatnonzero(~np.isfinite(losses) & ~stack.stopping.done)
    if len(bad):
        done = stack.stopping.epoch
        raise DegenerateError(
            f"the loss of seed {stack.seeds[bad[0]]} is {losses[bad[0]]} in epoch {done + 1}: training diverged",
            hint=f"lower the learning rate (now {stack.settings.learning_rate:g}); {_checkpoint_state(path, done)}",
        )


def _how_to_resume(path: Path | None, done: int) -> str:
    state = _checkpoint_state(path, done)
    return f"{state}; rerun the same command to resume" if path and done else state


def _checkpoint_state(path: Path | None, done: int) -> str:
    if not path:
        return "there is no checkpoint, because no checkpoint folder was given"
    return (
        f"the checkpoint {path} holds epoch {done}" if done else "there is no checkpoint, because no epoch was finished"
    )


def _optimiser(network: StackedNetwork, settings: NLITrainingSettings) -> torch.optim.Optimizer:
    options = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.optimiser == "adagrad":
        return torch.optim.Adagrad(network.parameters(), **options)
    return torch.optim.Adam(network.parameters(), **options, fused=torch.device(settings.device).type == "cuda")
