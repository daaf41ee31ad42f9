"""`train`: train NLI models on labelled pairs over word vectors."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch

from evenhand.arrays import Matrix, Rows
from evenhand.errors import EvenhandWarning, UsageError
from evenhand.models.nli.labelled_pairs import LabelledPairs, require_several_labels
from evenhand.models.nli.over_vectors import Lookup, ModelOverVectors, table
from evenhand.models.nli.protocol import LABELS
from evenhand.models.nli.training.batches import EncodedPairs, TrainingBatches, compact, digest, spare_vectors
from evenhand.models.nli.training.loop import Progress, Stack, run
from evenhand.models.nli.training.networks.stacked import ARCHITECTURES
from evenhand.models.nli.training.settings import NLITrainingSettings
from evenhand.models.vectors import Vectors

MAX_UNKNOWN = 0.2  # share of the training tokens without a vector; a larger one raises a warning
DEV_BATCHES = 4  # batches without gradients take a fraction of the memory


@dataclass(frozen=True, eq=False)
class StackMember:
    """One model to train: the vectors it reads and its seed."""

    vectors: Vectors
    seed: int
    spare: Matrix
    table: Matrix
    sha256: str


def train(
    pairs: LabelledPairs,
    dev: LabelledPairs,
    vectors: Vectors | Sequence[Vectors],
    *,
    seeds: Sequence[int] = (0,),
    stack: int | None = None,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> tuple[TrainedNLI, ...]:
    """Train one model for every table of vectors and every seed, and return each at its best epoch on `dev`.

    Members of a stack are trained in one pass and share nothing but the order of lengths. Several tables must have the
    same words. On a CPU, training is reproducible bit for bit.

    What it does not tell you: accuracy varies by half a point between seeds, bias scores by several. Train at least
    five.

    Args:
        pairs: Training pairs.
        dev: Development pairs for early stopping. Use other pairs for the final accuracy.
        vectors: Frozen word vectors, or several tables with the same words.
        seeds: One model each; a seed decides the initial weights and the order of pairs.
        stack: Members trained at once; by default one on a CPU, all on a GPU.
        checkpoint: A folder, written after every epoch. The same call resumes from it.
        progress: Called with steps done, total steps and a line of text.
        **settings: See `NLITrainingSettings`: architecture, hidden, epochs, patience, batch, learning_rate,
            weight_decay, dropout, optimiser, lower, normalise, intra_attention, spare, device, precision.
    """
    tables = [vectors] if isinstance(vectors, Vectors) else list(vectors)
    if not seeds or len(set(seeds)) < len(seeds):
        raise UsageError(f"seeds must be distinct non-negative integers, got {list(seeds)}")
    members = [(table, seed) for table in tables for seed in seeds]
    return train_members(pairs, dev, members, stack=stack, checkpoint=checkpoint, progress=progress, **settings)


def train_members(
    pairs: LabelledPairs,
    dev: LabelledPairs,
    members: Sequence[tuple[Vectors, int]],
    *,
    stack: int | None = None,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> tuple[TrainedNLI, ...]:
    """Train one model for each combination of vectors and seed; see `train`."""
    options = _settings(settings).resolve()
    _check_inputs(pairs, dev, members)
    lookup = Lookup(members[0][0], options.spare, options.lower)
    encoded = EncodedPairs.of(pairs, lookup)
    unknown = _unknown_share(encoded, members[0][0])
    rows, data = compact(encoded, EncodedPairs.of(dev, lookup))
    stacked = _members(members, rows, options)
    width = len(stacked) if stack is None and torch.device(options.device).type != "cpu" else stack or 1
    if width < 1 or stack == 0:
        raise UsageError(f"stack must be at least 1, got {stack}")
    sources = DataSources(train=pairs.to_dict(), dev=dev.to_dict(), unknown_tokens=unknown)
    models: list[TrainedNLI] = []
    for start in range(0, len(stacked), width):
        path = Path(checkpoint) / f"stack-{start // width}.safetensors" if checkpoint else None
        models += _train_stack(stacked[start : start + width], data, options, sources, path, progress)
    return tuple(models)


class DataSources(TypedDict):
    """The data of a training run, as the manifest records them."""

    train: dict[str, object]
    dev: dict[str, object]
    unknown_tokens: float


def _settings(options: dict[str, Any]) -> NLITrainingSettings:
    try:
        return NLITrainingSettings(**options)
    except TypeError as error:
        names = ", ".join(NLITrainingSettings.__dataclass_fields__)
        raise UsageError(f"train: {error}", hint=f"settings are {names}") from error


def _train_stack(
    members: Sequence[StackMember],
    data: Sequence[EncodedPairs],
    settings: NLITrainingSettings,
    sources: DataSources,
    path: Path | None,
    progress: Progress | None,
) -> list[TrainedNLI]:
    start, seeds = time.perf_counter(), [member.seed for member in members]
    architecture = ARCHITECTURES.get(settings.architecture)
    gpus = [torch.device(settings.device)] if torch.device(settings.device).type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        network = architecture(len(members), members[0].vectors.dim, settings.hidden, **architecture.options(settings))
        stack = Stack(network, settings, seeds)
        run(
            stack,
            *_batches(members, data, settings),
            path=path,
            fingerprint=_fingerprint(members, settings, sources),
            progress=progress or (lambda done, total, what: None),
        )
    stack.restore_best()
    seconds = time.perf_counter() - start
    return [
        _result(stack, index, member, manifest(settings, member, sources, seconds, len(members)))
        for index, member in enumerate(members)
    ]


def _result(stack: Stack, index: int, member: StackMember, record: dict[str, object]) -> TrainedNLI:
    settings, stopping = stack.settings, stack.stopping
    model = stack.network.model_class.from_arrays(
        {**stack.network.arrays(index), "oov": member.spare},
        member.vectors,
        lower=settings.lower,
        normalise=settings.normalise,
        name=f"{settings.architecture}-seed-{member.seed}",
    )
    best, epoch = float(stopping.best[index]), int(stopping.best_epoch[index])
    return TrainedNLI(model, member.seed, member.vectors, best, epoch, tuple(stopping.history[index]), record)


def _batches(
    members: Sequence[StackMember], data: Sequence[EncodedPairs], settings: NLITrainingSettings
) -> tuple[TrainingBatches, TrainingBatches]:
    """Put the pairs on the device, with one copy of each table that the members read."""
    distinct = {member.sha256: member.table for member in members}
    starts = {sha256: number * len(words) for number, (sha256, words) in enumerate(distinct.items())}
    # Products round to bfloat16 anyway; storing the words in it halves the memory traffic.
    dtype = torch.bfloat16 if settings.precision == "bfloat16" else torch.float32
    flat = torch.as_tensor(np.concatenate(list(distinct.values()))).to(device=settings.device, dtype=dtype)
    offsets = torch.tensor([starts[member.sha256] for member in members], device=settings.device).view(-1, 1, 1)
    train_pairs, dev_pairs = data
    return (
        TrainingBatches(train_pairs, flat, offsets, batch=settings.batch),
        TrainingBatches(dev_pairs, flat, offsets, batch=settings.batch * DEV_BATCHES),
    )


def _members(members: Sequence[tuple[Vectors, int]], rows: Rows, settings: NLITrainingSettings) -> list[StackMember]:
    tables: dict[int, tuple[Matrix, Matrix, str]] = {}
    for vectors, _ in members:
        if id(vectors) not in tables:
            spare = spare_vectors(vectors, rows, settings.spare)
            words = table(vectors, rows, spare, normalise=settings.normalise)
            tables[id(vectors)] = spare, words, digest(words)
    return [StackMember(vectors, seed, *tables[id(vectors)]) for vectors, seed in members]


def _fingerprint(
    members: Sequence[StackMember], settings: NLITrainingSettings, sources: DataSources
) -> dict[str, object]:
    """Return what must be the same to resume from a checkpoint; the number of epochs may grow."""
    fixed = replace(settings, epochs=1).to_dict()
    fixed |= {"train": sources["train"]["sha256"], "dev": sources["dev"]["sha256"]}
    return fixed | {"seeds": [m.seed for m in members], "vectors": [m.sha256 for m in members]}


def _unknown_share(pairs: EncodedPairs, vectors: Vectors) -> float:
    """Return the share of tokens without a vector; warn of a large one, which is usually a mistake."""
    words = np.concatenate([side.words for side in pairs.sides])
    share = float((words >= len(vectors)).mean())
    if share > MAX_UNKNOWN:
        warnings.warn(
            f"{vectors.name} has no vector for {share:.0%} of the training tokens", EvenhandWarning, stacklevel=3
        )
    return share


def _check_inputs(pairs: LabelledPairs, dev: LabelledPairs, members: Sequence[tuple[Vectors, int]]) -> None:
    for data in (pairs, dev):
        if data.two_way:
            raise UsageError(
                f"{data.source}: its labels do not distinguish neutral from contradiction",
                hint="use it for evaluation only",
            )
    require_several_labels(pairs)
    if missing := [label for index, label in enumerate(LABELS) if index not in pairs.labels]:
        warnings.warn(f"{pairs.source}: no pair labelled {missing[0]}", EvenhandWarning, stacklevel=4)
    if not members:
        raise UsageError("there are no vectors to train on", hint="give one table, or several with the same words")
    if any(seed < 0 for _, seed in members):
        raise UsageError(f"seeds must be non-negative integers, got {[seed for _, seed in members]}")
    first = members[0][0]
    for other in {id(vectors): vectors for vectors, _ in members}.values():
        if other.words != first.words or other.case != first.case or other.dim != first.dim:
            raise UsageError(
                f"{other.name} and {first.name} differ in words or dimension and cannot be trained in one stack",
                hint="call train once for each table",
            )


def manifest(
    settings: NLITrainingSettings, member: StackMember, sources: DataSources, seconds: float, stack: int
) -> dict[str, object]:
    """Return data, vectors, settings, versions and device of one member."""
    return {
        "evenhand": import_module("evenhand").__version__,  # by name: the package itself is a layer above
        "settings": settings.to_dict(),
        "data": dict(sources),
        "words": {
            "name": member.vectors.name,
            "dimensions": member.vectors.dim,
            "history": [dict(step) for step in member.vectors.history],
            "sha256_of_words_read": member.sha256,
        },
        "stack": {"members": stack, "seconds": round(seconds, 2)},
        "device": _device(settings.device),
        "packages": {"python": platform.python_version(), "torch": torch.__version__, "numpy": version("numpy")},
    }


def _device(name: str) -> str:
    return str(torch.cuda.get_device_name(name)) if torch.device(name).type == "cuda" else name


@dataclass(frozen=True, eq=False)
class TrainedNLI:
    """A model at its best epoch on the development pairs, with the history and manifest of its training.

    `history` has training loss and development accuracy of each epoch until patience ran out.
    """

    model: ModelOverVectors
    seed: int
    vectors: Vectors
    dev_accuracy: float
    epoch: int
    history: tuple[Mapping[str, float], ...]
    manifest: Mapping[str, object]

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON, without the weights."""
        return {
            "name": self.model.name,
            "seed": self.seed,
            "vectors": self.vectors.name,
            "dev_accuracy": self.dev_accuracy,
            "epoch": self.epoch,
            "history": [dict(entry) for entry in self.history],
            **self.manifest,
        }
