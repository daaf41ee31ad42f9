"""Train NLI models over frozen ELMo models, whose vectors are computed once per sentence: `train_over_elmo`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from elmo_stack import encode

from evenhand.errors import UsageError
from evenhand.models.encoders.elmo.encoder import Elmo
from evenhand.models.nli.elmo import KIND, ElmoNLI
from evenhand.models.nli.labelled_pairs import LabelledPairs, require_several_labels
from evenhand.models.nli.networks import ELMO_DROPOUT, ElmoNLINetwork
from evenhand.models.nli.training import NLITrainingSettings, Stack, stack_seed
from evenhand.models.nli.training_batches import TrainingBatches
from evenhand.models.training import seeded
from evenhand.progress import Progress

DEV_BATCHES = 2  # batches without gradients take a fraction of the memory


@dataclass(frozen=True, eq=False)
class TrainedElmoNLI:
    """A model at its best epoch on the development pairs; `history` has loss and accuracy of each epoch."""

    model: ElmoNLI
    seed: int
    dev_accuracy: float
    epoch: int
    history: tuple[Mapping[str, float], ...]
    seconds: float


def train_over_elmo(
    pairs: LabelledPairs,
    dev: LabelledPairs,
    members: Sequence[tuple[Elmo, int]],
    *,
    states: int = 200,
    elmo_dropout: float = ELMO_DROPOUT,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
    **settings: object,
) -> tuple[TrainedElmoNLI, ...]:
    """Train one model for each combination of ELMo model and seed, all in one stack.

    The vectors of all layers are computed once for each distinct sentence and ELMo model, and kept on the device, in
    half precision on a GPU.

    Args:
        pairs: training pairs.
        dev: development pairs for early stopping.
        members: ELMo model and seed of each model; models may differ in their maps, not in their sizes.
        states: width of the BiLSTM.
        elmo_dropout: dropout of the scalar mixes.
        checkpoint: file, written after every epoch. The same call resumes from it.
        progress: called with steps done, total steps and a line of text.
        **settings: see `NLITrainingSettings`; `hidden` is 400 by default, as in the paper.
    """
    options = NLITrainingSettings(**{"architecture": "bilstm", "hidden": 400, **settings}).resolve()  # type: ignore[arg-type]
    if not members:
        raise UsageError("there are no ELMo models to train on", hint="give at least one (model, seed)")
    for data in (pairs, dev):
        if data.two_way:
            raise UsageError(f"{data.source}: its labels do not distinguish neutral from contradiction")
    require_several_labels(pairs)
    first = members[0][0]
    if any((elmo.layers, elmo.dim) != (first.layers, first.dim) for elmo, _ in members):
        raise UsageError("the ELMo models differ in size", hint="train them in separate calls")
    start = time.perf_counter()
    sentences, encoded = encode(pairs, dev)
    table, offsets = _table(sentences, members, options)
    batches = [
        TrainingBatches(data, table, offsets, batch=size)
        for data, size in zip(encoded, (options.batch, options.batch * DEV_BATCHES), strict=True)
    ]
    seeds = [seed for _, seed in members]
    fingerprint = {
        **replace(options, epochs=1).to_dict(),
        "architecture": KIND,
        "states": states,
        "elmo_dropout": elmo_dropout,
        "train": pairs.sha256,
        "dev": dev.sha256,
        "seeds": seeds,
        "elmo": [elmo.digest for elmo, _ in members],
    }
    with seeded(options.device, stack_seed(seeds)):
        network = ElmoNLINetwork(
            len(members),
            first.dim,
            options.hidden,
            layers=first.layers + 1,
            states=states,
            dropout=options.dropout,
            elmo_dropout=elmo_dropout,
        )
        stack = Stack(network, options, seeds, *batches)
        stack.run(checkpoint, fingerprint, progress)
    stack.use_best()
    seconds, stopping = time.perf_counter() - start, stack.stopping
    return tuple(
        TrainedElmoNLI(
            ElmoNLI(network.arrays(number), elmo, name=f"{KIND}-seed-{seed}"),
            seed,
            float(stopping.best[number]),
            int(stopping.best_epoch[number]),
            stack.member_history(number),
            seconds,
        )
        for number, (elmo, seed) in enumerate(members)
    )


def _table(
    sentences: list[list[str]], members: Sequence[tuple[Elmo, int]], settings: NLITrainingSettings
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the vectors of every word of all sentences, for each ELMo model, and the first row of each member."""
    distinct = {id(elmo): elmo for elmo, _ in members}
    first = members[0][0]
    words = sum(map(len, sentences))
    dtype = torch.bfloat16 if settings.precision == "bfloat16" else torch.float32
    width = (first.layers + 1) * first.dim
    table = torch.empty(len(distinct) * words, width, dtype=dtype, device=settings.device)
    for number, elmo in enumerate(distinct.values()):
        elmo.flat_vectors(sentences, out=table[number * words : (number + 1) * words])
    places = {key: number * words for number, key in enumerate(distinct)}
    offsets = torch.tensor([places[id(elmo)] for elmo, _ in members], device=settings.device).view(-1, 1, 1)
    return table, offsets
