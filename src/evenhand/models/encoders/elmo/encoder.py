"""`Elmo`: a loaded model that turns sentences of words into vectors by layer, with optional maps inside; its views."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix, Rows
from evenhand.errors import DegenerateError, UsageError, VocabularyError, counted, require, unknown_name
from evenhand.models.device import resolve_device, resolve_precision, run_in_batches, tokens_at_once, torch_dtype
from evenhand.models.encoders.elmo.files import (
    SENTENCE_END,
    SENTENCE_START,
    ElmoOptions,
    character_ids,
    read_model,
    save_model,
)
from evenhand.models.encoders.sentences import POOLINGS, Pooling, layer_number, pool
from evenhand.models.tokenizing import check_texts, split_words
from evenhand.models.vectors import Vectors

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from evenhand.models.encoders.elmo.network import ElmoNetwork


EMBEDDINGS = "embeddings"
WORDS_AT_ONCE = {"cuda": 8_192, "cpu": 256}  # a word takes features x 50 numbers in the widest convolution

Sentence = Sequence[str]


class RowMap(Protocol):
    """A function of rows of a tensor, such as a `VectorMap`.

    A map with a true attribute `needs_words` is also given the word of each row, at the site `embeddings`.
    """

    def __call__(self, x: torch.Tensor, /) -> torch.Tensor:
        """Return the mapped rows."""


class WordwiseMap(Protocol):
    """A function of rows of a tensor and of their words."""

    def __call__(self, x: torch.Tensor, words: Sequence[str], /) -> torch.Tensor:
        """Return the mapped rows."""


@dataclass(frozen=True)
class TokenTable:
    """Token vectors of distinct words; the last two rows are the boundaries of sentences."""

    rows: Mapping[str, int]
    vectors: torch.Tensor

    def __call__(self, sentence: Sentence) -> list[int]:
        """Return the rows of a sentence's words."""
        return [self.rows[word] for word in sentence]


class Elmo:
    """An ELMo model on a device.

    Args:
        network: the network.
        name: for reports.
        maps: maps by site. `embeddings` changes the token vectors before the biLSTM, so that all layers feel it; the
            boundaries of sentences are left alone. `layer:0`, `layer:1` ... change a layer after the whole pass, both
            directions together.
    """

    def __init__(self, network: ElmoNetwork, *, name: str = "elmo", maps: Mapping[str, RowMap] | None = None) -> None:
        self.network, self.name, self.maps = network.eval(), name, dict(maps or {})
        self.options: ElmoOptions = network.options
        for site, change in self.maps.items():
            if site not in self.sites:
                raise unknown_name("site", site, self.sites)
            if site != EMBEDDINGS and _needs_words(change):
                raise UsageError(
                    f"the map at {site} treats words differently, and vectors of a layer belong to contexts",
                    hint=f"use the site {EMBEDDINGS}",
                )

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: str = "auto",
        precision: str = "float32",
        maps: Mapping[str, RowMap] | None = None,
    ) -> Elmo:
        """Load a model from a folder, or from its options or weights file.

        Args:
            path: a folder with options and weights, in the published layout or as `save` writes them.
            device: auto, cpu, cuda or cuda:N.
            precision: float32, or bfloat16 on a GPU.
            maps: see the class.
        """
        torch = require("torch", extra="models")
        from evenhand.models.encoders.elmo.network import ElmoNetwork

        options, arrays, files = read_model(Path(path))
        target = resolve_device(device)
        dtype = torch_dtype(resolve_precision(precision, target, supported=("float32", "bfloat16")))
        network = ElmoNetwork(options)
        network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
        folder = files.options.parent
        return cls(network.to(device=target, dtype=dtype), name=folder.name, maps=maps)

    def save(self, folder: str | Path, *, dtype: str = "float32", **about: object) -> Path:
        """Write options.json and weights.safetensors; maps are not part of the weights and are not saved."""
        return save_model(Path(folder), self.options, self._arrays(), dtype=dtype, about=about)

    def with_maps(self, maps: Mapping[str, RowMap]) -> Elmo:
        """Return the same network with other maps."""
        return Elmo(self.network, name=self.name, maps=maps)

    @property
    def layers(self) -> int:
        """Number of biLSTM layers; layer 0 holds the token vectors twice."""
        return self.options.layers

    @property
    def dim(self) -> int:
        """Dimensions of a layer."""
        return self.options.dim

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites of maps."""
        return (EMBEDDINGS, *(f"layer:{number}" for number in range(self.layers + 1)))

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        device: torch.device = self.network.characters.embedding.device
        return device

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the weights and the maps."""
        maps = (f"{site} {digest}".encode() for site, digest in sorted(self.map_digests.items()))
        return _sha256(chain(self._weight_bytes(), maps))

    @cached_property
    def weights_digest(self) -> str:
        """SHA-256 of the weights alone."""
        return _sha256(self._weight_bytes())

    @property
    def map_digests(self) -> dict[str, str]:
        """The digest of each map, by site."""
        digests = {}
        for site, change in self.maps.items():
            if not hasattr(change, "digest"):
                raise UsageError(f"the map at {site} has no digest", hint="use a VectorMap")
            digests[site] = str(change.digest)
        return digests

    def _weight_bytes(self) -> Iterator[bytes]:
        for name, array in sorted(self._arrays().items()):
            yield name.encode() + np.ascontiguousarray(array).tobytes()

    def token_table(self, words: Iterable[str]) -> TokenTable:
        """Return the token vectors of distinct words; characters are read once per word."""
        torch = require("torch", extra="models")
        distinct = sorted(set(words), key=lambda word: (len(word), word))  # short words take fewer positions
        rows = {word: row for row, word in enumerate(distinct)}
        ids = character_ids([*distinct, SENTENCE_START, SENTENCE_END], self.options.longest_word)
        step = WORDS_AT_ONCE.get(self.device.type, WORDS_AT_ONCE["cpu"])
        with torch.inference_mode():
            parts = [
                self.network.characters(torch.as_tensor(ids[start : start + step], device=self.device).long())
                for start in range(0, len(ids), step)
            ]
            vectors = torch.cat(parts)
            if distinct and EMBEDDINGS in self.maps:
                vectors = torch.cat([_mapped(self.maps[EMBEDDINGS], vectors[:-2], distinct), vectors[-2:]])
        return TokenTable(rows, vectors)

    def batch_layers(self, table: TokenTable, rows: torch.Tensor, lengths: torch.Tensor) -> list[torch.Tensor]:
        """Return each layer's (sentences, tokens, dim) vectors for a batch, without the boundaries.

        Args:
            table: token vectors.
            rows: (sentences, tokens) rows of the table; what follows a sentence's last word is ignored.
            lengths: number of words of each sentence, at least 1.
        """
        inputs = table.vectors[_with_boundaries(rows, lengths, len(table.vectors))]
        layers = [layer[:, 1:-1] for layer in self.network(inputs, lengths + 2)]
        for number in range(len(layers)):
            if change := self.maps.get(f"layer:{number}"):
                layers[number] = change(layers[number])
        return layers

    def run(
        self,
        sentences: Sequence[Sentence],
        consume: Callable[[Rows, list[torch.Tensor], torch.Tensor], None],
        *,
        tokens: int | None = None,
    ) -> None:
        """Compute the layers of all sentences in batches of similar length.

        Args:
            sentences: words of each sentence.
            consume: called with the indices of a batch's sentences, their layers, (sentences, tokens, dim) each with
                padding at the end, and their lengths.
            tokens: the largest number of tokens in a batch.
        """
        torch = require("torch", extra="models")
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        if len(lengths) and not lengths.min():
            raise UsageError(f"sentence {int(lengths.argmin())} has no words", hint="leave empty sentences out")
        table = self.token_table(chain.from_iterable(sentences))
        words = chain.from_iterable(map(table, sentences))
        ids = torch.as_tensor(np.fromiter(words, np.int64, int(lengths.sum())), device=self.device)
        sizes, starts = (
            torch.as_tensor(array, device=self.device) for array in (lengths, np.cumsum(lengths) - lengths)
        )

        def compute(batch: Rows) -> None:
            rows = torch.as_tensor(batch, device=self.device)
            positions = torch.arange(int(lengths[batch].max()), device=self.device)
            inside = positions < sizes[rows, None]
            places = torch.where(inside, starts[rows, None] + positions, 0)
            with torch.inference_mode():
                consume(batch, self.batch_layers(table, ids[places], sizes[rows]), sizes[rows])

        run_in_batches(lengths + 2, compute, tokens=tokens or tokens_at_once(self.device.type))

    def vectors(self, sentences: Sequence[Sentence], *, tokens: int | None = None) -> list[NDArray[np.float32]]:
        """Return a (layers + 1, words, dim) array for each sentence; the state is zero before each."""
        arrays: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(sentences)

        def consume(batch: Rows, layers: list[Tensor], lengths: Tensor) -> None:
            values = np.stack([layer.float().cpu().numpy() for layer in layers], 1)
            for place, sentence in enumerate(batch):
                arrays[sentence] = values[place, :, : len(sentences[sentence])].copy()

        self.run(sentences, consume, tokens=tokens)
        return arrays

    def flat_vectors(
        self, sentences: Sequence[Sentence], *, out: torch.Tensor | None = None, tokens: int | None = None
    ) -> torch.Tensor:
        """Return a (words of all sentences, (layers + 1) dim) tensor on the device: the layers of a word in one row.

        Args:
            sentences: words of each sentence; their rows follow each other.
            out: tensor to write to; its precision may be lower.
            tokens: the largest number of tokens in a batch.
        """
        torch = require("torch", extra="models")
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        starts = np.cumsum(lengths) - lengths
        if out is None:
            out = torch.empty(int(lengths.sum()), (self.layers + 1) * self.dim, device=self.device)
        rows: Tensor = out

        def consume(batch: Rows, layers: list[Tensor], sizes: Tensor) -> None:
            positions = torch.arange(layers[0].shape[1], device=sizes.device)
            inside = positions < sizes[:, None]
            places = torch.as_tensor(starts[batch], device=sizes.device)[:, None] + positions
            rows[places[inside]] = torch.cat(layers, -1)[inside].to(rows.dtype)

        self.run(sentences, consume, tokens=tokens)
        return rows

    def stateful_vectors(self, batches: Iterable[Sequence[Sentence]]) -> Iterator[list[NDArray[np.float32]]]:
        """Yield the vectors of each batch, with states carried from each row of a batch to the same row of the next.

        This is what both published programs do. The vectors then depend on what was read before, so this is only for
        comparison with them. All batches must have the same number of sentences.
        """
        torch = require("torch", extra="models")
        if self.maps:
            raise UsageError("stateful vectors are for comparison with published programs, which have no maps")
        states = None
        for batch in batches:
            if states and states[0].output.shape[1] != len(batch):
                before = states[0].output.shape[1]
                raise UsageError(f"a batch has {len(batch)} sentences, the one before {before}")
            table = self.token_table(chain.from_iterable(batch))
            lengths = torch.tensor([len(sentence) for sentence in batch], device=self.device)
            rows = torch.zeros(len(batch), int(lengths.max()), dtype=torch.int64, device=self.device)
            for row, sentence in zip(rows, batch, strict=True):
                row[: len(sentence)] = torch.tensor(table(sentence))
            with torch.inference_mode():
                inputs = table.vectors[_with_boundaries(rows, lengths, len(table.vectors))]
                layers, states = self.network.stateful(inputs, lengths + 2, states)
            values = np.stack([layer[:, 1:-1].float().cpu().numpy() for layer in layers], 1)
            yield [values[row, :, : len(sentence)] for row, sentence in enumerate(batch)]

    def _arrays(self) -> dict[str, NDArray[np.float32]]:
        return {name: tensor.float().cpu().numpy() for name, tensor in self.network.state_dict().items()}


def _needs_words(change: RowMap) -> bool:
    return bool(getattr(change, "needs_words", False))


def _mapped(change: RowMap, vectors: torch.Tensor, words: Sequence[str]) -> torch.Tensor:
    return cast(WordwiseMap, change)(vectors, words) if _needs_words(change) else change(vectors)


def _with_boundaries(rows: torch.Tensor, lengths: torch.Tensor, table: int) -> torch.Tensor:
    """Return (sentences, tokens + 2) rows with the boundaries around each sentence, the last rows of the table."""
    full = rows.new_zeros(len(rows), rows.shape[1] + 2)
    full[:, 1:-1] = rows
    full[:, 0] = table - 2
    return full.scatter(1, lengths[:, None] + 1, table - 1)


def _sha256(parts: Iterable[bytes]) -> str:
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(part)
    return hasher.hexdigest()


class ElmoSentences:
    """The sentence vectors of an ELMo model.

    Texts are split into words and punctuation marks; case is kept. Boundaries of sentences are not pooled, so `mean`
    and `mean-no-special` are the same, and there is no `cls`.

    Args:
        elmo: the model.
        pooling: the default pooling.
        mix: a score for each layer. If given, the scalar mix gamma * sum_k softmax(mix)_k layer_k is one more layer,
            the last one. Equal scores give the mean of the layers.
        gamma: factor of the mix.

    Attributes:
        layers: number of the last layer: that of the biLM, or one more with a mix.
    """

    def __init__(
        self, elmo: Elmo, *, pooling: Pooling = "mean", mix: Sequence[float] | None = None, gamma: float = 1.0
    ) -> None:
        if mix is not None and len(mix) != elmo.layers + 1:
            raise UsageError(f"the mix has {counted(len(mix), 'score')}, and the model {elmo.layers + 1} layers")
        self.elmo, self.name = elmo, elmo.name
        self.pooling: Pooling = pooling
        self._combinations = np.eye(elmo.layers + 1)
        if mix is not None:
            self._combinations = np.vstack([self._combinations, mixing_weights(mix, gamma)])
        self.layers = len(self._combinations) - 1

    def encode(
        self,
        texts: Sequence[str],
        *,
        layer: int | None = None,
        pooling: Pooling | None = None,
        tokens: int | None = None,
    ) -> Matrix:
        """Return the vector of each text; see `SentenceEncoder`."""
        weights = self._combinations[[layer_number(layer, self.layers)]]
        vectors: Matrix = self._encode(texts, weights, pooling, tokens)[0]
        return vectors

    def encode_layers(
        self, texts: Sequence[str], *, pooling: Pooling | None = None, tokens: int | None = None
    ) -> NDArray[np.floating]:
        """Return the vectors of all layers; see `SentenceEncoder`."""
        return self._encode(texts, self._combinations, pooling, tokens)

    def _encode(
        self, texts: Sequence[str], weights: NDArray[np.float64], pooling: Pooling | None, tokens: int | None
    ) -> NDArray[np.floating]:
        """Return (rows of weights, texts, dim): each row of weights is a linear combination of the layers."""
        torch = require("torch", extra="models")
        how = pooling or self.pooling
        if how not in POOLINGS:
            raise unknown_name("pooling", how, POOLINGS)
        if how == "cls":
            raise UsageError("ELMo has no [CLS] token", hint="use mean, last or max")
        distinct = list(dict.fromkeys(check_texts(texts)))
        sentences = [split_words(text) for text in distinct]
        for text, words in zip(distinct, sentences, strict=True):
            if not words:
                raise UsageError(f"the text {text!r} has no words", hint="leave empty texts out")
        vectors = np.zeros((len(weights), len(distinct), self.elmo.dim), np.float32)
        combinations = torch.as_tensor(weights, dtype=torch.float32, device=self.elmo.device)

        def consume(batch: Rows, layers: list[Tensor], lengths: Tensor) -> None:
            mask = (torch.arange(layers[0].shape[1], device=lengths.device) < lengths[:, None]).float()
            for number, combination in enumerate(combinations):
                parts = [share * layer.float() for share, layer in zip(combination, layers, strict=True) if share]
                vectors[number, batch] = pool(torch.stack(parts).sum(0), mask, how).cpu().numpy()

        self.elmo.run(sentences, consume, tokens=tokens)
        if not np.isfinite(vectors).all():
            raise DegenerateError(f"{self.name}: a sentence vector contains NaN or infinity", hint="check the weights")
        rows = {text: row for row, text in enumerate(distinct)}
        return vectors[:, [rows[text] for text in texts]]


def mixing_weights(scores: Sequence[float], gamma: float = 1.0) -> NDArray[np.float64]:
    """Return the weights of a scalar mix: gamma * softmax(scores).

    >>> mixing_weights([0.0, 0.0, 0.0, 0.0]).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    powers = np.exp(np.asarray(scores, np.float64) - np.max(scores))
    weights: NDArray[np.float64] = gamma * powers / powers.sum()
    return weights


def word_vectors(elmo: Elmo, words: Iterable[str]) -> Vectors:
    """Return the token vectors of words: layer 0, which does not depend on the context."""
    distinct = list(dict.fromkeys(words))
    table = elmo.token_table(distinct)
    return Vectors(distinct, table.vectors[table(distinct)].float().cpu().numpy(), name=elmo.name)


def average_vectors(elmo: Elmo, words: Iterable[str], sentences: Iterable[Sentence]) -> tuple[Vectors, ...]:
    """Return, for each layer, the mean vector of each word over its occurrences in sentences.

    Dev et al. 2019 learn a direction for each layer from such averages.

    Raises:
        VocabularyError: If a word occurs in none of the sentences.
    """
    torch = require("torch", extra="models")
    rows = {word: row for row, word in enumerate(dict.fromkeys(words))}
    with_words = [sentence for sentence in sentences if any(word in rows for word in sentence)]
    sums = torch.zeros(elmo.layers + 1, len(rows), elmo.dim, dtype=torch.float64, device=elmo.device)
    counts = np.zeros(len(rows), np.int64)

    def consume(batch: Rows, layers: list[Tensor], lengths: Tensor) -> None:
        found = [
            (place, position, rows[word])
            for place, number in enumerate(batch)
            for position, word in enumerate(with_words[number])
            if word in rows
        ]
        place, position, row = torch.tensor(found, device=elmo.device).T
        for layer, total in zip(layers, sums, strict=True):
            total.index_add_(0, row, layer[place, position].double())
        np.add.at(counts, row.cpu().numpy(), 1)

    elmo.run(with_words, consume)
    if missing := [word for word, row in rows.items() if not counts[row]]:
        raise VocabularyError(f"{missing[0]!r} occurs in none of the sentences", hint="give more sentences")
    means = sums.cpu().numpy() / counts[:, None]
    return tuple(
        Vectors(list(rows), mean.astype(np.float32), name=f"{elmo.name}, layer {layer}")
        for layer, mean in enumerate(means)
    )
