"""The `sentences` view: a vector for each text, by layer.

Transformers give every layer in one pass, with the pooling stated. Word vectors give the mean of the words of a text.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix, Rows, unit_rows
from evenhand.errors import (
    DegenerateError,
    EvenhandWarning,
    FormatError,
    UsageError,
    VocabularyError,
    few,
    require,
    unknown_name,
)
from evenhand.models.device import model_errors, pad, run_in_batches, tokens_at_once
from evenhand.models.encoders.transformer import Transformer
from evenhand.models.model_files import read_json, read_json_value
from evenhand.models.shared_beginnings import LONGEST_ROW, plant, reads_trees, tree_inputs
from evenhand.models.tokenizing import check_texts, encode
from evenhand.models.vectors import Vectors

if TYPE_CHECKING:
    import torch
    from torch import Tensor


Pooling = Literal["mean", "mean-no-special", "cls", "last", "max"]
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
KeepStates = Callable[[Sequence[int], Iterable["torch.Tensor"]], None]
"""Takes the numbers of texts and their token states by layer, (texts, longest, dimensions) each."""


@runtime_checkable
class SentenceEncoder(Protocol):
    """A model that gives each text a vector.

    Attributes:
        name: for reports.
        layers: number of layers above the input; layer 0 is the input embedding, layer `layers` the last one.
        pooling: how `encode` joins the token vectors by default: the model's own way where its folder says, else the
            last token of a causal model and the mean over all tokens of any other.
    """

    name: str
    layers: int
    pooling: Pooling

    def encode(
        self,
        texts: Sequence[str],
        *,
        layer: int | None = None,
        pooling: Pooling | None = None,
        tokens: int | None = None,
    ) -> Matrix:
        """Return the vector of each text, one row each.

        The result does not depend on the order of the texts, nor, up to rounding, on the batches.

        Args:
            texts: the texts.
            layer: which layer to read; the last one by default. Negative numbers count from the last.
            pooling: how token vectors are joined; the attribute `pooling` by default.
            tokens: the largest number of tokens in a batch.
        """

    def encode_layers(
        self, texts: Sequence[str], *, pooling: Pooling | None = None, tokens: int | None = None
    ) -> NDArray[np.floating]:
        """Return the vectors of all layers from one pass, (layers + 1, texts, dimensions)."""


@runtime_checkable
class ReportsUnknownWords(Protocol):
    """An encoder that can say which words of a text it cannot read."""

    def unknown_words(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the unknown words of each text: those outside the vocabulary, or read as the unknown token."""


def unknown_words(encoder: SentenceEncoder, texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the words of each text that an encoder cannot read; none where it does not say."""
    if isinstance(encoder, ReportsUnknownWords):
        return encoder.unknown_words(texts)
    return [()] * len(texts)


def layer_number(layer: int | None, layers: int) -> int:
    """Return the number of a layer from 0 to `layers`; None is the last one, negative numbers count from it."""
    index = layers if layer is None else layer + layers + 1 if layer < 0 else layer
    if not 0 <= index <= layers:
        raise UsageError(f"layer {layer} does not exist", hint=f"use a layer from 0 to {layers}")
    return index


# Settings of 1_Pooling/config.json of sentence-transformers, and the same in its later form.
POOLING_MODES: Mapping[str, Pooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
}
POOLING_NAMES: Mapping[str, Pooling] = {"cls": "cls", "mean": "mean", "max": "max", "lasttoken": "last"}


class SentenceModules(NamedTuple):
    """How a sentence-transformers folder turns token vectors into a sentence vector."""

    pooling: Pooling | None
    normalise: bool


class TransformerSentences:
    """The sentence vectors of a transformer.

    Texts longer than the model's window are refused rather than cut.

    Args:
        transformer: the model.
        pooling: the default pooling. None is what a sentence-transformers folder states; else the last token of a
            causal model, the only one that has read the whole text, and the mean over all tokens of any other model.
        normalise: whether vectors of the last layer with the default pooling have unit length; as the folder states by
            default.
    """

    def __init__(
        self, transformer: Transformer, *, pooling: Pooling | None = None, normalise: bool | None = None
    ) -> None:
        self.transformer = transformer
        self.name = transformer.name
        stated = read_modules(transformer.source) if transformer.source else SentenceModules(None, False)
        usual: Pooling = "last" if transformer.kind == "causal-lm" else "mean"
        self.pooling: Pooling = pooling or stated.pooling or usual
        self.normalise = stated.normalise if normalise is None else normalise
        config = transformer.model.config
        text_config = config.get_text_config() if hasattr(config, "get_text_config") else config
        self.layers = int(text_config.num_hidden_layers)

    def encode(
        self,
        texts: Sequence[str],
        *,
        layer: int | None = None,
        pooling: Pooling | None = None,
        tokens: int | None = None,
    ) -> Matrix:
        """Return the vector of each text; see `SentenceEncoder`."""
        vectors: Matrix = self._encode(texts, [layer_number(layer, self.layers)], pooling, tokens)[0]
        return vectors

    def encode_layers(
        self, texts: Sequence[str], *, pooling: Pooling | None = None, tokens: int | None = None
    ) -> NDArray[np.floating]:
        """Return the vectors of all layers; see `SentenceEncoder`.

        Raises:
            FormatError: If the layers have different widths; `encode` reads them one by one.
        """
        layers = self._encode(texts, list(range(self.layers + 1)), pooling, tokens)
        widths = sorted({layer.shape[1] for layer in layers})
        if len(widths) > 1:
            raise FormatError(
                f"{self.name}: the layers have different widths ({', '.join(map(str, widths))})",
                hint="read one layer at a time: encode(texts, layer=N)",
            )
        return np.stack(layers)

    def unknown_words(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the parts of each text that the tokenizer reads as its unknown token."""
        tokenizer = self.transformer.tokenizer
        unknown = tokenizer.unk_token_id
        if (
            unknown is None
            or not tokenizer.is_fast
            or tokenizer.unk_token in (tokenizer.bos_token, tokenizer.eos_token)
        ):
            return [()] * len(texts)
        encoded = encode(tokenizer, list(check_texts(texts)), return_offsets_mapping=True, verbose=False)
        return [
            tuple(text[start:end] for id, (start, end) in zip(ids, spans, strict=True) if id == unknown)
            for text, ids, spans in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True)
        ]

    def _encode(
        self, texts: Sequence[str], layers: list[int], pooling: Pooling | None, tokens: int | None
    ) -> list[Matrix]:
        torch = require("torch", extra="models")
        how = pooling or self.pooling
        if how not in POOLINGS:
            raise unknown_name("pooling", how, POOLINGS)
        texts = list(check_texts(texts))
        encoded = encode(self.transformer.tokenizer, texts, return_special_tokens_mask=True, verbose=False)
        ids: list[list[int]] = encoded["input_ids"]
        special: list[list[int]] = encoded["special_tokens_mask"]
        lengths = [len(row) for row in ids]
        self._check_lengths(lengths)
        if how == "mean-no-special" and (bare := [row for row, flags in enumerate(special) if all(flags)]):
            raise UsageError(f"text {bare[0]} has special tokens only", hint="leave empty texts out, or use mean")
        vectors: list[Matrix] = [np.zeros((len(ids), 0), dtype=np.float32)] * len(layers)

        def keep(rows: Sequence[int], states: Iterable[Tensor]) -> None:
            masks = torch.zeros((len(rows), max(lengths[row] for row in rows)), device=self.transformer.device)
            for place, row in enumerate(rows):
                counted = [how != "mean-no-special" or not flag for flag in special[row]]
                masks[place, : lengths[row]] = torch.tensor(counted, dtype=torch.float32)
            for number, state in enumerate(states):
                if not vectors[number].shape[1]:
                    vectors[number] = np.zeros((len(ids), state.shape[-1]), dtype=np.float32)
                vectors[number][rows] = pool(state.float(), masks, how).cpu().numpy()

        self._read(ids, layers, tokens or tokens_at_once(self.transformer.device), keep)
        if not all(np.isfinite(layer).all() for layer in vectors):
            raise DegenerateError(f"{self.name}: a sentence vector contains NaN or infinity", hint="check the weights")
        if self.normalise and how == self.pooling and layers[-1] == self.layers:
            vectors[-1] = unit_rows(vectors[-1]).astype(np.float32)
        return vectors

    def _read(self, ids: list[list[int]], layers: list[int], tokens: int, keep: KeepStates) -> None:
        """Pass the states of all texts on in batches; a causal model reads what several texts begin with once."""
        model, device = self.transformer.model, self.transformer.device

        def compute(rows: Rows) -> None:
            keep(rows.tolist(), self._hidden_states(self.transformer.padded([ids[row] for row in rows]), layers))

        def compute_trees(rows: Rows) -> None:
            chosen = [trees[row] for row in rows]
            states = self._hidden_states(tree_inputs(chosen, model.dtype, device), layers)
            paths, _ = pad([path for tree in chosen for path in tree.paths.values()])
            owners = np.repeat(np.arange(len(chosen)), [len(tree.paths) for tree in chosen])[:, None]
            keep([text for tree in chosen for text in tree.paths], (state[owners, paths] for state in states))

        if self.transformer.kind != "causal-lm" or not ids or not reads_trees(model, max(map(len, ids))):
            run_in_batches([len(row) for row in ids], compute, tokens=tokens)
            return
        self.transformer.check_ids(np.concatenate(ids))
        trees = plant([np.array(row, dtype=np.int64) for row in ids], longest=min(tokens, LONGEST_ROW))
        run_in_batches([len(tree.ids) for tree in trees], compute_trees, tokens=tokens, unit="groups of texts")

    def _hidden_states(self, inputs: dict[str, torch.Tensor], layers: list[int]) -> list[torch.Tensor]:
        """Return the states of the chosen layers, (rows, longest, dimensions) each; the body runs without its head."""
        torch = require("torch", extra="models")
        model = self.transformer.model
        body = model.get_encoder() if getattr(model.config, "is_encoder_decoder", False) else model.base_model
        with torch.inference_mode(), model_errors(model):
            output = body(**inputs, output_hidden_states=True)
        states = getattr(output, "hidden_states", None)
        if states is None or len(states) != self.layers + 1:
            raise FormatError(
                f"{self.name}: {type(body).__name__} does not return the states of its {self.layers} layers",
                hint="use an encoder or a language model of transformers",
            )
        return [states[layer] for layer in layers]

    def _check_lengths(self, lengths: list[int]) -> None:
        limit = self.transformer.window + self.transformer.reserved  # no state stands behind a reserved token
        self.transformer.check_lengths(lengths, limit)
        if lengths and min(lengths) == 0:
            raise UsageError(f"text {lengths.index(0)} has no tokens", hint="leave empty texts out")


def pool(states: torch.Tensor, mask: torch.Tensor, how: Pooling) -> torch.Tensor:
    """Return one vector for each row of token states.

    Args:
        states: (rows, tokens, dimensions).
        mask: 1 for tokens that count, (rows, tokens).
        how: the mean or the maximum of the tokens that count, the first token, or the last token that counts.
    """
    import torch

    if how == "cls":
        return states[:, 0]
    if how == "last":
        positions = torch.arange(mask.shape[1], device=mask.device)
        return states[torch.arange(len(states), device=states.device), (mask * positions).argmax(dim=1)]
    if how == "max":
        return states.masked_fill(mask[..., None] == 0, float("-inf")).amax(dim=1)
    return (states * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)


def read_modules(folder: Path) -> SentenceModules:
    """Return the pooling and normalisation of a sentence-transformers folder, or of the folder around a transformer.

    Modules that cannot be applied, such as a dense layer, poolings that are not offered, and a prompt before every text
    raise a warning.
    """
    root = next((place for place in (folder, folder.parent) if (place / "modules.json").is_file()), None)
    listed = read_json_value(root / "modules.json") if root else []
    modules = [module for module in listed if isinstance(module, dict)] if isinstance(listed, list) else []
    pooling: Pooling | None = None
    others = []
    for module in modules:
        name, path = str(module.get("type", "")).rpartition(".")[2], str(module.get("path", ""))
        if name == "Pooling" and root is not None and ".." not in path:
            pooling = _read_pooling(root / path / "config.json")
        elif name not in ("Transformer", "Normalize", "Pooling"):
            others.append(name)
    if others:
        text = f"{folder}: the sentence vectors are those before its module {', '.join(others)}, which is not applied"
        warnings.warn(text, EvenhandWarning, stacklevel=3)
    if root is not None and (prompt := _default_prompt(root)):
        text = f"{folder}: sentence-transformers puts {prompt!r} before every text; here texts are read as they are"
        warnings.warn(text, EvenhandWarning, stacklevel=3)
    return SentenceModules(pooling, any(str(module.get("type", "")).endswith(".Normalize") for module in modules))


def _default_prompt(root: Path) -> str:
    file = root / "config_sentence_transformers.json"
    settings = read_json(file) if file.is_file() else {}
    prompts = settings.get("prompts")
    return str(prompts.get(settings.get("default_prompt_name")) or "") if isinstance(prompts, dict) else ""


def _read_pooling(path: Path) -> Pooling | None:
    settings = read_json(path) if os.path.isfile(path) else {}  # noqa: PTH113  does not raise for a long name
    active = [name for name, value in settings.items() if name.startswith("pooling_mode_") and value is True]
    named = settings.get("pooling_mode")
    known = POOLING_NAMES.get(named) if isinstance(named, str) else None
    if len(active) == 1:
        known = POOLING_MODES.get(active[0])
    if known is None and (active or named):
        text = f"{path}: the pooling {', '.join(active) or named} is not offered; the mean over all tokens is used"
        warnings.warn(text, EvenhandWarning, stacklevel=4)
    return known


WORD = re.compile(r"\w+(?:['’-]\w+)*")


class AveragedVectors:
    """Word vectors as a sentence encoder.

    A text is split into words, without punctuation. Words outside the vocabulary are left out; `unknown_words` names
    them, and a text without any known word is refused. The only layer is layer 0.

    Args:
        vectors: the word vectors.
    """

    layers = 0
    pooling: Pooling = "mean"

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors
        self.name = vectors.name
        self._rows: dict[str, int] = {}  # of the words looked up so far; -1 for unknown words

    def encode(
        self,
        texts: Sequence[str],
        *,
        layer: int | None = None,
        pooling: Pooling | None = None,
        tokens: int | None = None,
    ) -> Matrix:
        """Return the vector of each text; see `SentenceEncoder`.

        Words have no order here, so that `cls` and `last` are refused.

        Raises:
            VocabularyError: If no word of a text is in the vocabulary.
        """
        layer_number(layer, self.layers)
        how = pooling or self.pooling
        if how not in POOLINGS:
            raise unknown_name("pooling", how, POOLINGS)
        if how in ("cls", "last"):
            raise UsageError(f"averaged word vectors have no pooling {how!r}", hint="use mean or max")
        vectors = np.empty((len(texts), self.vectors.dim), dtype=np.float32)
        for number, text in enumerate(texts):
            rows = [row for row in map(self._row, words_of(text, number)) if row >= 0]
            if not rows:
                raise VocabularyError(
                    f"no word of text {number} is in the vocabulary of {self.name}: {text[:60]!r}",
                    hint="leave the text out, or use vectors with a larger vocabulary",
                )
            found = self.vectors.matrix[rows].astype(np.float64)
            vectors[number] = found.max(axis=0) if how == "max" else found.mean(axis=0)
        return vectors

    def encode_layers(
        self, texts: Sequence[str], *, pooling: Pooling | None = None, tokens: int | None = None
    ) -> NDArray[np.floating]:
        """Return the vectors of the only layer, (1, texts, dimensions)."""
        layers: NDArray[np.floating] = self.encode(texts, pooling=pooling)[None]
        return layers

    def unknown_words(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the words of each text that are not in the vocabulary."""
        return [
            tuple(word for word in words_of(text, number) if self._row(word) < 0) for number, text in enumerate(texts)
        ]

    def _row(self, word: str) -> int:
        if word not in self._rows:
            rows, _ = self.vectors.locate([word])
            self._rows[word] = int(rows[0]) if len(rows) else -1
        return self._rows[word]


def words_of(text: str, number: int = 0) -> list[str]:
    """Return the words of a text, without punctuation."""
    if not isinstance(text, str):
        raise UsageError(f"item {number} is not a text: {few([str(text)])}", hint="pass a list of texts")
    return WORD.findall(text)
