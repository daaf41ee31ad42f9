"""Checkpoints: the state of a stack after an epoch as one safetensors file, with JSON metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import torch

from evenhand.errors import FormatError, UsageError, shown
from evenhand.files import existing, writing
from evenhand.models.adamw import optimiser_tensors, restore_optimiser
from evenhand.models.nli.model_file import parse_metadata
from evenhand.models.nli.training.networks.stacked import Tensor

if TYPE_CHECKING:
    from evenhand.models.nli.training.loop import Stack


METADATA = "evenhand-nli-checkpoint"
FORMAT = 1


class CheckpointMetadata(TypedDict):
    """What a checkpoint says about itself: the training it belongs to, and the state of early stopping."""

    fingerprint: dict[str, object]
    standing: dict[str, object]


def save(stack: Stack, path: Path, fingerprint: Mapping[str, object]) -> None:
    """Write everything the next epoch depends on; the previous file is replaced when the new one is complete."""
    write_checkpoint(path, _tensors(stack), fingerprint, stack.stopping.to_dict())


def write_checkpoint(
    path: Path, tensors: Mapping[str, Tensor], fingerprint: Mapping[str, object], standing: Mapping[str, object]
) -> None:
    """Write tensors, the training they belong to, and how far it is."""
    from safetensors.torch import save as to_bytes

    about = {"format": FORMAT, "fingerprint": fingerprint, "standing": standing}
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with writing(path) as out:
        out.write(to_bytes(stored, metadata={METADATA: json.dumps(about)}))


def load(stack: Stack, path: Path, fingerprint: Mapping[str, object]) -> None:
    """Restore a stack from a checkpoint.

    Raises:
        UsageError: If the checkpoint belongs to other settings, data or vectors.
        FormatError: If the file is damaged or not a checkpoint.
    """
    about, tensors = read_checkpoint(path, fingerprint)
    stopping = read_standing(about, path)
    if stopping.epoch > stack.settings.epochs:
        raise UsageError(
            f"the checkpoint {path} has {stopping.epoch} epochs, but epochs is {stack.settings.epochs}",
            hint="set epochs to at least as many, or train in another folder",
        )
    try:
        _restore(stack, tensors)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise damaged_checkpoint(path, error) from error
    stack.stopping = stopping


def read_standing(about: CheckpointMetadata, path: Path) -> EarlyStopping:
    """Return the state of early stopping that a checkpoint holds."""
    try:
        return EarlyStopping.from_dict(about["standing"])
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise damaged_checkpoint(path, error) from error


def _restore(stack: Stack, tensors: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for best, (name, parameter) in zip(stack.best, stack.network.named_parameters(), strict=True):
            parameter.copy_(tensors[f"now.{name}"])
            best.copy_(tensors[f"best.{name}"])
    restore_optimiser(stack.optimiser, tensors)
    torch.set_rng_state(tensors["random.cpu"])
    if "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"], stack.settings.device)


def _tensors(stack: Stack) -> dict[str, Tensor]:
    tensors = {f"now.{name}": parameter for name, parameter in stack.network.named_parameters()}
    names = [name for name, _ in stack.network.named_parameters()]
    tensors |= {f"best.{name}": best for name, best in zip(names, stack.best, strict=True)}
    tensors |= optimiser_tensors(stack.optimiser)
    tensors["random.cpu"] = torch.get_rng_state()
    if torch.device(stack.settings.device).type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(stack.settings.device)
    return tensors


def read_checkpoint(path: Path, fingerprint: Mapping[str, object]) -> tuple[CheckpointMetadata, dict[str, Tensor]]:
    """Return what `write_checkpoint` wrote.

    Raises:
        UsageError: If the checkpoint belongs to another training.
        FormatError: If the file is damaged or not a checkpoint.
    """
    about, tensors = _read(path)
    _require_same_training(about["fingerprint"], json.loads(json.dumps(fingerprint)), path)
    return about, tensors


def _read(path: Path) -> tuple[CheckpointMetadata, dict[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(existing(path, what="checkpoint"), framework="pt") as file:
            about = parse_metadata(path, dict(file.metadata() or {})[METADATA])
            if about["format"] != FORMAT:
                raise ValueError(f"format {shown(about['format'])}, expected {FORMAT}")
            fingerprint, standing = about["fingerprint"], about["standing"]
            if not isinstance(fingerprint, dict) or not isinstance(standing, dict):
                raise TypeError("the fingerprint is not an object")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            return {"fingerprint": fingerprint, "standing": standing}, tensors
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise damaged_checkpoint(path, error) from error


def damaged_checkpoint(path: Path, error: Exception) -> FormatError:
    """Return the error for a file that does not hold what a checkpoint should."""
    return FormatError(
        f"{path}: not an evenhand checkpoint, or damaged ({error})", hint="delete it to train from the start"
    )


def _require_same_training(stored: Mapping[str, object], current: Mapping[str, object], path: Path) -> None:
    differing = sorted(key for key in {*stored, *current} if stored.get(key) != current.get(key))
    if differing:
        changes = "; ".join(
            f"{key} was {shown(stored.get(key))}, is {shown(current.get(key))}" for key in differing[:4]
        )
        raise UsageError(
            f"the checkpoint {path} belongs to another training run: {changes}",
            hint="use the same data and settings to resume, another folder to start again, or delete the checkpoint",
        )


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
