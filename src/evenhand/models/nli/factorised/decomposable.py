"""A probe cut into blocks, their answers put together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from evenhand.arrays import Matrix, Rows
from evenhand.models.nli.backend import Backend
from evenhand.models.nli.factorised.decomposable_kernel import Kernel, Side, words
from evenhand.models.nli.factorised.layout import Shape, Subjects, renumbered, separable, shapes
from evenhand.models.nli.protocol import LABELS, Grid, pairwise_grids
from evenhand.words.probes import Probe

if TYPE_CHECKING:
    from evenhand.models.nli.decomposable import DecomposableAttention


PAIRS_IN_GRID = 32_768


def evaluate(model: DecomposableAttention, probe: Probe) -> Iterator[Grid]:
    """Every phrase of the probe, by the factorised formulas where its slot can be told apart, else pair by pair."""
    if not separable(probe):
        yield from pairwise_grids(model, probe)
        return
    rows, found = renumbered(list(shapes(probe, model.lookup)))
    with model.backend.worker():
        kernel = Kernel(model.placed, words(model.placed, model.table(rows.tolist())))
    _, premises, hypotheses = probe.shape
    step = max(1, max(PAIRS_IN_GRID, model.backend.pairs_at_once) // (premises * hypotheses))
    jobs = (
        lambda shape=shape, start=start: _grid(kernel, shape, slice(start, start + step), probe.shape)
        for shape in found
        for start in range(0, len(shape.phrases), step)
    )
    yield from shared_out(jobs, model.backend)


def _grid(kernel: Kernel, shape: Shape, some: slice, sizes: tuple[int, int, int]) -> Grid:
    phrases, tokens = shape.phrases[some], shape.tokens[some]
    answers = np.empty((len(phrases), *sizes[1:], len(LABELS)), np.float32)
    backend = kernel.placed.backend
    together = max(1, backend.pairs_at_once // (sizes[1] * sizes[2]))
    with backend.worker():
        for start in range(0, len(phrases), together):
            part = slice(start, start + together)
            _block(kernel, shape, tokens[part], answers[part])
    return Grid(phrases, answers)


def _block(kernel: Kernel, shape: Shape, tokens: Rows, answers: Matrix) -> None:
    """Fill the answers of a few phrases, one combination of subject lengths after the other."""
    backend = kernel.placed.backend
    phrase = backend.put(tokens)

    def sides(side: tuple[Subjects, ...], premise: bool) -> list[tuple[Rows, Side]]:
        return [(s.places, kernel.side(phrase, backend.put(s.tokens), premise=premise)) for s in side]

    for (p_places, p), (h_places, h) in product(sides(shape.premise, True), sides(shape.hypothesis, False)):
        step = max(1, backend.pairs_at_once // (len(tokens) * len(h_places)))
        for start in range(0, len(p_places), step):
            some = slice(start, start + step)
            place = np.ix_(np.arange(len(tokens)), p_places[some], h_places)
            answers[place] = backend.get(kernel.pairs(p, h, some))


def shared_out(jobs: Iterator[Callable[[], Grid]], backend: Backend) -> Iterator[Grid]:
    """The jobs' results in order, a few of them in work at any time."""
    if backend.workers < 2:
        with backend.alone():
            yield from (job() for job in jobs)
        return
    with backend.alone(), ThreadPoolExecutor(backend.workers) as pool:
        waiting: deque[Future[Grid]] = deque()
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) > backend.workers + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
