"""The loop over epochs of one stack: train, ask the development pairs, keep the best, write a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evenhand.errors import DegenerateError
from evenhand.models.nli.training import checkpoint
from evenhand.models.nli.training.batches import Batches
from evenhand.models.nli.training.early_stopping import Standing
from evenhand.models.nli.training.networks.stacked import StackedNetwork, Tensor
from evenhand.models.nli.training.settings import Settings

Told = Callable[[int, int, str], None]


class Stack:
    """Members of one shape in training: the network, its optimiser, the best weights so far."""

    def __init__(self, network: StackedNetwork, settings: Settings, seeds: Sequence[int]) -> None:
        self.network, self.settings, self.seeds = network, settings, tuple(seeds)
        self.network.draw(self.seeds)
        self.network.to(settings.device)
        self.optimiser = _optimiser(network, settings)
        self.best = [parameter.detach().clone() for parameter in network.parameters()]
        self.standing = Standing(len(self.seeds))
        torch.manual_seed(int(np.random.SeedSequence(self.seeds).generate_state(1)[0]))  # dropout alone draws from it

    def half(self) -> AbstractContextManager[Any]:
        """Products in bfloat16 where that was asked for; parameters and optimiser stay in single precision."""
        kind = torch.device(self.settings.device).type
        found: AbstractContextManager[Any] = torch.autocast(
            kind, dtype=torch.bfloat16, enabled=self.settings.precision == "bf16"
        )
        return found

    def learn(self, batches: Batches, told: Callable[[int], None]) -> np.ndarray:
        """One epoch over the pairs; the mean loss of each member."""
        self.network.train()
        total = torch.zeros(len(self.seeds), device=self.settings.device)
        for step, batch in enumerate(batches.shuffled(self.seeds, self.standing.epoch + 1)):
            losses = self._losses(batch)
            self.optimiser.zero_grad(set_to_none=True)
            losses.sum().backward()  # members share nothing: the sum gives each its own gradient
            self.optimiser.step()
            total += losses.detach()
            told(step)
        return np.asarray((total / len(batches)).cpu().numpy(), dtype=np.float64)

    def _losses(self, batch: Any) -> Tensor:
        with self.half():
            logits = self.network(*batch[:4])
        flat = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), batch.labels.flatten(), reduction="none")
        return flat.view(batch.labels.shape).mean(1)

    def accuracies(self, batches: Batches) -> np.ndarray:
        """The share of development pairs that each member gets right."""
        self.network.eval()
        right = torch.zeros(len(self.seeds), dtype=torch.int64, device=self.settings.device)
        with torch.inference_mode(), self.half():
            for batch in batches.in_order():
                right += (self.network(*batch[:4]).argmax(-1) == batch.labels).sum(1)
        return np.asarray(right.cpu().numpy() / batches.pairs, dtype=np.float64)

    def keep(self, improved: np.ndarray) -> None:
        """Remember the weights of the members that have just become better."""
        chosen = torch.as_tensor(improved, device=self.settings.device)
        with torch.no_grad():
            for kept, now in zip(self.best, self.network.parameters(), strict=True):
                kept.copy_(torch.where(chosen.view(-1, *[1] * (now.dim() - 1)), now, kept))

    def restore(self) -> StackedNetwork:
        """The network with every member's best weights."""
        with torch.no_grad():
            for kept, now in zip(self.best, self.network.parameters(), strict=True):
                now.copy_(kept)
        return self.network


def run(
    stack: Stack, pairs: Batches, dev: Batches, *, path: Path | None, fingerprint: Mapping[str, Any], told: Told
) -> None:
    """Epoch after epoch until all members are done, from the checkpoint at `path` where there is one."""
    if path and path.exists():
        checkpoint.load(stack, path, fingerprint)
    epochs, steps = stack.settings.epochs, len(pairs)
    while not stack.standing.finished(epochs):
        done, best = stack.standing.epoch, stack.standing.best.max()
        what = f"epoch {done + 1}/{epochs}" + (f", dev {best:.1%}" if done else "")
        try:
            losses = stack.learn(pairs, lambda step: told(done * steps + step, epochs * steps, what))  # noqa: B023
            _refuse_nan(stack, losses, path)
            stack.keep(stack.standing.record(losses, stack.accuracies(dev), stack.settings.patience))
            if path:
                checkpoint.save(stack, path, fingerprint)
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(f"stopped in epoch {done + 1}; {_how_to_resume(path, done)}") from error


def _refuse_nan(stack: Stack, losses: np.ndarray, path: Path | None) -> None:
    bad = np.flatnonzero(~np.isfinite(losses) & ~stack.standing.done)
    if len(bad):
        done = stack.standing.epoch
        raise DegenerateError(
            f"the loss of seed {stack.seeds[bad[0]]} is {losses[bad[0]]} in epoch {done + 1}: training diverged",
            hint=f"lower the learning rate (it is {stack.settings.learning_rate:g}); {_kept(path, done)}",
        )


def _how_to_resume(path: Path | None, done: int) -> str:
    return f"{_kept(path, done)}: run the same again to go on from there" if path and done else _kept(path, done)


def _kept(path: Path | None, done: int) -> str:
    if not path:
        return "no checkpoint was asked for, so nothing is kept"
    return f"the checkpoint {path} holds epoch {done}" if done else "no epoch was finished, so there is no checkpoint"


def _optimiser(network: StackedNetwork, settings: Settings) -> Any:
    options: dict[str, Any] = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.optimiser == "adagrad":
        return torch.optim.Adagrad(network.parameters(), **options)
    return torch.optim.Adam(network.parameters(), **options, fused=torch.device(settings.device).type == "cuda")
