"""`train`: labelled pairs and word vectors in, models at their best epoch out."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from evenhand.arrays import Matrix, Rows
from evenhand.errors import EvenhandWarning, UsageError
from evenhand.models.nli.labelled_pairs import LabelledPairs, refuse_one_class
from evenhand.models.nli.protocol import LABELS
from evenhand.models.nli.tokens import Lookup, table
from evenhand.models.nli.training.batches import Batches
from evenhand.models.nli.training.encoded_pairs import Numbered, compacted, digest, stand_ins
from evenhand.models.nli.training.loop import Stack, Told, run
from evenhand.models.nli.training.networks.registry import architecture as classes_of
from evenhand.models.nli.training.settings import Settings
from evenhand.models.vectors import Vectors

if TYPE_CHECKING:
    from evenhand.models.nli.training.settings import Settings


TOO_MANY_UNKNOWN = 0.2
DEV_BATCHES = 4  # without gradients a batch takes a fraction of the memory


@dataclass(frozen=True, eq=False)
class Member:
    """One model to be trained: what it reads and where it starts."""

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
    progress: Told | None = None,
    **settings: Any,
) -> tuple[Trained, ...]:
    """Train one model for every table of vectors and every seed, and keep each at its best epoch on `dev`.

    Members of a stack are trained in one pass and share nothing but the order of lengths; several tables must have the
    same words. On a processor the same call gives the same bits.

    What it does not tell you: a seed moves accuracy by half a point and bias scores by several; train five at least.

    Args:
        pairs: What is learnt from.
        dev: What decides when to stop, and so no longer measures: keep other pairs for the final accuracy.
        vectors: Frozen word vectors, or several that share their words.
        seeds: One model each; a seed fixes first weights and the order of pairs.
        stack: Members trained at once; by default one on a processor, all on a GPU.
        checkpoint: A folder, written after every epoch; the same call goes on from what it finds there.
        progress: Called with steps done, steps in all and a line of text.
        **settings: See `Settings`: architecture, hidden, epochs, patience, batch, learning_rate, weight_decay, dropout,
            optimiser, lower, normalise, intra_attention, spare, device, precision.
    """
    tables = [vectors] if isinstance(vectors, Vectors) else list(vectors)
    if not seeds or len(set(seeds)) < len(seeds):
        raise UsageError(f"seeds are different whole numbers from 0 on, got {list(seeds)}")
    members = [(table, seed) for table in tables for seed in seeds]
    return train_members(pairs, dev, members, stack=stack, checkpoint=checkpoint, progress=progress, **settings)


def train_members(
    pairs: LabelledPairs,
    dev: LabelledPairs,
    members: Sequence[tuple[Vectors, int]],
    *,
    stack: int | None = None,
    checkpoint: Path | None = None,
    progress: Told | None = None,
    **settings: Any,
) -> tuple[Trained, ...]:
    """As `train`, for any combinations of vectors and seed."""
    chosen = _settings(settings).placed()
    _refuse(pairs, dev, members)
    lookup = Lookup(members[0][0], chosen.spare, chosen.lower)
    learnt_from = Numbered.of(pairs, lookup)
    unknown = _unknown(learnt_from, members[0][0])
    rows, numbered = compacted(learnt_from, Numbered.of(dev, lookup))
    wanted = _members(members, rows, chosen)
    width = stack or (1 if torch.device(chosen.device).type == "cpu" else len(wanted))
    if width < 1:
        raise UsageError(f"a stack has at least 1 member, got {width}")
    about = {"train": pairs.to_dict(), "dev": dev.to_dict(), "unknown_tokens": unknown}
    found: list[Trained] = []
    for start in range(0, len(wanted), width):
        place = Path(checkpoint) / f"stack-{start // width}.safetensors" if checkpoint else None
        found += _trained(wanted[start : start + width], numbered, chosen, about, place, progress)
    return tuple(found)


def _settings(given: dict[str, Any]) -> Settings:
    try:
        return Settings(**given)
    except TypeError as error:
        raise UsageError(f"train: {error}", hint=f"settings are {', '.join(Settings.__dataclass_fields__)}") from error


def _trained(
    members: Sequence[Member],
    numbered: Sequence[Numbered],
    settings: Settings,
    about: dict[str, Any],
    place: Path | None,
    progress: Told | None,
) -> list[Trained]:
    began, seeds = time.perf_counter(), [member.seed for member in members]
    classes = classes_of(settings.architecture)
    options = {"intra_attention": True} if settings.intra_attention else {}
    gpus = [torch.device(settings.device)] if torch.device(settings.device).type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        network = classes.network(len(members), members[0].vectors.dim, settings.hidden, settings.dropout, **options)
        stack = Stack(network, settings, seeds)
        told = progress or (lambda done, total, what: None)
        print_of = _fingerprint(members, settings, about)
        run(stack, *_batches(members, numbered, settings), path=place, fingerprint=print_of, told=told)
    best = stack.restore()
    seconds = time.perf_counter() - began
    return [
        _result(
            member, best.arrays(i), stack, i, classes.model, manifest(settings, member, about, seconds, len(members))
        )
        for i, member in enumerate(members)
    ]


def _result(
    member: Member, arrays: dict[str, Any], stack: Stack, place: int, model: Any, record: dict[str, Any]
) -> Trained:
    settings, standing = stack.settings, stack.standing
    made = model.from_arrays(
        {**arrays, "oov": member.spare},
        member.vectors,
        lower=settings.lower,
        normalise=settings.normalise,
        name=f"{settings.architecture}-seed-{member.seed}",
    )
    best, epoch = float(standing.best[place]), int(standing.best_epoch[place])
    return Trained(made, member.seed, member.vectors, best, epoch, tuple(standing.history[place]), record)


def _batches(members: Sequence[Member], numbered: Sequence[Numbered], settings: Settings) -> tuple[Batches, Batches]:
    """The pairs on the device, with one copy of each table that the members read."""
    distinct = {member.sha256: member.table for member in members}
    places = {sha256: place * len(member_table) for place, (sha256, member_table) in enumerate(distinct.items())}
    # Products round to bfloat16 anyway: words kept so move half the bytes.
    dtype = torch.bfloat16 if settings.precision == "bf16" else torch.float32
    flat = torch.as_tensor(np.concatenate(list(distinct.values()))).to(device=settings.device, dtype=dtype)
    offsets = torch.tensor([places[member.sha256] for member in members], device=settings.device).view(-1, 1, 1)
    train_pairs, dev_pairs = numbered
    return (
        Batches(train_pairs, flat, offsets, batch=settings.batch),
        Batches(dev_pairs, flat, offsets, batch=settings.batch * DEV_BATCHES),
    )


def _members(members: Sequence[tuple[Vectors, int]], rows: Rows, settings: Settings) -> list[Member]:
    read: dict[int, tuple[Matrix, Matrix, str]] = {}
    for vectors, _ in members:
        if id(vectors) not in read:
            spare = stand_ins(vectors, rows, settings.spare)
            words = table(vectors, rows, spare, normalise=settings.normalise)
            read[id(vectors)] = spare, words, digest(words)
    return [Member(vectors, seed, *read[id(vectors)]) for vectors, seed in members]


def _fingerprint(members: Sequence[Member], settings: Settings, about: dict[str, Any]) -> dict[str, Any]:
    """What must be the same for a checkpoint to go on; more epochs may be asked for later."""
    same = replace(settings, epochs=1).to_dict()
    same |= {"train": about["train"]["sha256"], "dev": about["dev"]["sha256"]}
    return same | {"seeds": [m.seed for m in members], "vectors": [m.sha256 for m in members]}


def _unknown(pairs: Numbered, vectors: Vectors) -> float:
    """The share of tokens without a vector; a large one is said, because it is usually a mistake."""
    words = np.concatenate([side.words for side in pairs.sides])
    share = float((words >= len(vectors)).mean())
    if share > TOO_MANY_UNKNOWN:
        warnings.warn(
            f"{vectors.name} has no vector for {share:.0%} of the training tokens", EvenhandWarning, stacklevel=3
        )
    return share


def _refuse(pairs: LabelledPairs, dev: LabelledPairs, members: Sequence[tuple[Vectors, int]]) -> None:
    for given in (pairs, dev):
        if given.two_way:
            raise UsageError(
                f"{given.source}: its labels do not tell neutral from contradiction", hint="evaluate on it"
            )
    refuse_one_class(pairs)
    if missing := [label for place, label in enumerate(LABELS) if place not in pairs.labels]:
        warnings.warn(f"{pairs.source}: no pair labelled {missing[0]}", EvenhandWarning, stacklevel=4)
    if not members:
        raise UsageError("no vectors given", hint="give one table, or several with the same words")
    if any(seed < 0 for _, seed in members):
        raise UsageError(f"seeds are whole numbers from 0 on, got {[seed for _, seed in members]}")
    first = members[0][0]
    for other in {id(vectors): vectors for vectors, _ in members}.values():
        if other.words != first.words or other.case != first.case or other.dim != first.dim:
            raise UsageError(
                f"{other.name} and {first.name} differ in words or dimension and cannot be trained in one stack",
                hint="call train once for each",
            )


def manifest(settings: Settings, member: Member, about: dict[str, Any], seconds: float, stack: int) -> dict[str, Any]:
    """Data, vectors, settings, versions and device of one member."""
    return {
        "evenhand": import_module("evenhand").__version__,  # by name: the package's front is a layer above this one
        "settings": settings.to_dict(),
        "data": about,
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
class Trained:
    """A model at its best epoch on the development pairs, how it came there, and from what.

    `history` has one entry for each epoch up to the one at which patience ended: training loss and dev accuracy.
    """

    model: Any  # an NLIModel with save()
    seed: int
    vectors: Vectors
    dev_accuracy: float
    epoch: int
    history: tuple[Mapping[str, float], ...]
    manifest: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, without the weights."""
        return {
            "name": self.model.name,
            "seed": self.seed,
            "vectors": self.vectors.name,
            "dev_accuracy": self.dev_accuracy,
            "epoch": self.epoch,
            "history": [dict(entry) for entry in self.history],
            **self.manifest,
        }
