"""Sequence classifiers of `transformers` trained on natural language inference: pairs and whole probes on a device."""

from __future__ import annotations

import copy
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from evenhand.arrays import Matrix, Rows
from evenhand.errors import EvenhandError, EvenhandWarning, FormatError, UsageError
from evenhand.models.device import model_errors, resolve_precision, torch_device, torch_dtype
from evenhand.models.encoders.transformer import Transformer, load_model
from evenhand.models.huggingface import load_tokenizer
from evenhand.models.nli.protocol import LABELS, Grid, Probabilities, label_order, pairwise_grids, require_equal_lengths
from evenhand.models.nli.tokenised_pairs import PairFormat, Ragged, infer_pair_format, length_limit, pair_ids
from evenhand.models.tokenizing import Ids, Tokenize, check_ids, sentence_tokenizer
from evenhand.words.probes import Points, Probe
from evenhand.words.probes.probe import Side

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


PREFIX = "hf:"
CHECKED_PAIRS = 256


class TransformerNLI:
    """A classifier of sentence pairs.

    Nothing is downloaded, no pickle is opened and no code of a model is run.

    What it does not tell you: whether the model is any good at inference. Check the controls of a probe first.

    Args:
        source: A folder, a Hub id in the local cache, a `transformers` model, which is copied, or a loaded
            `Transformer`, whose weights are shared and whose device is used.
        tokenizer: The tokenizer; required with a model object.
        labels: Order of the outputs. By default it is read from the configuration (`id2label`, `label2id`), and an
            error is raised if the names there do not determine it.
        device: auto, cpu or cuda.
        precision: Precision of the products; weights, sums and normalisation stay in float32. auto is float16 on a
            GPU, where probabilities differ from float32 by some thousandths at most, and float32 elsewhere. Values
            beyond float16 are an error, and with auto a warning: float32 is used where they occur. bfloat16 has no such
            limit and is eight times less exact.
        batch: Tokens in a batch.
        name: The name of the model; by default that of the folder.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | PreTrainedModel | Transformer,
        tokenizer: PreTrainedTokenizerBase | None = None,
        *,
        labels: Sequence[str] | None = None,
        device: str = "auto",
        precision: str = "auto",
        batch: int | None = None,
        name: str | None = None,
    ) -> None:
        self.transformer = source if isinstance(source, Transformer) else None
        where = torch_device(self.transformer.device if self.transformer else device)
        model, self.tokenizer, title = _resolve_source(source, tokenizer)
        self.name = name or title
        self.labels = self._label_order(model.config, labels)
        self.limit = length_limit(model, self.tokenizer)
        self.device_model = DeviceModel(model, where, precision, batch)

    def __repr__(self) -> str:
        kind, where = type(self.device_model.model).__name__, self.device_model.device
        return f"TransformerNLI({self.name!r}, {kind} on {where} in {self.device_model.precision})"

    def _label_order(self, config: PretrainedConfig, labels: Sequence[str] | None) -> tuple[str, ...]:
        if labels is None:
            return read_label_order(config, where=self.name)
        require_three_labels(config, where=self.name)
        label_order(labels)
        try:
            configured = read_label_order(config, where=self.name)
        except EvenhandError:  # unknown, which is why the caller names it
            configured = tuple(labels)
        if configured != tuple(labels):
            warnings.warn(
                f"{self.name}: read as {', '.join(labels)}, although its configuration says {', '.join(configured)}",
                EvenhandWarning,
                stacklevel=3,
            )
        return tuple(labels)

    @cached_property
    def tokenize(self) -> Tokenize:
        """A function from sentences to their ids, without special tokens."""
        return sentence_tokenizer(self.tokenizer)

    def out_of_vocabulary(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return the words that contain the tokenizer's unknown token."""
        unknown, texts = self.tokenizer.unk_token_id, tuple(words)
        return tuple(word for word, ids in zip(texts, self.tokenize(texts), strict=True) if unknown in ids)

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Probabilities:
        """Return the probabilities of each pair; pairs beyond the model's limit are truncated, with a warning."""
        require_equal_lengths(premises, hypotheses)
        if not len(premises):
            return Probabilities(np.empty((0, len(self.labels))))
        ids, types = pair_ids(self.tokenizer, premises, hypotheses, self.limit)
        matrix = self.device_model.probabilities(partial(predict_ids, self.device_model, ids, types))
        return Probabilities.named(matrix, self.labels, where=self.name + ", pair {row}")

    def grids(self, probe: Probe) -> Iterator[Grid]:
        """Yield every phrase of the probe; each sentence is tokenised once, and pairs are joined on the device.

        The ids are those of the tokenizer: joining is checked on a few hundred pairs, and if it does not reproduce the
        tokenizer, pairs are evaluated one by one.
        """
        layout = self.pair_format(probe)
        return evaluate(self, probe, layout) if layout else pairwise_grids(self, probe)

    def pair_format(self, probe: Probe) -> PairFormat | None:
        """Return the special tokens around the sentences of a probe; None if the tokenizer adds more than those."""
        indices = np.unique(np.linspace(0, probe.n_pairs - 1, CHECKED_PAIRS).astype(np.int64))
        texts = probe.texts(Points(*np.unravel_index(indices, probe.shape)))
        return infer_pair_format(self.tokenizer, self.tokenize, *texts)


def from_text(text: str, *, device: str = "auto", labels: Sequence[str] | None = None) -> TransformerNLI:
    """Load the model of an address: a folder or Hub id, with or without `hf:` before it."""
    source = text.removeprefix(PREFIX)
    if not source.strip():
        raise UsageError(f"{text!r} does not name a model", hint="write hf:./folder or hf:organisation/model")
    return TransformerNLI(Transformer.load(source, "nli-classifier", device=device), labels=labels)


def _resolve_source(
    source: str | os.PathLike[str] | PreTrainedModel | Transformer, tokenizer: PreTrainedTokenizerBase | None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, str]:
    """Return model, tokenizer and name."""
    if isinstance(source, Transformer):
        # The weights become float32 in place, which must not reach the other views of the same model.
        is_float32 = source.model.dtype == torch.float32
        model = source.share_weights().model if is_float32 else copy.deepcopy(source.model)
        return model, source.tokenizer, source.name
    if isinstance(source, (str, os.PathLike)):
        model = load_model(source, "nli-classifier").model
        return model, tokenizer or load_tokenizer(source), Path(source).name or str(source)
    if tokenizer is None or not hasattr(source, "config"):
        raise UsageError(
            f"a {type(source).__name__} alone is not an NLI model",
            hint="give a folder, or a transformers model and its tokenizer",
        )
    return copy.deepcopy(source), tokenizer, str(getattr(source, "name_or_path", "") or type(source).__name__)


STEMS = {"entail": "entailment", "neutral": "neutral", "contradict": "contradiction"}
STEM = re.compile("|".join(STEMS))
NEGATED = re.compile(f"(?:not|non|no)(?:{STEM.pattern})")  # "not_entailment", without punctuation
REMEDY = '`labels=("contradiction", "neutral", "entailment")`'


def read_label_order(config: PretrainedConfig, *, where: str) -> tuple[str, ...]:
    """Return the three labels in the order of the model's outputs.

    Published models use every order, and a wrong guess would silently exchange entailment and contradiction.

    Raises:
        FormatError: If the names of the labels do not determine the order.
    """
    require_three_labels(config, where=where)
    by_index = dict(getattr(config, "id2label", None) or {})
    by_name = {int(index): name for name, index in (getattr(config, "label2id", None) or {}).items()}
    orders = [order for order in (_order(by_index), _order(by_name)) if order]
    if len(set(orders)) == 1:
        return orders[0]
    if orders:
        problem = f"id2label says {', '.join(orders[0])}, label2id says {', '.join(orders[1])}"
    else:
        problem = f"its labels are {', '.join(map(str, by_index.values()))}"
    raise FormatError(
        f"{where}: the order of its labels is unknown: {problem}",
        hint=f"look it up in the model card and pass {REMEDY}",
    )


def require_three_labels(config: PretrainedConfig, *, where: str) -> None:
    """Raise `FormatError` for a classifier with other than three outputs."""
    count = int(getattr(config, "num_labels", 0))
    if count == len(LABELS):
        return
    names = ", ".join(map(str, (getattr(config, "id2label", None) or {}).values()))
    reason = "it does not distinguish neutral from contradiction" if count == 2 else ""
    raise FormatError(
        f"{where}: the model has {count} labels ({names}), not {len(LABELS)}" + (f": {reason}" if reason else ""),
        hint=f"use a model trained on {', '.join(LABELS)}, such as on SNLI or MultiNLI",
    )


def _order(names: Mapping[int, str]) -> tuple[str, ...] | None:
    """Return the labels by index, if each of the three is named exactly once."""
    labels = {int(index): meaning(str(name)) for index, name in names.items()}
    order = tuple(labels.get(index, "") for index in range(len(LABELS)))
    return order if len(labels) == len(LABELS) and sorted(order) == sorted(LABELS) else None


def meaning(name: str) -> str:
    """Return the label that a name means, or "": "LABEL_2: Entailment" is entailment, "not_entailment" is not.

    >>> meaning("MNLI-CONTRADICTION"), meaning("non-entailment"), meaning("LABEL_0")
    ('contradiction', '', '')
    """
    letters = re.sub(r"[^a-z]", "", name.lower())
    stems = set(STEM.findall(letters))
    return STEMS[stems.pop()] if len(stems) == 1 and not NEGATED.search(letters) else ""


# Tokens in a batch. On a GPU, a batch must take longer than launching its hundreds of kernels, about 10 ms; on a CPU,
# it should stay in the cache.
TOKENS = {"cuda": 65_536, "cpu": 4_096}
_Item = TypeVar("_Item")
MOST_ROWS = 65_535  # the attention kernels of CUDA count the rows of a batch in 16 bits


class DeviceModel:
    """A model that maps ids to probabilities, in the order of the model's own labels."""

    def __init__(self, model: PreTrainedModel, device: torch.device, precision: str, tokens: int | None) -> None:
        if tokens is not None and tokens < 1:
            raise UsageError(f"batch must be at least 1 token, got {tokens}")
        self.device, self.may_widen = device, precision == "auto" and device.type == "cuda"
        self.precision = "float16" if self.may_widen else resolve_precision(precision, device)
        self.tokens = tokens or TOKENS.get(device.type, TOKENS["cpu"])
        self.model = model.eval().requires_grad_(False).to(device=device, dtype=torch.float32)
        if self.precision != "float32":
            keep_head_in_float32(self.model, outputs=len(LABELS))
        self.has_warned = False

    def probabilities(self, compute: Callable[[str], Matrix]) -> Matrix:
        """Return what `compute` returns in the model's precision, or in float32 where the automatic one overflowed.

        The precision of the model stays, so that its answers do not depend on what was asked before.
        """
        answers = compute(self.precision)
        if self.precision != "float16" or np.isfinite(answers).all():
            return answers
        problem = f"{type(self.model).__name__} has values beyond float16"
        if not self.may_widen:
            raise EvenhandError(problem, hint="use precision='float32', or 'bfloat16'")
        if not self.has_warned:
            warnings.warn(f"{problem}: float32 is used there, which is slower", EvenhandWarning, stacklevel=2)
        self.has_warned = True
        return compute("float32")

    def check_ids(self, ids: Rows) -> None:
        """Raise `FormatError` for ids beyond the embedding table."""
        check_ids(ids, self.model, type(self.model).__name__)

    def __call__(self, ids: torch.Tensor, types: torch.Tensor | None, precision: str) -> torch.Tensor:
        """Return the softmax in float32, one row per row of ids; rows have the same length and need no mask."""
        more = {} if types is None else {"token_type_ids": types}
        half = precision != "float32"
        products = torch.autocast(self.device.type, torch_dtype(precision) if half else None, enabled=half)
        try:
            with model_errors(self.model), products:
                logits = self.model(input_ids=ids, **more).logits
        except torch.cuda.OutOfMemoryError as error:
            raise EvenhandError(
                f"{self.device} has too little memory for {ids.numel():,} tokens at once",
                hint=f"use a smaller batch={max(1, self.tokens // 4)}, or device='cpu'",
            ) from error
        if logits.shape != (len(ids), len(LABELS)):
            raise FormatError(
                f"{type(self.model).__name__} returned logits of shape {tuple(logits.shape)} for {len(ids)} pairs"
            )
        return logits.float().softmax(-1)


class Float32Linear(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A linear layer whose product stays in float32 where others are in half precision."""

    def __init__(self, layer: torch.nn.Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Apply the layer outside autocast."""
        with torch.autocast(inputs.device.type, enabled=False):
            return self.layer(inputs.float())


def keep_head_in_float32(model: torch.nn.Module, *, outputs: int) -> None:
    """Wrap the last linear layer with so many outputs: rounded logits have ties, which always favour the same label."""
    heads = [
        name
        for name, layer in model.named_modules()
        if type(layer) is torch.nn.Linear and layer.out_features == outputs
    ]
    for name in heads[-1:]:
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, Float32Linear(model.get_submodule(name)))


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
    device_model = model.device_model
    matrix = device_model.probabilities(partial(predict_block, device_model, block, layout, probe))
    return Probabilities.named(matrix, model.labels, where=model.name + ", pair {row}", first=start)


def predict_block(model: DeviceModel, block: PhraseBlock, layout: PairFormat, probe: Probe, precision: str) -> Matrix:
    """Return the probabilities of all pairs of a block, in order, with the columns of the model."""
    _, premises, hypotheses = probe.shape
    for side in (block.first, block.second):
        model.check_ids(side.ids)

    def put(array: Rows) -> torch.Tensor:
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
            answers[pairs[:, 0]] = model(ids[index], types, precision)
        return np.asarray(answers.cpu().numpy())


def predict_ids(model: DeviceModel, ids: list[Ids], types: list[Ids] | None, precision: str) -> Matrix:
    """Return the probabilities of single pairs, in order, with the columns of the model."""
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
            answers[pairs] = model(batch, kind, precision).cpu().numpy()
    return answers


def prefetch(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield the items, computing the next one in another thread while the caller uses this one."""
    source = iter(items)
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, source, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, source, None)
            yield item


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
