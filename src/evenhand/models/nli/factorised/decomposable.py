"""Evaluate a probe by decomposable attention, block by block."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from evenhand.arrays import Matrix, Rows
from evenhand.models.nli.backend import ArrayBackend
from evenhand.models.nli.factorised.decomposable_kernel import BlockSide, Kernel, word_tables
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
