"""`train`: from a text to a language model, resumable at any time."""

from __future__ import annotations

import platform
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module  # the version only: the front door names layers above this one
from pathlib import Path
from typing import Any, TypeAlias

import torch

from evenhand.errors import DegenerateError
from evenhand.models.device import PRECISIONS, resolve_precision, torch_device, torch_dtype
from evenhand.models.lm.checkpoint import take_up
from evenhand.models.lm.corpus import LMCorpus
from evenhand.models.lm.model_folder import Epoch, TrainedLM
from evenhand.models.lm.schedule import Progress, Watch
from evenhand.models.lm.settings import Settings, check_seed
from evenhand.models.lm.training_state import Run, Term

Stop: TypeAlias = "Callable[[Sequence[Epoch]], bool]"


def train(
    corpus: LMCorpus,
    *,
    settings: Settings | None = None,
    regulariser: Term | None = None,
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

    The gradient of the whole loss is clipped. The model that comes back has the weights, or averages of weights, that
    predict the validation text best. With a checkpoint, a training that stopped goes on where it was, and on a
    processor comes to the same numbers as one that never stopped, bit for bit.

    Args:
        corpus: training, validation and test text.
        settings: sizes and rates; those of the Penn Treebank unless given.
        regulariser: a term of the model to add to the loss, such as `BiasRegulariser(...).on("input")`.
        seed: of weights, dropout and the cutting of the text.
        device: `cpu`, `cuda` or `auto`.
        precision: of the arithmetic, `fp32` or `bf16` (weights stay fp32); `auto` is bf16 on a GPU.
        epochs: in all, resumed ones included; those of the settings unless given.
        time_limit: seconds for this call; it stops before an epoch that would not fit, or else in the middle of one.
        checkpoint: file to go on from if it exists, and to write to.
        save_every: least seconds between two checkpoints at the ends of epochs. Within long epochs one is written
            every ten minutes at the latest, and one whenever training ends, by Ctrl-C too (after the step under way).
        stop: asked after each epoch with the history so far; True ends the training (early stopping).
        progress: called with (step, steps, what).

    Raises:
        DegenerateError: when the loss or a weight is not a number any more; the checkpoint is that of before.
    """
    check_seed(seed)
    chosen = settings or Settings()
    place = torch_device(device)
    # Training in float16 would need loss scaling; bfloat16 on a CPU is slower than float32.
    supported = ("float32",) if place.type == "cpu" else ("float32", "bfloat16")
    dtype = torch_dtype(resolve_precision(precision, place, supported=supported))
    path = Path(checkpoint) if checkpoint is not None else None
    run = Run(corpus, chosen, seed=seed, device=place, dtype=dtype, term=regulariser)
    identity = _identity(corpus, run, regulariser)
    if path and path.exists():
        take_up(run, path, identity)
    total = epochs if epochs is not None else chosen.epochs
    with asked_to_stop() as interrupted:
        watch = Watch(run, time_limit, path, save_every, identity, progress, interrupted)
        stopped = _until(run, total, watch, stop)
    manifest = {**identity, "corpus": corpus.describe(), "stopped_by": stopped, **_made(run)}
    return TrainedLM(run.finished(), corpus.vocabulary, tuple(run.history), manifest)


def _until(run: Run, total: int, watch: Watch, stop: Stop | None) -> str:
    """Train up to an epoch; says what ended it."""
    stopped = "epochs"
    try:
        while run.epoch <= total:
            left = watch.usual - run.seconds
            if (run.history and not watch.has_time_for(left)) or not _read_text(run, watch):
                stopped = "time"
                break
            run.close_epoch(run.seconds)
            run.begin(run.epoch + 1)
            watch.note_epoch()
            if stop and stop(run.history):
                stopped = "stop"
                break
        watch.save()
        if watch.interrupted():
            raise KeyboardInterrupt
    except DegenerateError as error:
        raise DegenerateError(error.message, hint=_remedy(watch.path)) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted in epoch {run.epoch}; {_kept(watch.path)}") from None
    return stopped


def _read_text(run: Run, watch: Watch) -> bool:
    """The steps that an epoch still has; False when time ran out, or somebody asked to stop, before its end."""
    spent = run.seconds - watch.elapsed()
    in_time = True
    while in_time and run.step < len(run.lengths):
        run.advance()
        watch.look()
        in_time = watch.has_time_for(0) and not watch.interrupted()
    run.refuse_broken()
    run.seconds = spent + watch.elapsed()
    return in_time


def _remedy(path: Path | None) -> str:
    if path is None or not path.exists():
        return f"{_kept(path)}; a lower learning rate or strength may help"
    return f"{path} holds the last good state; run again to go on from it, or change learning rate or strength"


def _kept(path: Path | None) -> str:
    if path is None:
        return "nothing was kept: give a checkpoint to be able to go on"
    return f"run again to go on from {path}" if path.exists() else f"it was too early for a checkpoint at {path}"


def _identity(corpus: LMCorpus, run: Run, regulariser: Term | None) -> dict[str, Any]:
    """What must be the same for a checkpoint to be gone on from."""
    settings = {name: value for name, value in run.settings.to_dict().items() if name != "epochs"}
    return {
        "kind": "awd-lstm",
        "settings": settings,
        "seed": run.seed,
        "corpus_sha256": corpus.digest(),
        "device": run.text.device.type,
        "precision": next(name for name in PRECISIONS if torch_dtype(name) == run.dtype),
        "regulariser": "" if regulariser is None else getattr(regulariser, "description", type(regulariser).__name__),
    }


def _made(run: Run) -> dict[str, Any]:
    name = torch.cuda.get_device_name(run.text.device) if run.text.is_cuda else platform.processor() or "cpu"
    averaged = next((epoch.number for epoch in run.history if epoch.averaging), None)
    return {
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "epochs": len(run.history),
        "best_epoch": run.best_epoch or None,
        "averaging_since": averaged,
        "history": [epoch.to_dict() for epoch in run.history],
        "device_name": name,
        "evenhand": import_module("evenhand").__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed in the block; a second time it interrupts at once.

    Only where Python's own handler is at work: a program that does something of its own on the signal goes on doing it,
    and other threads than the first cannot have one.
    """
    asked: list[int] = []

    def heard(number: int, _: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    first = threading.current_thread() is threading.main_thread()
    if not first or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, heard)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)
