"""Any sequence classifier of `transformers` that was trained on natural language inference."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.errors import EvenhandError, EvenhandWarning, UsageError
from evenhand.models.device import resolve_precision, torch_device
from evenhand.models.huggingface import load_model, load_tokenizer
from evenhand.models.nli.protocol import Grid, Probabilities, label_order, pairwise_grids, require_equal_lengths
from evenhand.models.nli.transformer.device_model import Placed
from evenhand.models.nli.transformer.evaluate import evaluate, pair_answers
from evenhand.models.nli.transformer.labels import labels_of, refuse_other_counts
from evenhand.models.nli.transformer.token_ids import Frame, frame_of, limit_of, pair_ids, sentence_pieces
from evenhand.words.probes import Points, Probe

PREFIX = "hf:"
CHECKED_PAIRS = 256


class TransformerNLI:
    """A classifier of sentence pairs from a folder, a model id in the local cache, or handed in with its tokenizer.

    Nothing is downloaded, no pickle is opened, no code of a model is run. The meaning of the outputs is read from the
    configuration (`id2label`, `label2id`) and refused where their names do not tell it; `labels` says it instead.
    `device` is auto, cpu or cuda; `batch` is how many tokens are worked on at once. A model handed in is copied.
    `precision` auto is bfloat16 on a GPU and float32 elsewhere; bfloat16 is meant for the products only, with exact
    weights, so that scores stay those of float32; float16 is faster still, but overflows in some models, which is then
    an error.

    What it does not tell you: whether the model is any good at inference. Look at the controls of a probe first.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Any,
        tokenizer: Any = None,
        *,
        labels: Sequence[str] | None = None,
        device: str = "auto",
        precision: str = "auto",
        batch: int | None = None,
        name: str | None = None,
    ) -> None:
        chosen = torch_device(device)
        model, self.tokenizer, title = _given(source, tokenizer)
        self.name = name or title
        self.labels = self._order(model.config, labels)
        self.limit = limit_of(model, self.tokenizer)
        self.placed = Placed(model, chosen, resolve_precision(precision, chosen), batch)

    def __repr__(self) -> str:
        kind, where = type(self.placed.model).__name__, self.placed.device
        return f"TransformerNLI({self.name!r}, {kind} on {where} in {self.placed.precision})"

    def _order(self, config: Any, labels: Sequence[str] | None) -> tuple[str, ...]:
        if labels is None:
            return labels_of(config, where=self.name)
        refuse_other_counts(config, where=self.name)
        label_order(labels)
        try:
            told = labels_of(config, where=self.name)
        except EvenhandError:  # it does not tell, which is why somebody says it
            told = tuple(labels)
        if told != tuple(labels):
            warnings.warn(
                f"{self.name}: read as {', '.join(labels)}, though its configuration says {', '.join(told)}",
                EvenhandWarning,
                stacklevel=3,
            )
        return tuple(labels)

    @cached_property
    def pieces(self) -> Any:
        """A function from sentences to their ids."""
        return sentence_pieces(self.tokenizer)

    def out_of_vocabulary(self, words: Iterable[str]) -> tuple[str, ...]:
        """Words that the tokenizer can only write with its token for the unknown."""
        unknown, given = self.tokenizer.unk_token_id, tuple(words)
        return tuple(word for word, ids in zip(given, self.pieces(given), strict=True) if unknown in ids)

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Probabilities:
        """Pair by pair, in batches of equal length; pairs beyond the model's limit are cut, with a warning."""
        require_equal_lengths(premises, hypotheses)
        if not len(premises):
            return Probabilities(np.empty((0, len(self.labels))))
        ids, types = pair_ids(self.tokenizer, premises, hypotheses, self.limit)
        answers = pair_answers(self.placed, ids, types)
        found: Probabilities = Probabilities.named(answers, self.labels, where=self.name + ", pair {row}")
        return found

    def grids(self, probe: Probe) -> Iterator[Grid]:
        """Every phrase of the probe, each sentence cut into pieces once and pairs joined on the device.

        The ids are those of the tokenizer: where joining does not reproduce it on a check of a few hundred pairs, the
        pairs are asked one by one.
        """
        frame = self.frame(probe)
        return evaluate(self, probe, frame) if frame else pairwise_grids(self, probe)

    def frame(self, probe: Probe) -> Frame | None:
        """What the tokenizer writes around the sentences of a probe; None where it does more than that."""
        checked = np.unique(np.linspace(0, probe.n_pairs - 1, CHECKED_PAIRS).astype(np.int64))
        return frame_of(self.tokenizer, self.pieces, *probe.texts(Points(*np.unravel_index(checked, probe.shape))))


def from_text(text: str, **options: Any) -> TransformerNLI:
    """The model that a text means: `hf:` before a folder or an id, or the folder itself."""
    place = text.removeprefix(PREFIX)
    if not place.strip():
        raise UsageError(f"{text!r} names no model", hint="write hf:./folder or hf:organisation/model")
    return TransformerNLI(place, **options)


def _given(source: Any, tokenizer: Any) -> tuple[Any, Any, str]:
    """Model, tokenizer and a name."""
    if isinstance(source, (str, os.PathLike)):
        model = load_model(source, "nli-classifier").model
        return model, tokenizer or load_tokenizer(source), Path(source).name or str(source)
    if tokenizer is None or not hasattr(source, "config"):
        raise UsageError(
            f"a {type(source).__name__} alone is no NLI model",
            hint="give a folder, or a transformers model and its tokenizer",
        )
    return copy.deepcopy(source), tokenizer, str(getattr(source, "name_or_path", "") or type(source).__name__)
