"""Train word-level language models; a training can be stopped and resumed exactly."""

from __future__ import annotations

import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import torch

from evenhand.errors import DegenerateError
from evenhand.models.device import PRECISIONS, resolve_precision, torch_device, torch_dtype
from evenhand.models.lm.awd_lstm.corpus import LMCorpus
from evenhand.models.lm.awd_lstm.model_folder import Epoch, Manifest, TrainedLM
from evenhand.models.lm.awd_lstm.settings import LMSettings, check_seed
from evenhand.models.lm.awd_lstm.training_state import LossTerm, TrainingState, resume, save_checkpoint
from evenhand.version import __version__

Stop: TypeAlias = "Callable[[Sequence[Epoch]], bool]"
Progress: TypeAlias = "Callable[[int, int, str], None] | None"
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
    progress: Progress = None,
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
        resume(state, path, identity)
    total = epochs if epochs is not None else settings.epochs
    with interrupt_flag() as interrupted:
        schedule = Schedule(state, time_limit, path, save_every, identity, progress, interrupted)
        reason = _run_epochs(state, total, schedule, stop)
    manifest = {**identity, "corpus": corpus.describe(), "stopped_by": reason, **_results(state)}
    return TrainedLM(state.best_model(), corpus.vocabulary, tuple(state.history), manifest)


class Schedule:
    """The time limit, checkpoints and progress of one call of `train`."""

    def __init__(
        self,
        state: TrainingState,
        limit: float | None,
        path: Path | None,
        save_every: float,
        identity: Mapping[str, object],
        progress: Progress,
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
            save_checkpoint(self.state, self.path, self.identity)
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
