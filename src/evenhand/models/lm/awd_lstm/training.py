"""Train word-level language models; the state of a training is kept on disk, and resumed exactly."""

from __future__ import annotations

import math
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import torch
from torch.nn import functional

from evenhand.errors import DegenerateError
from evenhand.models.device import PRECISIONS, resolve_precision, torch_device, torch_dtype
from evenhand.models.lm.awd_lstm.corpus import LMCorpus, columns, starts, stretches
from evenhand.models.lm.awd_lstm.inference import mean_loss
from evenhand.models.lm.awd_lstm.model_folder import Epoch, LMSettings, Manifest, TrainedLM
from evenhand.models.lm.awd_lstm.network import AWDLSTM, LMOutput, States, detach
from evenhand.models.lm.likelihood import check_seed
from evenhand.models.training import damaged_checkpoint, read_checkpoint, write_checkpoint
from evenhand.progress import Progress
from evenhand.version import __version__

LossTerm: TypeAlias = "Callable[[AWDLSTM], torch.Tensor]"
Stop: TypeAlias = "Callable[[Sequence[Epoch]], bool]"
CHECK_SECONDS = 1.0  # between two checks of the losses, each of which waits for the device
SAVE_SECONDS = 600.0  # after which a checkpoint is written within an epoch


def train(
    corpus: LMCorpus,
    *,
    settings: LMSettings | None = None,
    regulariser: LossTerm | None = None,
    seed: int = 1111,
    device: str = "auto",
    precision: str = "auto",
    epochs: int | None = None,
    time_limit: float | None = None,
    checkpoint: str | Path | None = None,
    save_every: float = 0.0,
    stop: Stop | None = None,
    progress: Progress | None = None,
) -> TrainedLM:
    """Train an AWD-LSTM by NT-ASGD (Merity et al. 2018); loss = cross-entropy + AR + TAR + regulariser(model).

    The gradient of the whole loss is clipped. The returned model has the weights, or averages of weights, with the
    lowest validation loss. With a checkpoint, a stopped training resumes where it was; on a CPU, the result is
    bit-identical to that of a training that was never stopped.

    Args:
        corpus: training, validation and test text.
        settings: sizes and rates; those of the Penn Treebank by default.
        regulariser: a term of the model to add to the loss, such as `BiasRegulariser(...).on("input")`.
        seed: seed of weights, dropout and the lengths of stretches.
        device: auto, cpu, cuda or cuda:N.
        precision: precision of the arithmetic, `float32` or, on a GPU, `bfloat16` (weights stay in float32); `auto` is
            bfloat16 on a GPU.
        epochs: total number of epochs, including those before a resume; that of the settings by default.
        time_limit: seconds for this call. It stops before an epoch that would not fit, or within the first one.
        checkpoint: file to resume from if it exists, and to write to.
        save_every: minimum seconds between two checkpoints at the ends of epochs. Within long epochs, a checkpoint is
            written every ten minutes; one is always written when training ends, including by Ctrl-C.
        stop: called after each epoch with the history so far; True ends the training (early stopping).
        progress: called with (step, steps, description).

    Raises:
        DegenerateError: If the loss or a weight is no longer finite; the checkpoint is then that of an earlier step.
    """
    check_seed(seed)
    settings = settings or LMSettings()
    target = torch_device(device)
    # Training in float16 would need loss scaling; bfloat16 on a CPU is slower than float32.
    supported = ("float32",) if target.type == "cpu" else ("float32", "bfloat16")
    dtype = torch_dtype(resolve_precision(precision, target, supported=supported))
    path = Path(checkpoint) if checkpoint is not None else None
    state = TrainingState(corpus, settings, seed=seed, device=target, dtype=dtype, term=regulariser)
    identity = _identity(corpus, state, regulariser)
    if path and path.exists():
        state.restore(path, identity)
    total = epochs if epochs is not None else settings.epochs
    with interrupt_flag() as interrupted:
        schedule = Schedule(state, time_limit, path, save_every, identity, progress, interrupted)
        reason = _run_epochs(state, total, schedule, stop)
    manifest = {**identity, "corpus": corpus.describe(), "stopped_by": reason, **_results(state)}
    return TrainedLM(state.best_model(), corpus.vocabulary, tuple(state.history), manifest)


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
            self.model.parameters(), weight_decay=settings.weight_decay, clip=settings.clip, patience=settings.patience
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

    def save(self, path: Path, identity: Mapping[str, object]) -> None:
        """Write a checkpoint, replaced as a whole, between two steps or epochs."""
        optimiser = self.optimiser
        place = {
            "place": {"epoch": self.epoch, "step": self.step, "seconds": self.seconds},
            "optimiser": {"losses": optimiser.losses, "averaged": optimiser.averaged, "averaging": optimiser.averaging},
            "best": {"loss": self.best_loss if self.best else None, "epoch": self.best_epoch},
            "history": [epoch.to_dict() for epoch in self.history],
        }
        write_checkpoint(path, self.tensors(), identity, place)

    def restore(self, path: Path, identity: Mapping[str, object]) -> None:
        """Bring a new training to the state of a checkpoint.

        Raises:
            UsageError: If the checkpoint belongs to another training.
            FormatError: If the file is damaged or is not a checkpoint.
        """
        stored, tensors = read_checkpoint(path, identity)
        try:
            place, optimiser, best = stored["place"], stored["optimiser"], stored["best"]
            self.start_epoch(place["epoch"])
            self.step, self.seconds = place["step"], place["seconds"]
            self.history = [Epoch(**epoch) for epoch in stored["history"]]
            self.optimiser.losses = list(optimiser["losses"])
            self.optimiser.averaged, self.optimiser.averaging = optimiser["averaged"], optimiser["averaging"]
            if best["loss"] is not None:
                self.best_loss, self.best_epoch = best["loss"], best["epoch"]
            self.restore_tensors(tensors)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise damaged_checkpoint(path, error) from error


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


class Schedule:
    """The time limit, checkpoints and progress of one call of `train`."""

    def __init__(
        self,
        state: TrainingState,
        limit: float | None,
        path: Path | None,
        save_every: float,
        identity: Mapping[str, object],
        progress: Progress | None,
        interrupted: Callable[[], bool],
    ) -> None:
        self.state, self.path, self.identity, self.progress = state, path, identity, progress
        self.interrupted = interrupted
        self.limit = float("inf") if limit is None else limit
        self.save_every = save_every
        # The duration of the last epoch, to decide whether another fits.
        self.epoch_seconds, self.epoch_start = state.history[-1].seconds if state.history else 0.0, 0.0
        self.start = self.checked = self.saved = time.perf_counter()

    def elapsed(self) -> float:
        """Return the seconds since the call began."""
        return time.perf_counter() - self.start

    def has_time_for(self, seconds: float) -> bool:
        """Return whether so many more seconds fit the limit."""
        return self.elapsed() + seconds <= self.limit

    def after_step(self) -> None:
        """Once a second, check that all numbers are finite, save if a checkpoint is due, and report progress."""
        now = time.perf_counter()
        if now - self.checked < CHECK_SECONDS:
            return
        self.state.check_finite()
        if now - self.saved > SAVE_SECONDS:
            self.save()
        self.report()
        self.checked = time.perf_counter()

    def after_epoch(self) -> None:
        """Record the duration of the epoch, including validation, and save if the last checkpoint is old."""
        if time.perf_counter() - self.saved >= self.save_every:
            self.save()
        self.report()
        self.epoch_seconds, self.epoch_start = self.elapsed() - self.epoch_start, self.elapsed()

    def report(self) -> None:
        """Report progress."""
        if self.progress:
            history = self.state.history
            result = f", valid perplexity {history[-1].valid_perplexity:.1f}" if history else ""
            self.progress(self.state.step, len(self.state.lengths), f"epoch {self.state.epoch}{result}")

    def save(self) -> None:
        """Write a checkpoint if a path was given."""
        if self.path:
            self.state.save(self.path, self.identity)
        self.saved = time.perf_counter()


def _run_epochs(state: TrainingState, total: int, schedule: Schedule, stop: Stop | None) -> str:
    """Train up to an epoch; return what ended the training: epochs, time or stop."""
    reason = "epochs"
    try:
        while state.epoch <= total:
            remaining = schedule.epoch_seconds - state.seconds
            if (state.history and not schedule.has_time_for(remaining)) or not _run_steps(state, schedule):
                reason = "time"
                break
            state.finish_epoch(state.seconds)
            state.start_epoch(state.epoch + 1)
            schedule.after_epoch()
            if stop and stop(state.history):
                reason = "stop"
                break
        schedule.save()
        if schedule.interrupted():
            raise KeyboardInterrupt
    except DegenerateError as error:
        raise DegenerateError(error.message, hint=_failure_hint(schedule.path)) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted in epoch {state.epoch}; {_resume_hint(schedule.path)}") from None
    return reason


def _run_steps(state: TrainingState, schedule: Schedule) -> bool:
    """Take the remaining steps of an epoch; return False if time ran out or the user interrupted before its end."""
    before = state.seconds - schedule.elapsed()
    in_time = True
    while in_time and state.step < len(state.lengths):
        state.advance()
        schedule.after_step()
        in_time = schedule.has_time_for(0) and not schedule.interrupted()
    state.check_finite()
    state.seconds = before + schedule.elapsed()
    return in_time


def _failure_hint(path: Path | None) -> str:
    if path is None or not path.exists():
        return f"{_resume_hint(path)}; a lower learning rate or strength may help"
    return f"{path} holds the last good state; run again to resume, or change learning rate or strength"


def _resume_hint(path: Path | None) -> str:
    if path is None:
        return "nothing was saved: give a checkpoint to be able to resume"
    return f"run again to resume from {path}" if path.exists() else f"no checkpoint was written yet to {path}"


def _identity(corpus: LMCorpus, state: TrainingState, regulariser: LossTerm | None) -> Manifest:
    """Return what must be the same for a checkpoint to be resumed."""
    settings = {name: value for name, value in state.settings.to_dict().items() if name != "epochs"}
    return {
        "kind": "awd-lstm",
        "settings": settings,
        "seed": state.seed,
        "corpus_sha256": corpus.digest(),
        "device": state.text.device.type,
        "precision": next(name for name in PRECISIONS if torch_dtype(name) == state.dtype),
        "regulariser": "" if regulariser is None else getattr(regulariser, "description", type(regulariser).__name__),
    }


def _results(state: TrainingState) -> Manifest:
    name = torch.cuda.get_device_name(state.text.device) if state.text.is_cuda else platform.processor() or "cpu"
    averaged = next((epoch.number for epoch in state.history if epoch.averaging), None)
    return {
        "parameters": sum(parameter.numel() for parameter in state.model.parameters()),
        "epochs": len(state.history),
        "best_epoch": state.best_epoch or None,
        "averaging_since": averaged,
        "history": [epoch.to_dict() for epoch in state.history],
        "device_name": name,
        "evenhand": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


@contextmanager
def interrupt_flag() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C was pressed in the block; a second Ctrl-C interrupts at once.

    A handler that another program installed for the signal stays in place, and so does that of other threads than the
    main one; the function then always returns False.
    """
    signals: list[int] = []

    def handle(number: int, _: object) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: bool(signals)
    finally:
        signal.signal(signal.SIGINT, before)
