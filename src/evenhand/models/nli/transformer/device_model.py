"""A classifier on its device, in a chosen precision, and its probabilities for pairs and for whole probes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from evenhand.arrays import Matrix, Rows
from evenhand.errors import EvenhandError, FormatError, UsageError, require
from evenhand.models.nli.protocol import LABELS, Grid, Probabilities
from evenhand.models.nli.transformer.token_ids import Ids, PairFormat, Tokenize
from evenhand.words.probes import Probe
from evenhand.words.probes.probe import Side

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from evenhand.models.nli.transformer.model import TransformerNLI


Tensor = Any  # torch is not typed here

# Tokens in a batch. On a GPU, a batch must take longer than launching its hundreds of kernels, about 10 ms; on a CPU,
# it should stay in the cache.
TOKENS = {"cuda": 65_536, "cpu": 4_096}
Item = TypeVar("Item")
DONE: Any = object()
MOST_ROWS = 65_535  # the attention kernels of CUDA count the rows of a batch in 16 bits


class DeviceModel:
    """A model that maps ids to probabilities, in the order of the model's own labels."""

    def __init__(self, model: PreTrainedModel, device: torch.device, precision: str, tokens: int | None) -> None:
        if tokens is not None and tokens < 1:
            raise UsageError(f"batch must be at least 1 token, got {tokens}")
        self.device, self.precision = device, precision
        self.tokens = tokens or TOKENS.get(device.type, TOKENS["cpu"])
        stored = torch.float16 if precision == "float16" else torch.float32
        self.model = model.eval().requires_grad_(False).to(device=device, dtype=stored)
        if precision == "float16":
            self._keep_head_in_float32()
        if precision == "bfloat16":
            split_linear_layers(self.model, outputs=len(LABELS))

    def _keep_head_in_float32(self) -> None:
        """Keep the last layer in float32: half-precision logits have ties, which always favour the same label."""
        heads = [
            layer
            for layer in self.model.modules()
            if isinstance(layer, torch.nn.Linear) and layer.out_features == len(LABELS)
        ]
        for head in heads[-1:]:
            head.float().register_forward_pre_hook(lambda _, inputs: tuple(part.float() for part in inputs))

    def check_ids(self, ids: Rows) -> None:
        """Raise `FormatError` for ids beyond the embedding table; on a GPU they would make the device unusable."""
        rows = self.model.get_input_embeddings().weight.shape[0]
        largest = int(ids.max(initial=0))
        if largest >= rows:
            raise FormatError(
                f"the tokenizer gives the id {largest:,}, but {type(self.model).__name__} has {rows:,} embeddings",
                hint="use the model's own tokenizer",
            )

    def __call__(self, ids: Tensor, types: Tensor | None) -> Tensor:
        """Return the softmax in float32, one row per row of ids; rows have the same length and need no mask."""
        more = {} if types is None else {"token_type_ids": types}
        try:
            logits = self.model(input_ids=ids, **more).logits
        except torch.cuda.OutOfMemoryError as error:
            raise EvenhandError(
                f"{self.device} has too little memory for {ids.numel():,} tokens at once",
                hint=f"use a smaller batch={max(1, self.tokens // 4)}, or device='cpu'",
            ) from error
        except (ValueError, TypeError) as error:
            raise FormatError(
                f"{type(self.model).__name__} does not accept the output of its tokenizer ({error})",
                hint="use the model's own tokenizer",
            ) from error
        if logits.shape != (len(ids), len(LABELS)):
            raise FormatError(
                f"{type(self.model).__name__} returned logits of shape {tuple(logits.shape)} for {len(ids)} pairs"
            )
        return logits.float().softmax(-1)


class SplitLinear(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A linear layer with float32 input and output, products in bfloat16, and weights exact to 16 bits."""

    def __init__(self, layer: torch.nn.Linear) -> None:
        super().__init__()
        weight = layer.weight.detach()
        high = weight.bfloat16()
        self.register_buffer("weight", high, persistent=False)
        self.register_buffer("rest", (weight - high).bfloat16(), persistent=False)
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach(), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Add both products; the second one accumulates the sum in float32."""
        rows = inputs.flatten(0, -2).bfloat16()
        outputs = torch.addmm(rows @ self.rest.T, rows, self.weight.T).float()
        outputs = outputs if self.bias is None else outputs.add_(self.bias)
        return outputs.unflatten(0, inputs.shape[:-1])


def split_linear_layers(model: torch.nn.Module, *, outputs: int) -> None:
    """Replace every linear layer of a float32 model, except those with `outputs` outputs, the last one."""
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            # Exactly Linear: the weights of subclasses, as in torch's attention, are read by other modules.
            if type(layer) is torch.nn.Linear and layer.out_features != outputs:
                setattr(parent, name, SplitLinear(layer))


def evaluate(model: TransformerNLI, probe: Probe, layout: PairFormat) -> Iterator[Grid]:
    """Yield every phrase of the probe.

    Three steps overlap: the sentences of the next block are tokenised, the device evaluates this block, and the caller
    scores the previous one.
    """
    blocks = prefetch(phrase_blocks(probe, model.tokenize, layout, tokens=model.device_model.tokens))
    for block, answers in prefetch((block, _predict_block(model, probe, layout, block)) for block in blocks):
        yield Grid(block.phrases, answers.matrix.reshape(-1, *probe.shape[1:], len(LABELS)))


def _predict_block(model: TransformerNLI, probe: Probe, layout: PairFormat, block: PhraseBlock) -> Probabilities:
    """Return the probabilities of a block; pair by pair if some must be truncated to the model's limit."""
    each = probe.shape[1] * probe.shape[2]
    start, stop = (int(phrase) * each for phrase in (block.phrases[0], block.phrases[-1] + 1))
    if block.batches.longest > model.limit:
        return model.predict(*probe.texts(probe.points(start, stop)))
    matrix = predict_block(model.device_model, block, layout, probe)
    return Probabilities.named(matrix, model.labels, where=model.name + ", pair {row}", first=start)


def predict_block(model: DeviceModel, block: PhraseBlock, layout: PairFormat, probe: Probe) -> Matrix:
    """Return the probabilities of all pairs of a block, in order, with the columns of the model."""
    torch = require("torch", extra="models")
    _, premises, hypotheses = probe.shape
    for side in (block.first, block.second):
        model.check_ids(side.ids)

    def put(array: Rows) -> Tensor:
        return torch.as_tensor(array, device=model.device)

    # One array of ids for both sides: the second side's sentences follow those of the first.
    ids = torch.cat([put(block.first.ids), put(block.second.ids)])
    starts_p, lengths_p = put(block.first.starts), put(block.first.lengths)
    starts_h, order = put(block.second.starts + len(block.first.ids)), put(block.batches.order)
    with torch.inference_mode():
        answers = torch.empty(len(order), len(LABELS), device=model.device)
        for cut in block.batches.cuts:
            pairs = order[cut.start : cut.stop, None]
            p, h = pairs // hypotheses, pairs // (premises * hypotheses) * hypotheses + pairs % hypotheses
            position, border = torch.arange(cut.length, device=model.device), lengths_p[p]
            second = position >= border
            index = torch.where(second, starts_h[h] - border, starts_p[p]) + position
            types = torch.where(second, *reversed(layout.types)) if layout.types else None
            answers[pairs[:, 0]] = model(ids[index], types)
        return np.asarray(answers.cpu().numpy())


def predict_ids(model: DeviceModel, ids: list[Ids], types: list[Ids] | None) -> Matrix:
    """Return the probabilities of single pairs, in order, with the columns of the model."""
    torch = require("torch", extra="models")
    rows = Ragged.of(ids)
    model.check_ids(rows.ids)
    kinds = Ragged.of(types).ids if types else None
    batches = LengthBatches.of(rows.lengths, model.tokens)
    answers = np.empty((len(ids), len(LABELS)), np.float32)
    starts = rows.starts
    with torch.inference_mode():
        for cut in batches.cuts:
            pairs = batches.order[cut.start : cut.stop]
            index = starts[pairs][:, None] + np.arange(cut.length)
            batch = torch.as_tensor(rows.ids[index], device=model.device)
            kind = torch.as_tensor(kinds[index], device=model.device) if kinds is not None else None
            answers[pairs] = model(batch, kind).cpu().numpy()
    return answers


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items, computing the next one in another thread while the caller uses this one."""
    source = iter(items)
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, source, DONE)
        while (item := coming.result()) is not DONE:
            coming = pool.submit(next, source, DONE)
            yield item


@dataclass(frozen=True)
class Ragged:
    """Rows of ids of different lengths, concatenated."""

    ids: Rows
    lengths: Rows

    @classmethod
    def of(cls, rows: list[Ids]) -> Ragged:
        """Concatenate rows."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum())), lengths)

    @property
    def starts(self) -> Rows:
        """Start of each row."""
        return np.cumsum(self.lengths) - self.lengths


@dataclass(frozen=True)
class LengthBatch:
    """A range in the order by length, and the length that all its rows have."""

    start: int
    stop: int
    length: int


@dataclass(frozen=True)
class LengthBatches:
    """Rows sorted by length, in batches of one length each: no padding and no mask."""

    order: Rows
    cuts: tuple[LengthBatch, ...]

    @classmethod
    def of(cls, lengths: Rows, tokens: int) -> LengthBatches:
        """Return batches of similar size within a length, each of at least one row and at most `tokens` tokens."""
        order = np.argsort(lengths, kind="stable")
        values, counts = np.unique(lengths, return_counts=True)
        ends = np.cumsum(counts)
        cuts: list[LengthBatch] = []
        for length, count, end in zip(values.tolist(), counts.tolist(), ends.tolist(), strict=True):
            parts = -(-count // max(1, min(MOST_ROWS, tokens // max(1, length))))
            edges = [end - count + count * part // parts for part in range(parts + 1)]
            cuts += [LengthBatch(*pair, length) for pair in pairwise(edges)]
        return cls(order, tuple(cuts))

    @property
    def longest(self) -> int:
        """The largest length."""
        return self.cuts[-1].length if self.cuts else 0


@dataclass(frozen=True)
class PhraseBlock:
    """The pairs of some phrases; pair (t, p, h) joins row t P + p of `first` with row t H + h of `second`."""

    phrases: Rows
    first: Ragged
    second: Ragged
    batches: LengthBatches


def phrase_blocks(probe: Probe, tokenize: Tokenize, layout: PairFormat, *, tokens: int) -> Iterator[PhraseBlock]:
    """Yield all phrases in blocks large enough for the common lengths to fill their batches."""
    each = probe.shape[1] * probe.shape[2]
    step = max(1, 2 * tokens // each)
    for start in range(0, probe.shape[0], step):
        phrases = np.arange(start, min(start + step, probe.shape[0]))
        first = Ragged.of([layout.first(ids) for ids in tokenize(sentences(probe, "premise", phrases))])
        second = Ragged.of([layout.second(ids) for ids in tokenize(sentences(probe, "hypothesis", phrases))])
        lengths = first.lengths.reshape(len(phrases), -1, 1) + second.lengths.reshape(len(phrases), 1, -1)
        yield PhraseBlock(phrases, first, second, LengthBatches.of(lengths.ravel(), tokens))


def sentences(probe: Probe, side: Side, phrases: Rows) -> list[str]:
    """Return every sentence of one side, phrase by phrase."""
    selected = (probe.phrases.all[phrase] for phrase in phrases.tolist())
    return [x.before + subject + x.after for x in selected for subject in probe.subjects(side, x.determiner)]
