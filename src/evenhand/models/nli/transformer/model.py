"""Sequence classifiers of `transformers` that were trained on natural language inference."""

from __future__ import annotations

import copy
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenhand.errors import EvenhandError, EvenhandWarning, FormatError, UsageError
from evenhand.models.device import resolve_precision, torch_device
from evenhand.models.encoders.transformer import Transformer, load_model
from evenhand.models.huggingface import load_tokenizer
from evenhand.models.nli.protocol import LABELS, Grid, Probabilities, label_order, pairwise_grids, require_equal_lengths
from evenhand.models.nli.transformer.device_model import DeviceModel, evaluate, predict_ids
from evenhand.models.nli.transformer.token_ids import (
    PairFormat,
    Tokenize,
    Tokenizer,
    infer_pair_format,
    length_limit,
    pair_ids,
    sentence_tokenizer,
)
from evenhand.words.probes import Points, Probe

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


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
        precision: auto is bfloat16 on a GPU and float32 elsewhere. bfloat16 applies to products only, with exact
            weights, so that scores match float32. float16 is faster, but overflows in some models, which raises an
            error.
        batch: Tokens in a batch.
        name: The name of the model; by default that of the folder.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | PreTrainedModel | Transformer,
        tokenizer: Tokenizer = None,
        *,
        labels: Sequence[str] | None = None,
        device: str = "auto",
        precision: str = "auto",
        batch: int | None = None,
        name: str | None = None,
    ) -> None:
        self.transformer = source if isinstance(source, Transformer) else None
        where = torch_device(self.transformer.device if self.transformer else device)
        model, self.tokenizer, title = _resolve_source(source, tokenizer, precision)
        self.name = name or title
        self.labels = self._label_order(model.config, labels)
        self.limit = length_limit(model, self.tokenizer)
        self.device_model = DeviceModel(model, where, resolve_precision(precision, where), batch)

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
        matrix = predict_ids(self.device_model, ids, types)
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
    source: str | os.PathLike[str] | PreTrainedModel | Transformer, tokenizer: Tokenizer, precision: str
) -> tuple[PreTrainedModel, Tokenizer, str]:
    """Return model, tokenizer and name."""
    if isinstance(source, Transformer):
        # Half precision converts the weights in place, which must not reach the other views of the same model.
        model = copy.deepcopy(source.model) if precision == "float16" else source.share_weights().model
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
REMEDY = 'labels=("contradiction", "neutral", "entailment"), or --labels c,n,e (nli eval: --outputs)'


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
