"""Train NLI models over frozen word vectors, several at once. Needs torch; trained decomposable attention does not."""

# ruff: noqa: E402
from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from evenhand.errors import EvenhandWarning, UsageError, require, unknown_name

require("torch", extra="models")  # first: its error names the command that installs torch

import torch
from numpy.typing import NDArray

from evenhand.arrays import Matrix, Rows, Vector64
from evenhand.models.nli.labelled_pairs import LabelledPairs, require_several_labels, require_three_way
from evenhand.models.nli.networks import ARCHITECTURES, StackedNetwork
from evenhand.models.nli.over_vectors import Lookup, ModelOverVectors, table
from evenhand.models.nli.protocol import LABELS
from evenhand.models.nli.training_batches import (
    EncodedPairs,
    TrainingBatch,
    TrainingBatches,
    compact,
    digest,
    spare_vectors,
)
from evenhand.models.training import EarlyStopping, Training, TrainingSettings, device_name, seeded
from evenhand.models.vectors import Vectors
from evenhand.progress import Progress
from evenhand.version import __version__

OPTIMISERS = ("adam", "adagrad")
MAX_UNKNOWN = 0.2  # share of the training tokens without a vector; a larger one raises a warning
DEV_BATCHES = 4  # batches without gradients take a fraction of the memory


def train(
    pairs: LabelledPairs,
    dev: LabelledPairs,
    vectors: Vectors | Sequence[Vectors],
    *,
    seeds: Sequence[int] = (0,),
    stack: int | None = None,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
    **settings: object,
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
    **settings: object,
) -> tuple[TrainedNLI, ...]:
    """Train one model for each combination of vectors and seed; see `train`."""
    options = NLITrainingSettings.of(settings, function="train").resolve()
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


@dataclass(frozen=True, kw_only=True)
class NLITrainingSettings(TrainingSettings):
    """Everything that decides the result of training, apart from data, vectors and seed.

    `weight_decay` adds its multiple of the weights to the gradient (an L2 penalty), with either optimiser. `spare` is
    the number of vectors for out-of-vocabulary words.
    """

    architecture: str = "decomposable"
    hidden: int = 200
    epochs: int = 20
    patience: int = 5
    batch: int = 256
    dropout: float = 0.2
    optimiser: str = "adam"
    lower: bool = True
    normalise: bool = False
    intra_attention: bool = False
    spare: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimiser not in OPTIMISERS:
            raise unknown_name("optimiser", self.optimiser, OPTIMISERS)
        self.require_at_least(1, "hidden", "epochs", "patience", "batch", "spare")
        self.require_rates("dropout")
        ARCHITECTURES.get(self.architecture).check_settings(self)


class Stack(Training):
    """Members of one shape in training; each keeps the weights of its best epoch."""

    network: StackedNetwork
    settings: NLITrainingSettings

    def __init__(
        self,
        network: StackedNetwork,
        settings: NLITrainingSettings,
        seeds: Sequence[int],
        pairs: TrainingBatches,
        dev: TrainingBatches,
    ) -> None:
        network.initialise(seeds)
        network.to(settings.device)
        super().__init__(network, _optimiser(network, settings), settings, total=settings.epochs)
        self.seeds, self.pairs, self.dev = tuple(seeds), pairs, dev
        self.best = [parameter.detach().clone() for parameter in network.parameters()]
        self.stopping = EarlyStopping(len(self.seeds))

    def finished(self) -> bool:
        """Return whether every member has stopped."""
        return super().finished() or bool(self.stopping.done.all())

    def advance(self, progress: Progress) -> None:
        """Train for an epoch, evaluate on the development pairs, and keep the weights of members that improved."""
        losses = self._train_epoch(progress)
        for seed, loss in zip(self.seeds, np.where(self.stopping.done, 0.0, losses), strict=True):
            self.require_finite(float(loss), of=f" of seed {seed}")
        accuracies = self.accuracies(self.dev)
        self.history.append({"loss": losses.tolist(), "dev_accuracy": accuracies.tolist()})
        self._keep_best(self.stopping.record(self.done + 1, accuracies, self.settings.patience))

    def _train_epoch(self, progress: Progress) -> Vector64:
        """Return the mean loss of each member."""
        text = f"epoch {self.done + 1}/{self.total}" + (f", dev {self.stopping.best.max():.1%}" if self.done else "")
        steps = len(self.pairs)
        self.network.train()
        total = torch.zeros(len(self.seeds), device=self.settings.device)
        for step, batch in enumerate(self.pairs.shuffled(self.seeds, self.done + 1)):
            total += self.gradient(batch.labels.shape[1], partial(self._losses, batch), row="pair")
            self.update()
            progress(self.done * steps + step, self.total * steps, text)
        return np.asarray((total / steps).cpu().numpy(), dtype=np.float64)

    def _losses(self, batch: TrainingBatch, rows: slice) -> torch.Tensor:
        """Return the loss of each member; members share no parameters, so their sum gives each its own gradient."""
        *inputs, labels = (tensor[:, rows] for tensor in batch)
        with self.autocast():
            logits = self.network(*inputs)
        flat = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), reduction="none")
        return flat.view(labels.shape).mean(1)

    def accuracies(self, batches: TrainingBatches) -> Vector64:
        """Return the accuracy of each member."""
        self.network.eval()
        correct = torch.zeros(len(self.seeds), dtype=torch.int64, device=self.settings.device)
        with torch.inference_mode(), self.autocast():
            for batch in batches.in_order():
                correct += (self.network(*batch[:4]).argmax(-1) == batch.labels).sum(1)
        return np.asarray(correct.cpu().numpy() / batches.pairs, dtype=np.float64)

    def _keep_best(self, improved: NDArray[np.bool_]) -> None:
        mask = torch.as_tensor(improved, device=self.settings.device)
        with torch.no_grad():
            for best, current in zip(self.best, self.network.parameters(), strict=True):
                best.copy_(torch.where(mask.view(-1, *[1] * (current.dim() - 1)), current, best))

    def use_best(self) -> None:
        """Give every member the weights of its best epoch."""
        with torch.no_grad():
            for best, current in zip(self.best, self.network.parameters(), strict=True):
                current.copy_(best)

    def member_history(self, member: int) -> tuple[dict[str, float], ...]:
        """Return loss and accuracy of a member in each epoch until it ran out of patience."""
        last = int(self.stopping.best_epoch[member]) + self.settings.patience
        return tuple(
            {"epoch": epoch, **{name: values[member] for name, values in entry.items()}}
            for epoch, entry in enumerate(self.history[:last], start=1)
        )

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors of a checkpoint, the best weights among them."""
        names = (name for name, _ in self.network.named_parameters())
        return super().tensors() | {f"best.{name}": best for name, best in zip(names, self.best, strict=True)}

    def restore_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take the tensors of a checkpoint."""
        super().restore_tensors(tensors)
        for best, (name, _) in zip(self.best, self.network.named_parameters(), strict=True):
            best.copy_(tensors[f"best.{name}"])

    def state(self) -> dict[str, Any]:
        """Return the numbers of a checkpoint."""
        return super().state() | {"stopping": self.stopping.to_dict()}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Take the numbers of a checkpoint."""
        super().restore_state(state)
        self.stopping = EarlyStopping.from_dict(state["stopping"])


def stack_seed(seeds: Sequence[int]) -> int:
    """Return the seed of what all members share: the random numbers of dropout."""
    return int(np.random.SeedSequence(seeds).generate_state(1)[0])


def _optimiser(network: StackedNetwork, settings: NLITrainingSettings) -> torch.optim.Optimizer:
    options = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.optimiser == "adagrad":
        return torch.optim.Adagrad(network.parameters(), **options)
    return torch.optim.Adam(network.parameters(), **options, fused=torch.device(settings.device).type == "cuda")


@dataclass(frozen=True, eq=False)
class StackMember:
    """One model to train: the vectors it reads and its seed."""

    vectors: Vectors
    seed: int
    spare: Matrix
    table: Matrix
    sha256: str


class DataSources(TypedDict):
    """The data of a training run, as the manifest records them."""

    train: dict[str, object]
    dev: dict[str, object]
    unknown_tokens: float


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
    with seeded(settings.device, stack_seed(seeds)):
        network = architecture(len(members), members[0].vectors.dim, settings.hidden, **architecture.options(settings))
        stack = Stack(network, settings, seeds, *_batches(members, data, settings))
        stack.run(path, _fingerprint(members, settings, sources), progress)
    stack.use_best()
    seconds = time.perf_counter() - start
    return [
        _result(stack, index, member, manifest(settings, member, sources, seconds, len(members)))
        for index, member in enumerate(members)
    ]


def _result(stack: Stack, index: int, member: StackMember, record: dict[str, object]) -> TrainedNLI:
    settings, stopping = stack.settings, stack.stopping
    model = stack.network.model_class(
        {**stack.network.arrays(index), "oov": member.spare},
        member.vectors,
        lower=settings.lower,
        normalise=settings.normalise,
        name=f"{settings.architecture}-seed-{member.seed}",
    )
    best, epoch = float(stopping.best[index]), int(stopping.best_epoch[index])
    return TrainedNLI(model, member.seed, member.vectors, best, epoch, stack.member_history(index), record)


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
        require_three_way(data)
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
        "evenhand": __version__,
        "settings": settings.to_dict(),
        "data": dict(sources),
        "words": {
            "name": member.vectors.name,
            "dimensions": member.vectors.dim,
            "history": [dict(step) for step in member.vectors.history],
            "sha256_of_words_read": member.sha256,
        },
        "stack": {"members": stack, "seconds": round(seconds, 2)},
        "device": device_name(settings.device),
        "packages": {"python": platform.python_version(), "torch": torch.__version__, "numpy": version("numpy")},
    }
