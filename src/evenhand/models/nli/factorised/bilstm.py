"""Exact evaluation of a whole probe by the BiLSTM model: every distinct sentence is encoded once.

A phrase with P premise and H hypothesis subjects has P + H sentences and P H pairs. What depends on one sentence only
(its states, and compare's first matrix, which is linear in the attended mixture) is computed per sentence. Sentences
with the same beginning or end share states (`prefix_encoding`). What remains per pair are the dot products, the
mixtures, compare's second layer and aggregate. Nothing is approximated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.nli.backend import Array, ArrayBackend, backend
from evenhand.models.nli.factorised.decomposable import run_jobs
from evenhand.models.nli.factorised.layout import SentenceLookup, Subjects, Tokens, by_length, cut_blocks, is_separable
from evenhand.models.nli.factorised.pair_layers import PairLayers, softmax
from evenhand.models.nli.factorised.prefix_encoding import EncodedSentences, SentenceEncoding
from evenhand.models.nli.protocol import LABELS, Grid, pairwise_grids
from evenhand.words.probes import Probe

if TYPE_CHECKING:
    from evenhand.models.nli.bilstm import BiLSTM


class Sizes(NamedTuple):
    """How much is processed at once, for sentences of any length.

    Few subjects with many phrases are better than the reverse: phrases share their beginnings.
    """

    pairs: int  # in a grid
    subjects: int
    tokens: int  # to encode
    rows: int  # to compare


# On a CPU, the rows of a sentence and their intermediate results stay in the cache.
ON_CPU = Sizes(pairs=32_768, subjects=41, tokens=3_000, rows=3_500)
# On a GPU all rows take 1.2 GB, half of them at a time.
ON_GPU = Sizes(pairs=100_000, subjects=512, tokens=200_000, rows=1_500_000)


class FrameEncoder(Protocol):
    """Encodes every phrase of a frame with every subject of a group."""

    @property
    def weights(self) -> PairWeights:
        """The weights of the pair formulas."""

    def frames(self, before: Rows, after: Rows) -> Any:
        """Prepare phrases without their subjects."""

    def __call__(self, frames: Any, subjects: Rows) -> EncodedSentences:
        """Return the states of all sentences."""


class PairWeights(Protocol):
    """The layers after the states: matrices to the right of the rows, each with its bias."""

    @property
    def backend(self) -> ArrayBackend:
        """Where the arrays are."""

    @property
    def hidden(self) -> int:
        """Width of the layers."""

    @property
    def compare(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Two layers over a state and what it attends to."""

    @property
    def aggregate(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Two layers over the sums of both sentences."""

    @property
    def output(self) -> tuple[Array, Array]:
        """The last layer."""


class BlockEvaluator(NamedTuple):
    """The encoder and the pair formulas that every block of a probe uses."""

    encoder: FrameEncoder
    kernel: PairKernel
    sizes: Sizes


def evaluate(model: BiLSTM, probe: Probe) -> Iterator[Grid]:
    """Yield every phrase of the probe; pair by pair if something is joined to its slot."""
    if not is_separable(probe):
        yield from pairwise_grids(model, probe)
        return
    weights = model.weights_on_device
    sizes = ON_CPU if weights.bias.device.type == "cpu" else ON_GPU
    sentences = probe_sentences(probe, model.lookup, null=weights.null is not None, subjects=sizes.subjects)
    yield from evaluate_frames(_evaluator(model, sentences.rows, sizes), sentences, probe)


def evaluate_frames(evaluator: BlockEvaluator, sentences: ProbeSentences, probe: Probe) -> Iterator[Grid]:
    """Yield every phrase of the probe, block by block."""
    jobs = (
        lambda frames=frames, part=part: _grid(evaluator, frames, part, probe.shape)
        for frames in sentences.frames
        for part in _parts(frames, evaluator.sizes, probe.shape)
    )
    with evaluator.kernel.backend.single_threaded():
        yield from run_jobs(jobs, evaluator.encoder.weights.backend)


def _evaluator(model: BiLSTM, rows: Rows, sizes: Sizes) -> BlockEvaluator:
    weights = model.weights_on_device
    with model.backend.worker():
        vectors = model.backend.put(model.table(rows.tolist()))
        if weights.null is not None:
            vectors = weights.torch.cat([vectors, weights.null[None]])
        return BlockEvaluator(SentenceEncoding(weights, vectors), PairKernel(weights), sizes)


def _parts(frames: Frames, sizes: Sizes, shape: tuple[int, int, int]) -> list[slice]:
    """Return the phrases in parts that are processed at once."""
    around = frames.before.shape[1] + frames.after.shape[1]
    most = max(group.tokens.size + around * len(group.tokens) for group in (*frames.premise, *frames.hypothesis))
    step = max(1, min(sizes.tokens // most, sizes.pairs // (shape[1] * shape[2])))
    return [slice(start, start + step) for start in range(0, len(frames.phrases), step)]


def _grid(evaluator: BlockEvaluator, frames: Frames, part: slice, shape: tuple[int, int, int]) -> Grid:
    """Return the probabilities of a few phrases, for every combination of subject groups."""
    phrases, encoder, kernel = frames.phrases[part], evaluator.encoder, evaluator.kernel
    answers = np.empty((len(phrases), *shape[1:], len(LABELS)), np.float32)
    with encoder.weights.backend.worker():
        around = encoder.frames(frames.before[part], frames.after[part])

        def encode(side: tuple[Subjects, ...]) -> Iterator[tuple[Rows, EncodedSentences]]:
            return ((group.fillers, kernel.load(encoder(around, group.tokens))) for group in side)

        hypotheses = list(encode(frames.hypothesis))
        for (p_fillers, p), (h_fillers, h) in ((p, h) for p in encode(frames.premise) for h in hypotheses):
            rows = len(h_fillers) * (p.states.shape[1] + h.states.shape[1])
            for span, premises in cut_blocks(len(phrases), len(p_fillers), each=rows, most=evaluator.sizes.rows):
                block = kernel.probabilities(p.part(span, premises), h.part(span, slice(None)))
                cells = np.ix_(np.arange(len(phrases))[span], p_fillers[premises], h_fillers)
                answers[cells] = kernel.backend.get(block).transpose(1, 3, 2, 0)
    return Grid(phrases, answers)


class PairKernel:
    """The formulas for blocks of pairs: numpy on a CPU, where its steps write to the same arrays, torch on a GPU."""

    def __init__(self, weights: PairWeights) -> None:
        self.source = weights.backend
        self.backend = backend("numpy") if self.source.name == "torch:cpu" else self.source

        def load(layer: tuple[Array, Array]) -> tuple[Array, Array]:
            return self._load(layer[0]), self._load(layer[1])

        aggregate = load(weights.aggregate[0]), load(weights.aggregate[1])
        self.layers = PairLayers(
            self.backend, load(weights.compare[1]), aggregate, load(weights.output), weights.hidden
        )

    def load(self, sentences: EncodedSentences) -> EncodedSentences:
        """Return the sentences as arrays of the backend."""
        return EncodedSentences(*map(self._load, (sentences.states, sentences.own, sentences.other)))

    def _load(self, array: Array) -> Array:
        return array if self.backend is self.source else self.backend.put(self.source.get(array))

    def probabilities(self, premise: EncodedSentences, hypothesis: EncodedSentences) -> Array:
        """Return (labels, phrases, hypotheses, premises) probabilities."""
        p_length, h_length = premise.states.shape[1], hypothesis.states.shape[1]
        pairs = premise.states.shape[0], hypothesis.states.shape[2], premise.states.shape[2]
        sums = self.backend.empty((*pairs, 2, self.layers.hidden))
        sums[..., 0, :] = self._compare(premise, hypothesis)
        sums[..., 1, :] = self._compare(hypothesis, premise).swapaxes(1, 2)
        sums = sums.reshape(-1, 2, self.layers.hidden)
        return self.layers.classify(sums, (p_length, h_length)).reshape(-1, *pairs)

    def _compare(self, own: EncodedSentences, others: EncodedSentences) -> Array:
        """Return the sums of compare's rows over own tokens, without the last bias: (phrases, others, own, hidden).

        Both sides compute the scores again, with the attended tokens first: a softmax over any axis but the last is
        several times faster, and the product is short.
        """
        phrases, tokens, sentences, width = others.states.shape
        own_tokens, own_sentences = own.own.shape[1:3]
        scores = others.states.reshape(phrases, -1, width) @ own.states.reshape(phrases, -1, width).swapaxes(1, 2)
        shares = softmax(scores.reshape(phrases, tokens, sentences, -1), 1, self.backend)
        rows = self.layers.rows((phrases, sentences, own_tokens * own_sentences, self.layers.hidden))
        xp = self.backend.xp
        xp.matmul(xp.moveaxis(shares, 1, -1), others.other.swapaxes(1, 2), out=rows)
        rows += own.own.reshape(phrases, 1, -1, self.layers.hidden)
        compared = self.layers.compare(1, prod(rows.shape[:-1]))
        return compared.reshape(phrases, sentences, own_tokens, own_sentences, -1).sum(axis=2)


@dataclass(frozen=True)
class Frames:
    """Phrases with the same number of tokens before and after the same determiner, and the subjects between them."""

    phrases: Rows
    before: Rows  # (phrases, tokens)
    after: Rows
    premise: tuple[Subjects, ...]
    hypothesis: tuple[Subjects, ...]


@dataclass(frozen=True)
class ProbeSentences:
    """All frames of a probe, with tokens numbered among `rows`, the rows of the table that occur."""

    rows: Rows
    frames: tuple[Frames, ...]


def probe_sentences(probe: Probe, lookup: SentenceLookup, *, null: bool, subjects: int) -> ProbeSentences:
    """Return the sentences of a probe, with at most `subjects` subjects in a group.

    With `null`, a further token, numbered after all words, precedes each sentence.
    """
    frames = list(_frames(probe, lookup, subjects))
    parts = [part for frame in frames for part in (frame.before, frame.after)]
    parts += [group.tokens for frame in frames for group in (*frame.premise, *frame.hypothesis)]
    rows = np.unique(np.concatenate([part.ravel() for part in parts]))
    return ProbeSentences(rows, tuple(_renumber(frame, rows, null=null) for frame in frames))


def _frames(probe: Probe, lookup: SentenceLookup, subjects: int) -> Iterator[Frames]:
    groups: dict[tuple[str, int, int], list[tuple[int, Tokens, Tokens]]] = defaultdict(list)
    for number, phrase in enumerate(probe.phrases.all):
        before, after = lookup.sentence(phrase.before), lookup.sentence(phrase.after)
        groups[phrase.determiner, len(before), len(after)].append((number, before, after))
    for (determiner, _, _), phrases in groups.items():
        numbers, befores, afters = zip(*phrases, strict=True)
        sides = (
            tuple(by_length([lookup.sentence(text) for text in probe.subjects(side, determiner)], at_once=subjects))
            for side in ("premise", "hypothesis")
        )
        yield Frames(np.array(numbers), _matrix(befores), _matrix(afters), *sides)


def _matrix(tokens: Sequence[Tokens]) -> Rows:
    return np.array(tokens, dtype=np.int64).reshape(len(tokens), -1)


def _renumber(frames: Frames, rows: Rows, *, null: bool) -> Frames:
    def number(tokens: Rows) -> Rows:
        return np.asarray(np.searchsorted(rows, tokens), dtype=np.int64)

    def side(groups: tuple[Subjects, ...]) -> tuple[Subjects, ...]:
        return tuple(Subjects(group.fillers, number(group.tokens)) for group in groups)

    before = number(frames.before)
    front = np.full((len(before), int(null)), len(rows), dtype=np.int64)
    return Frames(
        frames.phrases,
        np.concatenate([front, before], axis=1),
        number(frames.after),
        side(frames.premise),
        side(frames.hypothesis),
    )
