"""A probe through a sequence classifier: ids joined on the device, the host a step ahead of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import require
from evenhand.models.nli.protocol import LABELS, Grid, Probabilities
from evenhand.models.nli.transformer.batches import Batches, Block, Ragged, blocks
from evenhand.models.nli.transformer.device_model import Placed
from evenhand.models.nli.transformer.token_ids import Frame, Ids
from evenhand.words.probes import Probe

if TYPE_CHECKING:
    from evenhand.models.nli.transformer.model import TransformerNLI

Item = TypeVar("Item")
DONE: Any = object()


def evaluate(model: TransformerNLI, probe: Probe, frame: Frame) -> Iterator[Grid]:
    """Every phrase of the probe.

    Three things go on at once: the sentences of the next block are cut into pieces, the device works on this block,
    and the caller scores the block before.
    """
    prepared = ahead(blocks(probe, model.pieces, frame, tokens=model.placed.tokens))
    for block, found in ahead((block, _answers(model, probe, frame, block)) for block in prepared):
        yield Grid(block.phrases, found.matrix.reshape(-1, *probe.shape[1:], len(LABELS)))


def _answers(model: TransformerNLI, probe: Probe, frame: Frame, block: Block) -> Probabilities:
    """The answers to a block, pair by pair where some of them must be cut to the model's limit."""
    each = probe.shape[1] * probe.shape[2]
    start, stop = (int(phrase) * each for phrase in (block.phrases[0], block.phrases[-1] + 1))
    if block.batches.longest > model.limit:
        return model.predict(*probe.texts(probe.points(start, stop)))
    answers = block_answers(model.placed, block, frame, probe)
    found: Probabilities = Probabilities.named(answers, model.labels, where=model.name + ", pair {row}", first=start)
    return found


def block_answers(placed: Placed, block: Block, frame: Frame, probe: Probe) -> Matrix:
    """The answers to all pairs of a block, in their order, columns as the model has them."""
    torch: Any = require("torch", extra="models")
    _, premises, hypotheses = probe.shape
    for side in (block.first, block.second):
        placed.refuse_strange(side.ids)

    def put(array: Any) -> Any:
        return torch.as_tensor(array, device=placed.device)

    # One row of ids for both sides: the second side's sentences stand behind those of the first.
    ids = torch.cat([put(block.first.ids), put(block.second.ids)])
    starts_p, lengths_p = put(block.first.starts), put(block.first.lengths)
    starts_h, order = put(block.second.starts + len(block.first.ids)), put(block.batches.order)
    with torch.inference_mode():
        answers = torch.empty(len(order), len(LABELS), device=placed.device)
        for cut in block.batches.cuts:
            pairs = order[cut.start : cut.stop, None]
            p, h = pairs // hypotheses, pairs // (premises * hypotheses) * hypotheses + pairs % hypotheses
            place, border = torch.arange(cut.length, device=placed.device), lengths_p[p]
            second = place >= border
            index = torch.where(second, starts_h[h] - border, starts_p[p]) + place
            types = torch.where(second, *reversed(frame.types)) if frame.types else None
            answers[pairs[:, 0]] = placed(ids[index], types)
        return np.asarray(answers.cpu().numpy())


def pair_answers(placed: Placed, ids: list[Ids], types: list[Ids] | None) -> Matrix:
    """The answers to single pairs, in their order, columns as the model has them."""
    torch: Any = require("torch", extra="models")
    rows = Ragged.of(ids)
    placed.refuse_strange(rows.ids)
    kinds = Ragged.of(types).ids if types else None
    batches = Batches.of(rows.lengths, placed.tokens)
    answers = np.empty((len(ids), len(LABELS)), np.float32)
    starts = rows.starts
    with torch.inference_mode():
        for cut in batches.cuts:
            some = batches.order[cut.start : cut.stop]
            index = starts[some][:, None] + np.arange(cut.length)
            given = torch.as_tensor(rows.ids[index], device=placed.device)
            kind = torch.as_tensor(kinds[index], device=placed.device) if kinds is not None else None
            answers[some] = placed(given, kind).cpu().numpy()
    return answers


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, the next one made in another thread while the caller works on this one."""
    source = iter(items)
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, source, DONE)
        while (item := coming.result()) is not DONE:
            coming = pool.submit(next, source, DONE)
            yield item
