"""Training with torch: one loop, one checkpoint, and one place where full memory is handled.

A `Training` holds a network, its optimiser and how far it is. A subclass says what one epoch or step does, and adds
what else the next one depends on. Stopped and resumed, a training gives the same result as an uninterrupted one; on a
CPU the same bits.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.arrays import Vector64
from evenhand.errors import DegenerateError, EvenhandError, FormatError, UsageError, shown, unknown_name
from evenhand.files import existing, writing
from evenhand.models.device import canonical_precision, free_cache, is_out_of_memory, resolve_device, resolve_precision
from evenhand.models.model_files import parse_metadata
from evenhand.progress import Progress

PRECISIONS = ("float32", "bfloat16")  # float16 would need a scaled loss
METADATA = "evenhand-checkpoint"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings that every training has.

    Attributes:
        learning_rate: the largest one.
        weight_decay: strength of the penalty on large weights.
        device: auto, cpu, cuda or cuda:N.
        precision: of the products; weights are always float32. `auto` is bfloat16 on a GPU.
    """

    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    device: str = "auto"
    precision: str = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", canonical_precision(self.precision))
        if self.precision not in ("auto", *PRECISIONS):
            raise unknown_name("precision", self.precision, ("auto", *PRECISIONS))
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            hint = f"try {type(self).learning_rate:g}"
            raise UsageError(f"learning_rate must be positive, got {self.learning_rate}", hint=hint)
        if not 0 <= self.weight_decay < math.inf:
            raise UsageError(f"weight_decay must not be negative, got {self.weight_decay}")

    @classmethod
    def of(cls, options: Mapping[str, object], *, function: str) -> Self:
        """Return settings from the keyword arguments of a function.

        Raises:
            UsageError: If there is no setting of a name; its hint lists all.
        """
        try:
            return cls(**options)  # type: ignore[arg-type]
        except TypeError as error:
            names = ", ".join(setting.name for setting in fields(cls))
            raise UsageError(f"{function}: {error}", hint=f"settings are {names}") from error

    def resolve(self) -> Self:
        """Return settings in which `auto` is replaced by the device and the precision of this machine."""
        device = resolve_device(self.device)
        return replace(self, device=device, precision=resolve_precision(self.precision, device, supported=PRECISIONS))

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return asdict(self)

    def require_at_least(self, minimum: int, *names: str) -> None:
        """Raise `UsageError` if one of the named settings is smaller."""
        for name in names:
            if getattr(self, name) < minimum:
                raise UsageError(f"{name} must be at least {minimum}, got {getattr(self, name)}")

    def require_rates(self, *names: str) -> None:
        """Raise `UsageError` if one of the named dropout rates is neither None nor in [0, 1)."""
        for name in names:
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate < 1:
                raise UsageError(f"{name} must be in [0, 1), got {rate}")


@dataclass(frozen=True, kw_only=True)
class AdamWSettings(TrainingSettings):
    """AdamW with warm-up, linear decay and clipping, as pre-trained encoders are fine-tuned (Devlin et al. 2019).

    Attributes:
        learning_rate: the largest one, reached after warm-up.
        weight_decay: of weight matrices; biases and the weights of LayerNorm do not decay.
        warm_up: share of the steps in which the learning rate rises; it then falls linearly to 0.
        clip: largest norm of the gradient.
    """

    learning_rate: float = 3e-5
    weight_decay: float = 0.01
    warm_up: float = 0.1
    clip: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_rates("warm_up")
        if not self.clip > 0:
            raise UsageError(f"clip must be positive, got {self.clip}")

    def rate(self, done: float) -> float:
        """Return the learning rate after a share of the training.

        >>> AdamWSettings(learning_rate=1.0, warm_up=0.5).rate(0.25), AdamWSettings(learning_rate=1.0).rate(1.0)
        (0.5, 0.0)
        """
        if done < self.warm_up:
            return self.learning_rate * done / self.warm_up
        return self.learning_rate * max(0.0, 1.0 - done) / (1.0 - self.warm_up)


def adamw(parameters: Iterable[torch.nn.Parameter], settings: AdamWSettings) -> torch.optim.Optimizer:
    """Return AdamW for the parameters that require a gradient; only matrices decay."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, fused=any(p.is_cuda for p in trained))


class Training(ABC):
    """A network in training.

    Attributes:
        done: finished epochs or steps, of `total`.
        history: what is recorded of them.
        parts: number of parts in which a batch is computed; it grows when memory is full.
        unit: `epoch` or `step`: what `advance` does once.
    """

    unit: ClassVar[str] = "epoch"

    def __init__(
        self, network: torch.nn.Module, optimiser: torch.optim.Optimizer, settings: TrainingSettings, *, total: int
    ) -> None:
        self.network, self.optimiser, self.settings, self.total = network, optimiser, settings, total
        self.done, self.parts = 0, 1
        self.history: list[dict[str, Any]] = []
        self.path: Path | None = None
        self.saved = 0  # of `done`, in the checkpoint

    @abstractmethod
    def advance(self, progress: Progress) -> None:
        """Train for an epoch or a step."""

    def finished(self) -> bool:
        """Return whether nothing is left to do."""
        return self.done >= self.total

    def checkpoint_is_due(self) -> bool:
        """Return whether to write a checkpoint now."""
        return True

    def run(self, path: Path | None, fingerprint: Mapping[str, object], progress: Progress | None = None) -> None:
        """Train to the end.

        Args:
            path: file for checkpoints; one that exists is resumed from.
            fingerprint: data and settings that must be the same to resume, as plain data.
            progress: called with steps done, total steps and a line of text.
        """
        self.path = path
        if path and path.exists():
            self.restore(path, fingerprint)
        try:
            while not self.finished():
                self.advance(progress or (lambda done, total, text: None))
                self.done += 1
                if path and self.checkpoint_is_due():
                    self.save(path, fingerprint)
        except KeyboardInterrupt as error:
            resume = "; rerun the same command to resume" if self.saved else ""
            raise KeyboardInterrupt(f"stopped in {self._place()}; {self.checkpoint_state()}{resume}") from error

    def _place(self) -> str:
        return f"{self.unit} {self.done + 1}"

    def checkpoint_state(self) -> str:
        """Return a clause that says what the checkpoint holds, or why there is none."""
        if not self.path:
            return "there is no checkpoint, because no place for one was given"
        if not self.saved:
            return f"there is no checkpoint, because no {self.unit} was finished"
        return f"the checkpoint {self.path} holds {self.unit} {self.saved}"

    def gradient(self, size: int, loss: Callable[[slice], torch.Tensor], *, row: str) -> torch.Tensor:
        """Add the gradient of a batch and return its mean loss.

        A batch that does not fit into memory is computed in parts, and so are all that follow.

        Args:
            size: number of rows of the batch.
            loss: returns the mean loss of some of its rows: one number, or one for each member of a stack.
            row: what a row is, for the error if a single one does not fit.
        """
        while True:
            random, parts = random_state(self.settings.device), min(self.parts, size)
            try:
                edges = [number * size // parts for number in range(parts + 1)]
                losses = [self._add_part(loss, slice(*ends), size) for ends in pairwise(edges)]
                return torch.stack(losses).sum(0)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if parts == size:
                    raise EvenhandError(
                        f"a single {row} does not fit into memory", hint="use a smaller model or another device"
                    ) from error
            # The failed attempt left gradients of some parts and drew from the random numbers of dropout.
            self.optimiser.zero_grad(set_to_none=True)
            set_random_state(random, self.settings.device)
            free_cache()
            self.parts = min(2 * parts, size)

    @staticmethod
    def _add_part(loss: Callable[[slice], torch.Tensor], rows: slice, size: int) -> torch.Tensor:
        part = loss(rows) * ((rows.stop - rows.start) / size)
        part.sum().backward()
        return part.detach()

    def update(self, *, learning_rate: float | None = None, clip: float | None = None) -> None:
        """Change the parameters by their gradients, clipped to a norm, and clear these."""
        if clip is not None:
            torch.nn.utils.clip_grad_norm_([p for p in self.network.parameters() if p.requires_grad], clip)
        if learning_rate is not None:
            for group in self.optimiser.param_groups:
                group["lr"] = learning_rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def autocast(self) -> AbstractContextManager[object]:
        """Compute products in bfloat16 if set; parameters and optimiser stay in single precision."""
        kind, half = torch.device(self.settings.device).type, self.settings.precision == "bfloat16"
        context: AbstractContextManager[object] = torch.autocast(kind, dtype=torch.bfloat16, enabled=half)
        return context

    def require_finite(self, loss: float, *, of: str = "") -> None:
        """Raise `DegenerateError` for a loss that is NaN or infinite."""
        if not math.isfinite(loss):
            raise DegenerateError(
                f"the loss{of} is {loss} in {self._place()}: training diverged",
                hint=f"lower the learning rate (now {self.settings.learning_rate:g}); {self.checkpoint_state()}",
            )

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors that the next step depends on, by name; a subclass adds its own."""
        network = {f"network.{name}": parameter for name, parameter in self.network.named_parameters()}
        return network | optimiser_tensors(self.optimiser) | random_state(self.settings.device)

    def restore_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take the values that `tensors` returned."""
        with torch.no_grad():
            for name, parameter in self.network.named_parameters():
                parameter.copy_(tensors[f"network.{name}"])
        restore_optimiser(self.optimiser, tensors)
        set_random_state(tensors, self.settings.device)

    def state(self) -> dict[str, Any]:
        """Return what else the next step depends on, as plain data for JSON; a subclass adds its own."""
        return {"done": self.done, "history": self.history}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Take what `state` returned."""
        self.done, self.history = int(state["done"]), [dict(entry) for entry in state["history"]]

    def save(self, path: Path, fingerprint: Mapping[str, object]) -> None:
        """Write everything the next step depends on; the previous file is replaced when the new one is complete."""
        write_checkpoint(path, self.tensors(), fingerprint, self.state())
        self.saved = self.done

    def restore(self, path: Path, fingerprint: Mapping[str, object]) -> None:
        """Take the state of a checkpoint.

        Raises:
            UsageError: If the checkpoint belongs to other settings or data.
            FormatError: If the file is damaged or not a checkpoint.
        """
        stored = read_checkpoint(path, fingerprint)
        try:
            self.restore_state(stored.state)
            self.restore_tensors(stored.tensors)
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError, AttributeError) as error:
            raise damaged_checkpoint(path, error) from error
        if self.done > self.total:
            raise UsageError(
                f"the checkpoint {path} has {self.done} {self.unit}s, but {self.unit}s is {self.total}",
                hint=f"set {self.unit}s to at least as many, or train in another folder",
            )
        self.saved = self.done


@dataclass
class EarlyStopping:
    """Best accuracy and epoch of each member of a stack, and which members have run out of patience."""

    members: int
    best: Vector64 = field(init=False)
    best_epoch: NDArray[np.int64] = field(init=False)
    done: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.best = np.full(self.members, -1.0)
        self.best_epoch = np.zeros(self.members, np.int64)
        self.done = np.zeros(self.members, bool)

    def record(self, epoch: int, accuracies: Vector64, patience: int) -> NDArray[np.bool_]:
        """Record an epoch; return a mask of the members that improved. Members out of patience no longer change."""
        improved: NDArray[np.bool_] = ~self.done & (accuracies > self.best)
        self.best[improved] = accuracies[improved]
        self.best_epoch[improved] = epoch
        self.done |= epoch - self.best_epoch >= patience
        return improved

    def to_dict(self) -> dict[str, list[Any]]:
        """Return plain data for JSON; floats keep every bit."""
        return {"best": self.best.tolist(), "best_epoch": self.best_epoch.tolist(), "done": self.done.tolist()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> EarlyStopping:
        """Return the state that `to_dict` wrote."""
        stopping = cls(len(record["best"]))
        stopping.best = np.array(record["best"], float)
        stopping.best_epoch = np.array(record["best_epoch"], np.int64)
        stopping.done = np.array(record["done"], bool)
        return stopping


class Checkpoint(NamedTuple):
    """The contents of a checkpoint: how far the training is, as plain data, and its tensors."""

    state: dict[str, Any]
    tensors: dict[str, torch.Tensor]


def write_checkpoint(
    path: Path, tensors: Mapping[str, torch.Tensor], fingerprint: Mapping[str, object], state: Mapping[str, object]
) -> None:
    """Write tensors and state of a training, and what identifies it, as one safetensors file."""
    from safetensors.torch import save as to_bytes

    metadata = {"format": FORMAT, "fingerprint": fingerprint, "state": state}
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with writing(path) as out:
        out.write(to_bytes(stored, metadata={METADATA: json.dumps(metadata)}))


def read_checkpoint(path: Path, fingerprint: Mapping[str, object]) -> Checkpoint:
    """Return what `write_checkpoint` wrote.

    Raises:
        UsageError: If the checkpoint belongs to another training.
        FormatError: If the file is damaged or not a checkpoint.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(existing(path, what="checkpoint"), framework="pt") as file:
            metadata = parse_metadata(path, dict(file.metadata() or {})[METADATA])
            stored, state = metadata["fingerprint"], metadata["state"]
            if metadata["format"] != FORMAT:
                raise ValueError(f"format {shown(metadata['format'])}, expected {FORMAT}")
            if not isinstance(stored, dict) or not isinstance(state, dict):
                raise TypeError("fingerprint or state is not an object")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise damaged_checkpoint(path, error) from error
    _require_same_training(stored, json.loads(json.dumps(fingerprint)), path)
    return Checkpoint(state, tensors)


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


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Return the tensors of an optimiser's state by name, for a checkpoint."""
    states = optimiser.state_dict()["state"]
    return {f"optimiser.{index}.{key}": value for index, entries in states.items() for key, value in entries.items()}


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]) -> None:
    """Load the state that `optimiser_tensors` returned."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "optimiser":
            index, _, key = rest.partition(".")
            state.setdefault(int(index), {})[key] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


@contextmanager
def seeded(device: str | torch.device, seed: int) -> Iterator[None]:
    """Draw random numbers from a seed within the block; those of the caller stay as they are."""
    target = torch.device(device)
    with torch.random.fork_rng(devices=[target] if target.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def random_state(device: str | torch.device) -> dict[str, torch.Tensor]:
    """Return the states of the random numbers of the CPU and of a GPU that is the device."""
    state = {"random.cpu": torch.get_rng_state()}
    if torch.device(device).type == "cuda":
        state["random.cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: Mapping[str, torch.Tensor], device: str | torch.device) -> None:
    """Restore what `random_state` returned."""
    torch.set_rng_state(state["random.cpu"])
    if "random.cuda" in state:
        torch.cuda.set_rng_state(state["random.cuda"], device)


def device_name(device: str | torch.device) -> str:
    """Return the name of a GPU, or of the device, for the record of a training."""
    return str(torch.cuda.get_device_name(device)) if torch.device(device).type == "cuda" else str(device)
