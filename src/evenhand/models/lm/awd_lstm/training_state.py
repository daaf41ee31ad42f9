"""The state of a training: everything that changes from step to step, and its checkpoint on disk."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import torch
from torch.nn import functional

from evenhand.errors import DegenerateError, FormatError, UsageError, shown
from evenhand.files import existing, writing
from evenhand.models.device import canonical_precision
from evenhand.models.lm.awd_lstm.corpus import LMCorpus, columns, starts, stretches
from evenhand.models.lm.awd_lstm.model_folder import Epoch
from evenhand.models.lm.awd_lstm.network import AWDLSTM, LMOutput, States, detach
from evenhand.models.lm.awd_lstm.settings import LMSettings
from evenhand.models.lm.awd_lstm.word_likelihood import mean_loss
from evenhand.models.model_files import JSONObject

LossTerm: TypeAlias = "Callable[[AWDLSTM], torch.Tensor]"
CHECKPOINT_FORMAT = 2  # format 1 did not record clipping
METADATA = "evenhand-lm-training"


class TrainingState:
    """Model, optimiser, random numbers and position in the text.

    The losses of an epoch stay on the device until they are read, so a step never waits for a GPU.

    Args:
        corpus: training and validation text.
        settings: sizes and rates.
        seed: seed of weights, dropout and the lengths of stretches.
        device: device of the model.
        dtype: precision of the arithmetic.
        term: a term of the model that is added to the loss.
    """

    def __init__(
        self,
        corpus: LMCorpus,
        settings: LMSettings,
        *,
        seed: int,
        device: str | torch.device,
        dtype: torch.dtype,
        term: LossTerm | None,
    ) -> None:
        self.settings, self.seed, self.dtype, self.term = settings, seed, dtype, term
        self.model: AWDLSTM = AWDLSTM(len(corpus.vocabulary), settings, seed=seed).to(device)
        self.optimiser = NTASGD(
            self.model.parameters(),
            weight_decay=settings.weight_decay,
            clip=settings.clip,
            patience=settings.patience,
        )
        self.generator = torch.Generator(device).manual_seed(seed)
        self.text = columns(corpus.train, settings.batch, device)
        self.valid = columns(corpus.valid, settings.eval_batch, device)
        self.history: list[Epoch] = []
        self.best: list[torch.Tensor] = []
        self.best_loss, self.best_epoch = math.inf, 0
        self.seconds = 0.0  # spent on the current epoch
        self.start_epoch(1)

    def start_epoch(self, epoch: int) -> None:
        """Go to the beginning of the text."""
        self.epoch, self.step, self.seconds = epoch, 0, 0.0
        self.lengths = stretches(len(self.text), self.settings.bptt, seed=self.seed, epoch=epoch)
        self.starts = starts(self.lengths)
        self.state: States = self.model.start(self.text.shape[1], dtype=self.dtype)
        # Of each step: cross-entropy, added term, and the share of the gradient that clipping left.
        self.records = torch.zeros((3, len(self.lengths)), device=self.text.device)
        self.model.train()

    def advance(self) -> None:
        """Take one step: a stretch of text, its loss, its gradient and an update of the weights."""
        start, length = self.starts[self.step], self.lengths[self.step]
        if expect := getattr(self.term, "expect", None):
            expect(self.model)
        out: LMOutput = self.model(
            self.text[start : start + length], self.state, dtype=self.dtype, generator=self.generator
        )
        entropy = functional.cross_entropy(
            out.logits.flatten(0, 1).float(), self.text[start + 1 : start + length + 1].flatten()
        )
        loss = entropy + self._activation_penalty(out)
        self.records[0, self.step] = entropy.detach()
        if self.term is not None:
            added = self.term(self.model)
            loss = loss + added
            self.records[1, self.step] = added.detach()
        loss.backward()
        self.records[2, self.step] = self.optimiser.step(self.settings.learning_rate * length / self.settings.bptt)
        self.state = detach(out.state)
        self.step += 1

    def _activation_penalty(self, out: LMOutput) -> torch.Tensor:
        """Return AR and TAR: the size of the last layer's output, and of its change in time (Merity et al. 2017)."""
        size = self.settings.alpha * out.dropped.float().square().mean()
        if len(out.raw) < 2:
            return size
        change = out.raw[1:].float() - out.raw[:-1].float()
        return size + self.settings.beta * change.square().mean()

    def check_finite(self) -> None:
        """Wait for the device; raise an error that names the step if a loss or a weight is not finite."""
        finite = torch.isfinite(self.records[:2, : self.step]).all(dim=0)
        if not bool(finite.all()):
            step = int((~finite).nonzero()[0, 0]) + 1
            raise DegenerateError(f"the loss became NaN or infinite in epoch {self.epoch}, step {step}")
        norms = torch._foreach_norm([parameter.detach() for parameter in self.model.parameters()])
        if not bool(torch.isfinite(torch.stack(norms)).all()):
            raise DegenerateError(f"a weight became NaN or infinite in epoch {self.epoch}, by step {self.step}")

    def finish_epoch(self, seconds: float) -> Epoch:
        """Validate, store the weights if they are the best so far, and report the loss to the optimiser."""
        self.check_finite()
        averaging = bool(self.optimiser.averaged)
        with self.optimiser.averaged_weights():
            loss = mean_loss(self.model, self.valid)
            if not math.isfinite(loss):
                raise DegenerateError(f"the validation loss became {loss} after epoch {self.epoch}")
            if loss < self.best_loss:
                self.best_loss, self.best_epoch = loss, self.epoch
                self.best = [parameter.detach().clone() for parameter in self.model.parameters()]
        self.optimiser.observe(loss)
        weights = torch.tensor(self.lengths, dtype=torch.float64)
        entropy, added, unclipped = (self.records.double().cpu() @ weights / weights.sum()).tolist()
        tokens = (len(self.text) - 1) * self.text.shape[1]
        epoch = Epoch(self.epoch, entropy, math.exp(loss), added, unclipped, averaging, seconds, tokens / seconds)
        self.history.append(epoch)
        return epoch

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def best_model(self) -> AWDLSTM:
        """Return the model with the best validated weights, or the current ones if none were validated."""
        if self.best:
            torch._foreach_copy_(list(self.model.parameters()), self.best)
        self.model.eval()
        return self.model

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors of a checkpoint by name."""
        names = [name for name, _ in self.model.named_parameters()]
        tensors = {f"model.{name}": parameter for name, parameter in self.model.named_parameters()}
        tensors |= {f"average.{name}": tensor for name, tensor in zip(names, self.optimiser.averages, strict=False)}
        tensors |= {f"best.{name}": tensor for name, tensor in zip(names, self.best, strict=False)}
        for layer, (hidden, cell) in enumerate(self.state):
            tensors |= {f"state.{layer}.hidden": hidden, f"state.{layer}.cell": cell}
        return tensors | {"records": self.records, "generator": self.generator.get_state()}

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def restore_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Copy the tensors of a checkpoint into the state."""
        names = [name for name, _ in self.model.named_parameters()]
        device = self.text.device
        for name, parameter in self.model.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
        if self.optimiser.averaging:
            self.optimiser.averages = [tensors[f"average.{name}"].to(device) for name in names]
        if self.best_epoch:
            self.best = [tensors[f"best.{name}"].to(device) for name in names]
        self.state = tuple(
            (tensors[f"state.{layer}.hidden"].to(device), tensors[f"state.{layer}.cell"].to(device))
            for layer in range(len(self.state))
        )
        self.records.copy_(tensors["records"])
        self.generator.set_state(tensors["generator"])


def save_checkpoint(state: TrainingState, path: Path, identity: Mapping[str, object]) -> None:
    """Write a training to one safetensors file, replaced as a whole, between two steps or epochs."""
    from safetensors.torch import save

    optimiser = state.optimiser
    metadata = {
        "format": CHECKPOINT_FORMAT,
        "identity": dict(identity),
        "place": {"epoch": state.epoch, "step": state.step, "seconds": state.seconds},
        "optimiser": {
            "losses": optimiser.losses,
            "averaged": optimiser.averaged,
            "averaging": optimiser.averaging,
        },
        "best": {"loss": state.best_loss if state.best else None, "epoch": state.best_epoch},
        "history": [epoch.to_dict() for epoch in state.history],
    }
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors().items()}
    with writing(path) as out:
        out.write(save(tensors, metadata={METADATA: json.dumps(metadata)}))


def resume(state: TrainingState, path: Path, identity: Mapping[str, object]) -> None:
    """Bring a new training to the state of a checkpoint.

    Raises:
        UsageError: If the checkpoint belongs to another training.
        FormatError: If the file is damaged or is not a checkpoint.
    """
    metadata, tensors = _read_checkpoint(path)
    try:
        stored = metadata["identity"]
        # Early checkpoints have the short name of the precision.
        stored = {**stored, "precision": canonical_precision(str(stored.get("precision")))}
        if differing := sorted(name for name in identity if stored.get(name) != identity[name]):
            then, now = (shown(values.get(differing[0])) for values in (stored, identity))
            raise UsageError(
                f"{path}: checkpoint of another training: {differing[0]} was {then}, is {now}",
                hint="use the same arguments as before, or another checkpoint",
            )
        position, optimiser, best = metadata["place"], metadata["optimiser"], metadata["best"]
        state.start_epoch(position["epoch"])
        state.step, state.seconds = position["step"], position["seconds"]
        state.history = [Epoch(**epoch) for epoch in metadata["history"]]
        state.optimiser.losses = list(optimiser["losses"])
        state.optimiser.averaged, state.optimiser.averaging = optimiser["averaged"], optimiser["averaging"]
        if best["loss"] is not None:
            state.best_loss, state.best_epoch = best["loss"], best["epoch"]
        state.restore_tensors(tensors)
    except UsageError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise FormatError(f"{path}: its tensors do not fit its settings ({error})", hint="start without it") from error


def _read_checkpoint(path: Path) -> tuple[JSONObject, dict[str, torch.Tensor]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(existing(path, what="checkpoint"), framework="pt") as file:
            metadata = json.loads((file.metadata() or {})[METADATA])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        if metadata["format"] != CHECKPOINT_FORMAT:
            raise FormatError(f"{path}: a checkpoint of format {metadata['format']}, expected {CHECKPOINT_FORMAT}")
        return metadata, tensors
    except SafetensorError as error:
        raise FormatError(f"{path}: not a complete safetensors file ({error})", hint="start without it") from error
    except FormatError:
        raise
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not a checkpoint of an evenhand training", hint="name another file") from error


class NTASGD:
    """Non-monotonically triggered averaged SGD (Merity et al. 2018).

    The update is p <- p - lr (g + decay p), with the norm of g clipped. Averaging starts at the first validation loss
    above the minimum of all but the last `patience` losses: the rule of the released code, while the algorithm in the
    paper compares with the last ones. From then on, `averages` is the arithmetic mean of the iterates, including the
    first after the trigger, which torch's own ASGD leaves out.

    Args:
        parameters: the parameters to update.
        weight_decay: L2 penalty.
        clip: largest norm of a gradient.
        patience: number of recent losses that the trigger does not compare with.
    """

    def __init__(
        self, parameters: Iterable[torch.nn.Parameter], *, weight_decay: float, clip: float, patience: int
    ) -> None:
        self.parameters = list(parameters)
        self.weight_decay, self.clip, self.patience = weight_decay, clip, patience
        self.losses: list[float] = []
        self.averages: list[torch.Tensor] = []
        self.averaged = 0  # number of iterates in the averages
        self.averaging = False

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def step(self, learning_rate: float) -> torch.Tensor:
        """Clip the gradients, update parameters and averages, and clear the gradients, without waiting for a GPU.

        Returns:
            The share of the gradient that clipping left: 1 if it was short enough.
        """
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.clip, foreach=True)
        gradients = [parameter.grad for parameter in self.parameters]
        torch._foreach_mul_(self.parameters, 1 - learning_rate * self.weight_decay)
        torch._foreach_add_(self.parameters, gradients, alpha=-learning_rate)
        if self.averaging:
            self.averaged += 1
            torch._foreach_lerp_(self.averages, [p.detach() for p in self.parameters], 1 / self.averaged)
        for parameter in self.parameters:
            parameter.grad = None
        return (self.clip / norm).clamp(max=1.0)

    def observe(self, loss: float) -> None:
        """Record a validation loss and start averaging if it triggers."""
        earlier = self.losses[: -self.patience]
        if not self.averaging and earlier and loss > min(earlier):
            self.averaging = True
            self.averages = [parameter.detach().clone() for parameter in self.parameters]
        self.losses.append(loss)

    @contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Use the averages as parameters within the block, once there are any, and restore the parameters after it."""
        if not self.averaged:
            yield
            return
        with torch.no_grad():
            current = [parameter.detach().clone() for parameter in self.parameters]
            torch._foreach_copy_(self.parameters, self.averages)
            try:
                yield
            finally:
                torch._foreach_copy_(self.parameters, current)
