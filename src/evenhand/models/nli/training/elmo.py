"""`train_over_elmo`: train NLI models over frozen ELMo models, whose vectors are computed once per sentence."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from evenhand.arrays import Rows
from evenhand.errors import UsageError
from evenhand.models.encoders.elmo.encoder import Elmo
from evenhand.models.nli.elmo import KIND, ElmoNLI
from evenhand.models.nli.labelled_pairs import LabelledPairs, require_several_labels
from evenhand.models.nli.over_vectors import tokens
from evenhand.models.nli.training.batches import EncodedPairs, SentenceRows, TrainingBatches
from evenhand.models.nli.training.loop import Progress, Stack, run
from evenhand.models.nli.training.networks.elmo import ELMO_DROPOUT, ElmoNLINetwork
from evenhand.models.nli.training.settings import NLITrainingSettings

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
    sentences, encoded = _encode_pairs(pairs, dev)
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
    gpus = [torch.device(options.device)] if torch.device(options.device).type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        network = ElmoNLINetwork(
            len(members),
            first.dim,
            options.hidden,
            layers=first.layers + 1,
            states=states,
            dropout=options.dropout,
            elmo_dropout=elmo_dropout,
        )
        stack = Stack(network, options, seeds)
        silent: Progress = lambda done, total, what: None  # noqa: E731
        run(stack, batches[0], batches[1], path=checkpoint, fingerprint=fingerprint, progress=progress or silent)
    stack.restore_best()
    seconds, stopping = time.perf_counter() - start, stack.stopping
    return tuple(
        TrainedElmoNLI(
            ElmoNLI(network.arrays(number), elmo, name=f"{KIND}-seed-{seed}"),
            seed,
            float(stopping.best[number]),
            int(stopping.best_epoch[number]),
            tuple(stopping.history[number]),
            seconds,
        )
        for number, (elmo, seed) in enumerate(members)
    )


def _encode_pairs(*data: LabelledPairs) -> tuple[list[list[str]], list[EncodedPairs]]:
    """Return the distinct sentences of all pairs, and the pairs as rows of their concatenated words."""
    texts = dict.fromkeys(text for pairs in data for side in (pairs.premises, pairs.hypotheses) for text in side)
    numbers = {text: number for number, text in enumerate(texts)}
    sentences = [tokens(text) for text in texts]
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    if not lengths.min():
        raise UsageError(f"the sentence {list(texts)[int(lengths.argmin())]!r} has no words")
    starts, words = np.cumsum(lengths) - lengths, np.arange(int(lengths.sum()))

    def side(side_texts: Sequence[str]) -> SentenceRows:
        rows: Rows = np.fromiter((numbers[text] for text in side_texts), np.int64, len(side_texts))
        return SentenceRows(words, starts[rows], lengths[rows])

    return sentences, [EncodedPairs(side(d.premises), side(d.hypotheses), d.labels) for d in data]


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
