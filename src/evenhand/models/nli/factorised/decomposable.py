"""Evaluate a probe by decomposable attention, block by block."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from evenhand.arrays import Matrix
from evenhand.models.nli.backend import Array, ArrayBackend
from evenhand.models.nli.decomposable import DecomposableWeights, apply_layers
from evenhand.models.nli.factorised.layout import (
    PhraseShape,
    Subjects,
    cut_blocks,
    is_separable,
    phrase_shapes,
    renumber,
)
from evenhand.models.nli.factorised.pair_layers import PairLayers
from evenhand.models.nli.protocol import LABELS, Grid, pairwise_grids
from evenhand.words.probes import Probe

if TYPE_CHECKING:
    from evenhand.models.nli.decomposable import DecomposableAttention


PAIRS_IN_GRID = 32_768
PHRASE_BLOCKS = 4  # blocks whose phrases are prepared together


def evaluate(model: DecomposableAttention, probe: Probe) -> Iterator[Grid]:
    """Yield every phrase of the probe, factorised if its slot is separable, otherwise pair by pair."""
    if not is_separable(probe):
        yield from pairwise_grids(model, probe)
        return
    rows, shapes = renumber(list(phrase_shapes(probe, model.lookup)))
    with model.backend.worker():
        weights = model.weights_on_device
        kernel = Kernel(weights, word_tables(weights, model.table(rows.tolist())))
    _, premises, hypotheses = probe.shape
    step = max(1, max(PAIRS_IN_GRID, model.backend.pairs_at_once) // (premises * hypotheses))
    jobs = (
        lambda shape=shape, start=start: _grid(kernel, shape, slice(start, start + step), probe.shape)
        for shape in shapes
        for start in range(0, len(shape.phrases), step)
    )
    yield from run_jobs(jobs, model.backend)


def _grid(kernel: Kernel, shape: PhraseShape, span: slice, sizes: tuple[int, int, int]) -> Grid:
    """Return the probabilities of a few phrases, for every combination of subject lengths."""
    phrases = shape.phrases[span]
    answers = np.empty((len(phrases), *sizes[1:], len(LABELS)), np.float32)
    backend = kernel.weights.backend
    few = max(1, PHRASE_BLOCKS * backend.pairs_at_once // (sizes[1] * sizes[2]))
    with backend.worker():
        for start in range(0, len(phrases), few):
            part = slice(start, start + few)
            _fill(answers[part], kernel, shape, backend.put(shape.tokens[span][part]))
    return Grid(phrases, answers)


def _fill(answers: Matrix, kernel: Kernel, shape: PhraseShape, tokens: Array) -> None:
    """Write the probabilities of a few phrases, for every combination of subject lengths."""
    backend = kernel.weights.backend
    premise, hypothesis = (
        [(subjects.fillers, kernel.side(tokens, subjects)) for subjects in side]
        for side in (shape.premise, shape.hypothesis)
    )
    for (p_fillers, p), (h_fillers, h) in product(premise, hypothesis):
        rows = len(h_fillers) * (len(p.attend) + len(h.attend))
        for part, premises in cut_blocks(len(tokens), len(p_fillers), each=rows, most=2 * backend.pairs_at_once):
            block = backend.get(kernel.pairs(p.part(part, premises), h.part(part, slice(None))))
            cells = np.ix_(np.arange(len(tokens))[part], p_fillers[premises], h_fillers)
            answers[cells] = block.transpose(1, 3, 2, 0)


def run_jobs(jobs: Iterator[Callable[[], Grid]], backend: ArrayBackend) -> Iterator[Grid]:
    """Yield the results of the jobs in order; a few of them run ahead in the backend's threads."""
    if backend.workers < 2:
        with backend.single_threaded():
            yield from (job() for job in jobs)
        return
    with backend.single_threaded(), ThreadPoolExecutor(backend.workers) as pool:
        waiting: deque[Future[Grid]] = deque()
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) > backend.workers + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@dataclass(frozen=True)
class BlockSide:
    """The subjects of one side within some phrases, and the shared rows that attend to them."""

    attend: Array  # (tokens of each, subjects, hidden)
    other: Array  # (tokens of each, subjects, hidden)
    subject: Attention  # (phrases, tokens of each, subjects, ...)
    shared: Array  # (phrases, subjects, hidden): the sum over the shared rows of the other sentence
    length: int  # tokens of a sentence

    def part(self, phrases: slice, subjects: slice) -> BlockSide:
        """Return some subjects within some phrases."""
        subject = Attention(*(array[phrases, :, subjects] for array in self.subject.arrays))
        shared = self.shared[phrases, subjects]
        return BlockSide(self.attend[:, subjects], self.other[:, subjects], subject, shared, self.length)


class Kernel:
    """The formulas for blocks of pairs."""

    def __init__(self, weights: DecomposableWeights, table: WordTables) -> None:
        self.weights, self.table, self.xp = weights, table, weights.xp
        _, compare = weights.compare
        self.layers = PairLayers(weights.backend, compare, weights.aggregate, weights.output, weights.hidden)

    def side(self, phrase: Array, subjects: Subjects) -> BlockSide:
        """Return what depends on the phrases and one side's subjects only."""
        tokens = self.weights.backend.put(subjects.tokens.T)
        subject = attend(self.weights, self.table, tokens.reshape(-1), phrase)
        shape = len(phrase), *tokens.shape
        attention = Attention(*(array.reshape(*shape, *array.shape[2:]) for array in subject.arrays))
        attended, other = self.table.attend[tokens], self.table.other[tokens]
        shared = self._compare_shared(phrase, attended, other)
        return BlockSide(attended, other, attention, shared, phrase.shape[1] + len(tokens))

    def _compare_shared(self, phrase: Array, attended: Array, other: Array) -> Array:
        """Return the sum of the compared rows of shared tokens, which attend to their phrase and one subject."""
        shared = attend(self.weights, self.table, phrase, phrase)
        base = Attention(*(array[:, :, None] for array in shared.arrays))
        queries = self.table.attend[phrase]
        count, subjects, hidden = attended.shape
        (phrases, length), most = phrase.shape, 2 * self.weights.backend.pairs_at_once
        sums = self.weights.backend.empty((phrases, subjects, hidden))
        for part, cut in cut_blocks(phrases, subjects, each=length, most=most):
            keys = attended[:, cut].reshape(-1, hidden)
            logits = (queries[part] @ keys.T).reshape(-1, length, count, len(keys) // count)
            logits = self.xp.moveaxis(logits, 2, 0)
            rows = self.layers.rows((*logits.shape[1:], hidden))
            self._mix(rows, Attention(*(array[part] for array in base.arrays)), logits, other[:, cut])
            compared = self.layers.compare(1, prod(rows.shape[:-1]))
            sums[part, cut] = compared.reshape(rows.shape).sum(axis=1)
        return sums

    def pairs(self, premise: BlockSide, hypothesis: BlockSide) -> Array:
        """Return (labels, phrases, hypotheses, premises) probabilities."""
        hidden = self.weights.hidden
        (p_count, premises), (h_count, hypotheses) = premise.attend.shape[:2], hypothesis.attend.shape[:2]
        pairs = premise.shared.shape[0], hypotheses, premises
        rows = self.layers.rows((p_count + h_count, *pairs, hidden))
        scores = hypothesis.attend.reshape(-1, hidden) @ premise.attend.reshape(-1, hidden).T
        scores = scores.reshape(h_count, hypotheses, p_count, premises)
        for k in range(p_count):
            base = Attention(*(array[:, None, k] for array in premise.subject.arrays))
            self._mix(rows[k], base, scores[:, None, :, k], hypothesis.other[:, None, :, None])
        for k in range(h_count):
            base = Attention(*(array[:, k, :, None] for array in hypothesis.subject.arrays))
            self._mix(rows[p_count + k], base, scores[k].swapaxes(0, 1)[:, None], premise.other[:, None, None])
        sums = compared = self.layers.compare(len(rows), prod(pairs))
        if len(rows) > 2:
            sums = self.xp.stack([compared[:, :p_count].sum(axis=1), compared[:, p_count:].sum(axis=1)], 1)
        both = sums.reshape(*pairs, 2, hidden)
        both[..., 0, :] += hypothesis.shared[:, :, None]
        both[..., 1, :] += premise.shared[:, None]
        return self.layers.classify(sums, (premise.length, hypothesis.length)).reshape(-1, *pairs)

    def _mix(self, rows: Array, base: Attention, logits: Array, others: Array) -> None:
        """Write own + mixture of the phrase and of further tokens into `rows`.

        With the phrase's log sum L and shares s_k = exp(e_k - L) / (1 + sum exp(e - L)) the row is
        own + mixture + sum_k s_k (other_k - mixture). The largest exponent is subtracted first, as in any softmax. The
        further tokens are the first axis of `logits` and `others`.
        """
        xp = self.xp
        shifted = logits - base.log_sum
        top = xp.amax(shifted, axis=0).clip(0, None)
        powers = xp.exp(shifted - top)
        shares = powers / (xp.exp(-top) + powers.sum(axis=0))
        xp.subtract(others[0], base.mixture, out=rows)
        xp.multiply(rows, shares[0, ..., None], out=rows)
        xp.add(rows, base.with_own, out=rows)
        for k in range(1, len(shares)):
            rows += (others[k] - base.mixture) * shares[k, ..., None]


@dataclass(frozen=True)
class WordTables:
    """For each word, its attend vector and the two halves of compare's first matrix applied to it."""

    attend: Array
    own: Array  # the half for the token itself, with the bias
    other: Array  # the half for what it attends to


def word_tables(weights: DecomposableWeights, vectors: Matrix) -> WordTables:
    """Return the tables for the words of a probe."""
    x = weights.backend.put(vectors) @ weights.project
    matrix, bias = weights.compare[0]
    return WordTables(
        apply_layers(weights.attend, x), x @ matrix[: weights.hidden] + bias, x @ matrix[weights.hidden :]
    )


@dataclass(frozen=True)
class Attention:
    """Tokens that attend to a phrase: (phrases, tokens, hidden) mixtures, also with own halves added, and log sums."""

    mixture: Array
    with_own: Array
    log_sum: Array

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """All three arrays; what selects phrases and tokens applies to each."""
        return self.mixture, self.with_own, self.log_sum


def attend(weights: DecomposableWeights, table: WordTables, queries: Array, phrase: Array) -> Attention:
    """Return how `queries` (tokens, or phrases x tokens) attend to the tokens of each phrase."""
    xp, (phrases, length) = weights.xp, phrase.shape
    keys = table.attend[phrase]
    if queries.ndim == 1:
        logits = table.attend[queries] @ keys.reshape(phrases * length, -1).T
        logits = logits.reshape(-1, phrases, length).swapaxes(0, 1)
    else:
        logits = table.attend[queries] @ keys.swapaxes(1, 2)
    top = xp.amax(logits, axis=-1, keepdims=True)
    powers = xp.exp(logits - top)
    total = powers.sum(axis=-1, keepdims=True)
    mixture = (powers / total) @ table.other[phrase]
    return Attention(mixture, mixture + table.own[queries], (top + xp.log(total))[..., 0])
