"""Exact evaluation of a whole probe by the BiLSTM model: every distinct sentence is encoded once.

A phrase with P premise and H hypothesis subjects has P + H sentences and P H pairs. What depends on one sentence only
(its states, and compare's first matrix, which is linear in the attended mixture) is computed per sentence. Sentences
with the same beginning or end share states (`prefix_encoding`). What remains per pair are the dot products, the
mixtures, compare's second layer and aggregate. Nothing is approximated.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.nli.backend import Array, ArrayBackend
from evenhand.models.nli.factorised.decomposable import run_jobs
from evenhand.models.nli.factorised.layout import SentenceLookup, Subjects, Tokens, by_length, is_separable
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
            return ((group.fillers, encoder(around, group.tokens)) for group in side)

        hypotheses = list(encode(frames.hypothesis))
        for (p_fillers, p), (h_fillers, h) in ((p, h) for p in encode(frames.premise) for h in hypotheses):
            for span, premises in _cuts(evaluator.sizes.rows, p, h):
                block = kernel.probabilities(p.part(span, premises), h.part(span, slice(None)))
                cells = np.ix_(np.arange(len(phrases))[span], p_fillers[premises], h_fillers)
                answers[cells] = encoder.weights.backend.get(block)
    return Grid(phrases, answers)


def _cuts(rows: int, premise: EncodedSentences, hypothesis: EncodedSentences) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of phrases x premises with at most `rows` rows to compare, unless one premise has more."""
    phrases, premises, p_tokens, _ = premise.states.shape
    each = hypothesis.states.shape[1] * (p_tokens + hypothesis.states.shape[2])
    few = max(1, min(phrases, rows // (premises * each)))
    parts = 1 if few > 1 else math.ceil(premises / max(1, rows // each))
    some = math.ceil(premises / parts)
    for start in range(0, phrases, few):
        for first in range(0, premises, some):
            yield slice(start, start + few), slice(first, first + some)


class PairKernel:
    """The formulas for blocks of pairs.

    max(0, x + b) = max(x, -b) + b, and what follows is linear: a bias is added once at the end, not to every row.
    """

    def __init__(self, weights: PairWeights) -> None:
        self.weights, self.torch = weights, weights.backend.xp
        _, (self.compare, self.compare_bias) = weights.compare
        (first, self.first_bias), (self.second, second_bias) = weights.aggregate
        weight, bias = weights.output
        self.halves = first[: weights.hidden], first[weights.hidden :]
        self.constants = tuple(self.compare_bias @ half for half in self.halves)
        self.compare_floor, self.second_floor = -self.compare_bias, -second_bias
        self.output, self.output_bias = weight, second_bias @ weight + bias

    def probabilities(self, premise: EncodedSentences, hypothesis: EncodedSentences) -> Array:
        """Return (phrases, premises, hypotheses, labels) probabilities."""
        top = self._compare(hypothesis, premise) @ self.halves[1]
        top += (self._compare(premise, hypothesis) @ self.halves[0]).transpose(1, 2)
        tokens = premise.states.shape[2], hypothesis.states.shape[2]
        top += tokens[0] * self.constants[0] + tokens[1] * self.constants[1] + self.first_bias
        return self._classify(top)

    def _compare(self, own: EncodedSentences, others: EncodedSentences) -> Array:
        """Return the sums of compare's rows over own tokens, without the last bias: (phrases, others, own, hidden).

        Both sides compute the scores again, with the attended tokens first: a softmax over any axis but the last is
        several times faster, and the product is short.
        """
        phrases, sentences, tokens, width = others.states.shape
        hidden = others.other.shape[-1]
        scores = others.states.reshape(phrases, -1, width) @ own.states.reshape(phrases, -1, width).mT
        shares = scores.view(phrases * sentences, tokens, -1).softmax(1)
        rows = self.torch.bmm(shares.mT, others.other.reshape(-1, tokens, hidden))
        rows.view(phrases, sentences, -1, hidden).add_(own.own.reshape(phrases, 1, -1, hidden))
        compared = self.torch.mm(rows.clamp_(min=0).view(-1, hidden), self.compare)
        self.torch.maximum(compared, self.compare_floor, out=compared)
        return compared.view(phrases, sentences, *own.own.shape[1:]).sum(3)

    def _classify(self, top: Array) -> Array:
        """Apply the rest of aggregate and the output layer."""
        last = top.clamp_(min=0) @ self.second
        self.torch.maximum(last, self.second_floor, out=last)
        return (last @ self.output + self.output_bias).softmax(-1)


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
