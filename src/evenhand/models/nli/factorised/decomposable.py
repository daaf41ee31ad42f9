"""Evaluate a probe by decomposable attention, block by block."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from evenhand.arrays import Matrix, Rows
from evenhand.models.nli.backend import Array, ArrayBackend
from evenhand.models.nli.decomposable import DecomposableWeights, apply_layers, softmax
from evenhand.models.nli.factorised.layout import PhraseShape, Subjects, is_separable, phrase_shapes, renumber
from evenhand.models.nli.protocol import LABELS, Grid, pairwise_grids
from evenhand.words.probes import Probe

if TYPE_CHECKING:
    from evenhand.models.nli.decomposable import DecomposableAttention


PAIRS_IN_GRID = 32_768


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
    phrases, tokens = shape.phrases[span], shape.tokens[span]
    answers = np.empty((len(phrases), *sizes[1:], len(LABELS)), np.float32)
    backend = kernel.weights.backend
    together = max(1, backend.pairs_at_once // (sizes[1] * sizes[2]))
    with backend.worker():
        for start in range(0, len(phrases), together):
            part = slice(start, start + together)
            _block(kernel, shape, tokens[part], answers[part])
    return Grid(phrases, answers)


def _block(kernel: Kernel, shape: PhraseShape, tokens: Rows, answers: Matrix) -> None:
    """Fill in the probabilities of a few phrases, for every combination of subject lengths."""
    backend = kernel.weights.backend
    phrase = backend.put(tokens)

    def sides(side: tuple[Subjects, ...], premise: bool) -> list[tuple[Rows, BlockSide]]:
        return [(s.fillers, kernel.side(phrase, backend.put(s.tokens), premise=premise)) for s in side]

    for (p_fillers, p), (h_fillers, h) in product(sides(shape.premise, True), sides(shape.hypothesis, False)):
        step = max(1, backend.pairs_at_once // (len(tokens) * len(h_fillers)))
        for start in range(0, len(p_fillers), step):
            span = slice(start, start + step)
            cells = np.ix_(np.arange(len(tokens)), p_fillers[span], h_fillers)
            answers[cells] = backend.get(kernel.pairs(p, h, span))


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
    """The subjects of one side within the block's phrases, and the shared rows that attend to them."""

    tokens: Array  # (fillers, tokens of each)
    subject: Attention  # fillers and their tokens flattened
    shared: Array  # (phrases, fillers, hidden): after its half of aggregate's first matrix


class Kernel:
    """The formulas, with biases folded into constants.

    max(0, x + b) = max(x, -b) + b, and what follows is linear: the bias is added once at the end instead of to every
    row. Every step writes into the array of the previous step, which keeps a block in the cache.
    """

    def __init__(self, weights: DecomposableWeights, table: WordTables) -> None:
        self.weights, self.table, self.xp = weights, table, weights.xp
        self.zero = weights.backend.put([0.0])
        (_, _), (self.compare, bias) = weights.compare
        (first, self.first_bias), (self.second, second_bias) = weights.aggregate
        matrix, output_bias = weights.output
        self.compare_floor, self.compare_bias = -bias, bias
        self.first = first
        self.halves = first[: weights.hidden], first[weights.hidden :]
        self.second_floor = -second_bias
        self.output, self.output_bias = matrix, second_bias @ matrix + output_bias

    def side(self, phrase: Array, tokens: Array, *, premise: bool) -> BlockSide:
        """Return what depends on the phrases and one side's subjects only."""
        flat = tokens.reshape(-1)
        subject = attend(self.weights, self.table, flat, phrase)
        compared = self._compare_shared(phrase, tokens)
        # The shared rows that attend to this side's subjects belong to the other sentence.
        rows = phrase.shape[1] + tokens.shape[1]
        own, other = self.halves if premise else self.halves[::-1]
        constant = (rows * self.compare_bias) @ own
        shared = compared @ other + (constant + self.first_bias if premise else constant)
        return BlockSide(tokens, subject, shared)

    def _compare_shared(self, phrase: Array, tokens: Array) -> Array:
        """Return the sum of the compared rows of shared tokens, which attend to their phrase and one subject."""
        shared = attend(self.weights, self.table, phrase, phrase)
        logits = self.table.attend[phrase] @ self.table.attend[tokens.reshape(-1)].T
        logits = logits.reshape(*phrase.shape, *tokens.shape)
        rows = self.weights.backend.empty((*phrase.shape, len(tokens), self.weights.hidden))
        self._mix(rows, _expand(shared, 2), logits, self.table.other[tokens][None, None])
        return self._compare(rows).sum(axis=1)

    def _mix(self, rows: Array, base: Attention, logits: Array, others: Array) -> None:
        """Write own + mixture of the phrase and of further tokens into `rows`.

        With the phrase's log sum L and shares s_k = exp(e_k - L) / (1 + sum exp(e - L)) the row is
        own + mixture + sum_k s_k (other_k - mixture). The largest exponent is subtracted first, as in any softmax.
        """
        xp = self.xp
        shifted = logits - base.log_sum[..., None]
        top = xp.amax(shifted, axis=-1, keepdims=True).clip(0, None)
        powers = xp.exp(shifted - top)
        shares = powers / (xp.exp(-top) + powers.sum(axis=-1, keepdims=True))
        xp.subtract(others[..., 0, :], base.mixture, out=rows)
        xp.multiply(rows, shares[..., 0, None], out=rows)
        xp.add(rows, base.with_own, out=rows)
        for k in range(1, shares.shape[-1]):
            rows += (others[..., k, :] - base.mixture) * shares[..., k, None]
        xp.maximum(rows, self.zero, out=rows)

    def _compare(self, rows: Array) -> Array:
        """Apply the second layer of compare without its bias; `rows` must be contiguous."""
        out = self.weights.backend.empty(tuple(rows.shape))
        flat = out.reshape(-1, self.weights.hidden)
        self.xp.matmul(rows.reshape(-1, self.weights.hidden), self.compare, out=flat)
        self.xp.maximum(flat, self.compare_floor, out=flat)
        return out

    def pairs(self, premise: BlockSide, hypothesis: BlockSide, span: slice) -> Array:
        """Return (phrases, premises in the span, hypotheses, labels) probabilities."""
        xp = self.xp
        a, b = premise.tokens[span], hypothesis.tokens
        rows = self._subject_rows(premise, hypothesis, span)
        compared = self._compare(rows)
        if rows.shape[3] == 2:
            both = compared.reshape(-1, 2 * self.weights.hidden)
        else:
            k = a.shape[1]
            parts = [compared[..., :k, :].sum(axis=3), compared[..., k:, :].sum(axis=3)]
            both = xp.concatenate(parts, -1).reshape(-1, 2 * self.weights.hidden)
        top = xp.matmul(both, self.first).reshape(-1, len(a), len(b), self.weights.hidden)
        xp.add(top, premise.shared[:, span, None], out=top)
        xp.add(top, hypothesis.shared[:, None], out=top)
        xp.maximum(top, self.zero, out=top)
        last = xp.matmul(top.reshape(-1, self.weights.hidden), self.second)
        xp.maximum(last, self.second_floor, out=last)
        answers = softmax(last @ self.output + self.output_bias, xp)
        return answers.reshape(-1, len(a), len(b), answers.shape[-1])

    def _subject_rows(self, premise: BlockSide, hypothesis: BlockSide, span: slice) -> Array:
        """Return the first-layer rows of all subject tokens: (phrases, premises, hypotheses, tokens, hidden)."""
        a, b = premise.tokens[span], hypothesis.tokens
        phrases, width = premise.shared.shape[0], a.shape[1] + b.shape[1]
        rows = self.weights.backend.empty((phrases, len(a), len(b), width, self.weights.hidden))
        attend, other = self.table.attend, self.table.other
        scores = (attend[a.reshape(-1)] @ attend[b.reshape(-1)].T).reshape(*a.shape, *b.shape)
        for k in range(a.shape[1]):
            base = _expand(_token(premise.subject, premise.tokens.shape, k, span), 2)
            self._mix(rows[..., k, :], base, scores[None, :, k], other[b][None, None])
        transposed = scores.swapaxes(1, 2)  # (premises, hypotheses, tokens of a, tokens of b)
        for k in range(b.shape[1]):
            base = _expand(_token(hypothesis.subject, b.shape, k, slice(None)), 1)
            self._mix(rows[..., a.shape[1] + k, :], base, transposed[None, ..., k], other[a][None, :, None])
        return rows


def _token(subject: Attention, shape: tuple[int, ...], k: int, span: slice) -> Attention:
    """Return the attention of the k-th token of some subjects."""

    def pick(array: Array) -> Array:
        return array.reshape(array.shape[0], *shape, *array.shape[2:])[:, span, k]

    return Attention(pick(subject.mixture), pick(subject.with_own), pick(subject.log_sum))


def _expand(base: Attention, axis: int) -> Attention:
    """Add an axis for the other side's subjects."""
    before = (slice(None),) * axis

    def widen(array: Array) -> Array:
        return array[(*before, None)]

    return Attention(widen(base.mixture), widen(base.with_own), widen(base.log_sum))


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


def attend(weights: DecomposableWeights, table: WordTables, queries: Array, phrase: Array) -> Attention:
    """Return how `queries` (tokens, or phrases x tokens) attend to the tokens of each phrase."""
    xp = weights.xp
    logits = table.attend[queries] @ table.attend[phrase].swapaxes(1, 2)
    top = xp.amax(logits, axis=-1)
    log_sum = top + xp.log(xp.exp(logits - top[..., None]).sum(axis=-1))
    mixture = softmax(logits, xp) @ table.other[phrase]
    return Attention(mixture, mixture + table.own[queries], log_sum)
