"""Everything the scores need, added up while the answers come in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64, as_float64
from evenhand.engines import Engine, LocalEngine
from evenhand.measures.inference.pair_statistics import Columns, Tables
from evenhand.measures.inference.resampling import resampled
from evenhand.measures.inference.sampling_error import SampledValues
from evenhand.models.nli import LABELS, Grid, GridModel, NLIModel
from evenhand.models.nli.callable_model import answers, grids_of
from evenhand.models.nli.over_vectors import ModelOverVectors
from evenhand.models.nli.protocol import RecordedModel
from evenhand.words.probes import Points, Probe, Sample

KEPT_EXTREMES = 50
PAIRS_AT_ONCE = 8_192
# How many pairs are asked by themselves, here or by a worker. A model over word vectors answers a hundred thousand a
# second on a core and is slowed down by small parts; others may take minutes for a part, and a part is what is lost
# with a worker.
PAIRS_IN_PART = 1 << 18
SLOW_PAIRS_IN_PART = 1 << 16
Progress = Callable[[int, int, str], None]


class PartSums(NamedTuple):
    """The sums over some phrases, from the one with the number `first` on."""

    first: int
    tables: Tables
    extremes: Extremes
    resampled: Matrix64 | None


class Gathered:
    """Tables, extremes and resamples of one run; what it holds does not depend on how many pairs there are."""

    def __init__(self, probe: Probe, columns: Columns, *, draws: int, seed: int) -> None:
        self.probe, self.columns = probe, columns
        self.tables = Tables(probe.shape, len(columns.names))
        self.extremes = Extremes(len(LABELS), KEPT_EXTREMES)
        self.resampled = resampled(probe, len(columns.names), draws, seed=seed)
        self.sampled: SampledValues | None = None
        self.first = 0

    def part(self, start: int, stop: int) -> Gathered:
        """An empty one for some of the phrases, with the same draws; its grids number phrases from `start` on."""
        made = copy(self)
        made.probe, made.first = self.probe.part(start, stop), start
        made.tables = Tables(made.probe.shape, len(self.columns.names))
        made.extremes = Extremes(len(LABELS), KEPT_EXTREMES)
        made.resampled = self.resampled.blank() if self.resampled else None
        return made

    def add_grid(self, grid: Grid) -> None:
        """The answers to whole phrases."""
        values = self.columns.of(grid.probabilities)
        self.tables.add_grid(grid.phrases, values)
        phrases = self.first + grid.phrases
        if self.resampled:
            self.resampled.add_grid(phrases, values)
        each = self.probe.shape[1] * self.probe.shape[2]
        pairs = (phrases[:, None] * each + np.arange(each)).ravel()
        self.extremes.add(pairs, grid.probabilities.reshape(-1, len(LABELS)))

    def sums(self) -> PartSums:
        """What was added up, without the probe and the draws."""
        return PartSums(self.first, self.tables, self.extremes, self.resampled.sums if self.resampled else None)

    def add_part(self, part: PartSums) -> None:
        """The sums of some phrases, gathered elsewhere."""
        self.tables.merge(part.tables, part.first)
        self.extremes.merge(part.extremes)
        if self.resampled and part.resampled is not None:
            self.resampled.sums += part.resampled

    def add_points(self, points: Points, probabilities: Matrix) -> None:
        """The answers to single pairs."""
        values = self.columns.of(probabilities)
        self.tables.add_points(points, values)
        if self.resampled:
            self.resampled.add_points(points, values)
        self.extremes.add(np.ravel_multi_index(points, self.probe.shape), probabilities)

    def add_sample(self, sample: Sample, probabilities: Matrix) -> None:
        """The answers to a stratified sample."""
        self.add_points(sample.points, probabilities)
        self.sampled = SampledValues(sample, as_float64(self.columns.of(probabilities)))


def ask_all(
    gathered: Gathered, model: NLIModel | RecordedModel, progress: Progress | None, engine: Engine | None = None
) -> None:
    """Put every pair of the probe to the model, part by part.

    Parts are asked and added up by themselves and in the same order whoever asks them: the answers of a model hang on
    the batches it gets, and sums on their order, in the last digits.
    """
    if isinstance(model, RecordedModel):
        for grid in _recorded(model, gathered.probe):
            gathered.add_grid(grid)
        return
    spans, where = _spans(gathered.probe, model), engine or LocalEngine()
    done = 0

    def tell(phrases: int) -> None:
        nonlocal done
        done += phrases
        if progress:
            progress(done, gathered.probe.shape[0], gathered.probe.name)

    asked = where.map(partial(_asked, model, gathered, tell if where.here else None), spans)
    for (start, stop), part in zip(spans, asked, strict=True):
        gathered.add_part(part)
        if not where.here:
            tell(stop - start)


def _spans(probe: Probe, model: NLIModel) -> list[tuple[int, int]]:
    phrases, premises, hypotheses = probe.shape
    pairs = PAIRS_IN_PART if isinstance(model, ModelOverVectors) else SLOW_PAIRS_IN_PART
    step = max(1, pairs // (premises * hypotheses))
    return [(start, min(start + step, phrases)) for start in range(0, phrases, step)]


def _asked(model: NLIModel, gathered: Gathered, tell: Callable[[int], None] | None, span: tuple[int, int]) -> PartSums:
    """One part of the probe: what a worker does."""
    part = gathered.part(*span)
    for grid in model.grids(part.probe) if isinstance(model, GridModel) else grids_of(model, part.probe):
        part.add_grid(grid)
        if tell:
            tell(len(grid.phrases))
    return part.sums()


def ask_sample(
    gathered: Gathered,
    model: NLIModel | RecordedModel,
    sample: Sample,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> None:
    """Put a stratified sample of the probe to the model."""
    if isinstance(model, RecordedModel):
        # unpacked, not next(): the file is read to its end, and rows left over are an error
        (part,) = model.recorded(gathered.probe, [sample.points])
        found = part.matrix
    else:
        starts = range(0, len(sample), PAIRS_AT_ONCE)
        points = [Points(*(place[start : start + PAIRS_AT_ONCE] for place in sample.points)) for start in starts]
        answered: list[Matrix] = []
        for some in (engine or LocalEngine()).map(partial(answers, model, gathered.probe), points):
            answered.append(some)
            if progress:
                progress(sum(map(len, answered)), len(sample), gathered.probe.name)
        found = np.concatenate(answered)
    gathered.add_sample(sample, found)


def _recorded(model: RecordedModel, probe: Probe) -> Iterator[Grid]:
    phrases, premises, hypotheses = probe.shape
    each = premises * hypotheses
    step = max(1, PAIRS_AT_ONCE // each)
    starts = range(0, phrases, step)
    blocks = (probe.points(start * each, (start + step) * each) for start in starts)
    # strict: the model is asked once more after its last block, and then says when rows are left over
    for start, part in zip(starts, model.recorded(probe, blocks), strict=True):
        grid = part.matrix.reshape(-1, premises, hypotheses, len(LABELS))
        yield Grid(np.arange(start, min(start + step, phrases)), grid)


class Extremes:
    """The k most probable pairs of each label; ties go to the pair that comes first in the probe."""

    def __init__(self, labels: int, k: int) -> None:
        self.k = k
        self.values: list[Vector64] = [np.empty(0) for _ in range(labels)]
        self.pairs: list[Rows] = [np.empty(0, dtype=np.int64) for _ in range(labels)]

    def merge(self, other: Extremes) -> None:
        """Those of other pairs; in which order does not matter."""
        for label in range(len(self.values)):
            self._keep(label, other.values[label], other.pairs[label])

    def add(self, pairs: Rows, probabilities: Matrix) -> None:
        """Numbers of pairs and their (pairs, labels) probabilities."""
        for label in range(len(self.values)):
            column = probabilities[:, label].astype(np.float64)
            if len(column) > self.k:
                # All that tie with the k-th stay in, so that the order of arrival does not decide.
                least = np.partition(column, -self.k)[-self.k]
                if len(self.values[label]) == self.k and least < self.values[label][-1]:
                    least = self.values[label][-1]
                kept = np.flatnonzero(column >= least)
            else:
                kept = np.arange(len(column))
            self._keep(label, column[kept], pairs[kept])

    def listed(self, label: int) -> tuple[tuple[int, float], ...]:
        """Numbers and probabilities of the pairs kept for a label, the highest first."""
        return tuple(zip(self.pairs[label].tolist(), self.values[label].tolist(), strict=True))

    def _keep(self, label: int, values: Vector64, pairs: Rows) -> None:
        values = np.concatenate([self.values[label], values])
        numbers = np.concatenate([self.pairs[label], pairs])
        order = np.lexsort((numbers, -values))[: self.k]
        self.values[label], self.pairs[label] = values[order], numbers[order]
