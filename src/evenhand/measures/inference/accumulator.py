"""Running sums over the predictions for a probe: everything the scores need, in constant memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64, as_float64
from evenhand.engines import Engine, LocalEngine
from evenhand.measures.inference.pair_statistics import PairColumns, Tables, make_resamples
from evenhand.models.nli import LABELS, Grid, NLIModel
from evenhand.models.nli.over_vectors import ModelOverVectors
from evenhand.models.nli.protocol import RecordedModel, predict_grids, predict_points
from evenhand.stats import wilson
from evenhand.stats.bootstrap import LEVEL
from evenhand.words.probes import Points, Probe, Sample

TOP_PAIRS = 50  # kept for each label
PAIRS_AT_ONCE = 8_192
# Pairs per part, the unit of work of an engine. A model over word vectors evaluates a hundred thousand pairs per second
# and core, and small parts slow it down. Other models may take minutes for a part, and a lost worker loses its part.
PAIRS_IN_PART = 1 << 18
SLOW_PAIRS_IN_PART = 1 << 16
PairProgress = Callable[[int, int, str], None]


class SpanSums(NamedTuple):
    """Sums over a span of phrases; `first` is the index of the first of them."""

    first: int
    tables: Tables
    top_pairs: TopPairs
    resamples: Matrix64 | None


class Accumulator:
    """Sums, most probable pairs and bootstrap resamples of one run; its size does not depend on the number of pairs."""

    def __init__(self, probe: Probe, columns: PairColumns, *, draws: int, seed: int) -> None:
        self.probe, self.columns = probe, columns
        self.tables = Tables(probe.shape, len(columns.names))
        self.top_pairs = TopPairs(len(LABELS), TOP_PAIRS)
        self.resamples = make_resamples(probe, len(columns.names), draws, seed=seed)
        self.sample: SampleStatistics | None = None
        self.first = 0

    def part(self, start: int, stop: int) -> Accumulator:
        """Return an empty accumulator for phrases `start` to `stop`, with the same bootstrap draws."""
        part = copy(self)
        part.first = start
        part.probe = self.probe if stop - start == self.probe.shape[0] else self.probe.part(start, stop)
        part.tables = Tables(part.probe.shape, len(self.columns.names))
        part.top_pairs = TopPairs(len(LABELS), TOP_PAIRS)
        part.resamples = self.resamples.blank() if self.resamples else None
        return part

    def add_grid(self, grid: Grid) -> None:
        """Add the predictions for whole phrases."""
        values = self.columns.compute(grid.probabilities)
        self.tables.add_grid(grid.phrases, values)
        phrases = self.first + grid.phrases
        if self.resamples:
            self.resamples.add_grid(phrases, values)
        each = self.probe.shape[1] * self.probe.shape[2]
        pairs = (phrases[:, None] * each + np.arange(each)).ravel()
        self.top_pairs.add(pairs, grid.probabilities.reshape(-1, len(LABELS)))

    def sums(self) -> SpanSums:
        """Return the sums without the probe and the bootstrap draws, as a worker sends them back."""
        return SpanSums(self.first, self.tables, self.top_pairs, self.resamples.sums if self.resamples else None)

    def add_span(self, span: SpanSums) -> None:
        """Add the sums of some phrases."""
        self.tables.merge(span.tables, span.first)
        self.top_pairs.merge(span.top_pairs)
        if self.resamples and span.resamples is not None:
            self.resamples.sums += span.resamples

    def add_points(self, points: Points, probabilities: Matrix) -> Matrix:
        """Add the predictions for single pairs; return their statistics."""
        values = self.columns.compute(probabilities)
        self.tables.add_points(points, values)
        if self.resamples:
            self.resamples.add_points(points, values)
        self.top_pairs.add(np.ravel_multi_index(points, self.probe.shape), probabilities)
        return values

    def add_sample(self, sample: Sample, probabilities: Matrix) -> None:
        """Add the predictions for a stratified sample."""
        self.sample = SampleStatistics(sample, as_float64(self.add_points(sample.points, probabilities)))


def evaluate_all(
    accumulator: Accumulator,
    model: NLIModel | RecordedModel,
    progress: PairProgress | None,
    engine: Engine | None = None,
) -> None:
    """Evaluate a model on every pair of the probe, part by part.

    The parts and the order of their sums are the same on every engine, so the result is too: the last digits of a
    prediction depend on its batch, those of a sum on the order of its terms.
    """
    probe = accumulator.probe
    if isinstance(model, RecordedModel):
        for grid in _recorded_grids(model, probe):
            accumulator.add_grid(grid)
        return
    spans, engine = _spans(probe, model), engine or LocalEngine()
    done = 0

    def report(phrases: int) -> None:
        nonlocal done
        done += phrases
        if progress:
            progress(done, probe.shape[0], probe.name)

    parts = engine.map(partial(_evaluate_span, model, accumulator, report if engine.here else None), spans)
    for (start, stop), sums in zip(spans, parts, strict=True):
        accumulator.add_span(sums)
        if not engine.here:
            report(stop - start)


def _spans(probe: Probe, model: NLIModel) -> list[tuple[int, int]]:
    phrases, premises, hypotheses = probe.shape
    pairs = PAIRS_IN_PART if isinstance(model, ModelOverVectors) else SLOW_PAIRS_IN_PART
    step = max(1, pairs // (premises * hypotheses))
    return [(start, min(start + step, phrases)) for start in range(0, phrases, step)]


def _evaluate_span(
    model: NLIModel, accumulator: Accumulator, report: Callable[[int], None] | None, span: tuple[int, int]
) -> SpanSums:
    """Evaluate one part of the probe; runs in a worker."""
    part = accumulator.part(*span)
    for grid in predict_grids(model, part.probe):
        part.add_grid(grid)
        if report:
            report(len(grid.phrases))
    return part.sums()


def evaluate_sample(
    accumulator: Accumulator,
    model: NLIModel | RecordedModel,
    sample: Sample,
    progress: PairProgress | None = None,
    engine: Engine | None = None,
) -> None:
    """Evaluate a model on a stratified sample of the probe's pairs."""
    if isinstance(model, RecordedModel):
        # Unpacking, unlike next(), reads the file to its end: surplus rows raise an error.
        (recorded,) = model.recorded(accumulator.probe, [sample.points])
        accumulator.add_sample(sample, recorded.matrix)
        return
    starts = range(0, len(sample), PAIRS_AT_ONCE)
    blocks = [Points(*(indices[start : start + PAIRS_AT_ONCE] for indices in sample.points)) for start in starts]
    predictions: list[Matrix] = []
    for block in (engine or LocalEngine()).map(partial(predict_points, model, accumulator.probe), blocks):
        predictions.append(block)
        if progress:
            progress(sum(map(len, predictions)), len(sample), accumulator.probe.name)
    accumulator.add_sample(sample, np.concatenate(predictions))


def _recorded_grids(model: RecordedModel, probe: Probe) -> Iterator[Grid]:
    phrases, premises, hypotheses = probe.shape
    each = premises * hypotheses
    step = max(1, PAIRS_AT_ONCE // each)
    starts = range(0, phrases, step)
    blocks = (probe.points(start * each, (start + step) * each) for start in starts)
    # strict=True advances the model past its last block, where it raises an error for surplus rows.
    for start, recorded in zip(starts, model.recorded(probe, blocks), strict=True):
        grid = recorded.matrix.reshape(-1, premises, hypotheses, len(LABELS))
        yield Grid(np.arange(start, min(start + step, phrases)), grid)


class TopPairs:
    """The k most probable pairs of each label; of equal ones, those that come first in the probe."""

    def __init__(self, labels: int, k: int) -> None:
        self.k = k
        self.values: list[Vector64] = [np.empty(0) for _ in range(labels)]
        self.pairs: list[Rows] = [np.empty(0, dtype=np.int64) for _ in range(labels)]

    def merge(self, other: TopPairs) -> None:
        """Merge the top pairs of another part; the order of merging does not matter."""
        for label in range(len(self.values)):
            self._keep(label, other.values[label], other.pairs[label])

    def add(self, pairs: Rows, probabilities: Matrix) -> None:
        """Add pairs by their indices, with their (pairs, labels) probabilities."""
        for label in range(len(self.values)):
            column = probabilities[:, label].astype(np.float64)
            if len(column) > self.k:
                # Keep everything that ties with the k-th, so that the order of arrival does not matter.
                least = np.partition(column, -self.k)[-self.k]
                if len(self.values[label]) == self.k and least < self.values[label][-1]:
                    least = self.values[label][-1]
                rows = np.flatnonzero(column >= least)
            else:
                rows = np.arange(len(column))
            self._keep(label, column[rows], pairs[rows])

    def ranking(self, label: int) -> tuple[tuple[int, float], ...]:
        """Return index and probability of the pairs kept for a label, highest first."""
        return tuple(zip(self.pairs[label].tolist(), self.values[label].tolist(), strict=True))

    def _keep(self, label: int, values: Vector64, pairs: Rows) -> None:
        values = np.concatenate([self.values[label], values])
        indices = np.concatenate([self.pairs[label], pairs])
        order = np.lexsort((indices, -values))[: self.k]
        self.values[label], self.pairs[label] = values[order], indices[order]


@dataclass(frozen=True)
class SampleStatistics:
    """The statistics of the sampled pairs, one column each, and the sample they belong to."""

    sample: Sample
    values: Matrix64

    def half_width(self, rows: Rows | None = None) -> Vector64:
        """Return half the width of the 95 % interval for every column mean, over all sampled pairs or some rows."""
        error, quantile, _ = self._error(rows)
        return error * quantile

    def bounds(self, rows: Rows | None = None) -> Matrix64:
        """Return the (2, columns) 95 % intervals for the column means, clipped to [0, 1].

        Columns of zeros and ones get Wilson's interval for the number of independent pairs with the same standard
        error. Around a share of 0 the normal interval would be a single point or extend below 0.
        """
        error, quantile, full = self._error(rows)
        values = self.values if rows is None else self.values[rows]
        mean = values.mean(axis=0)
        bounds = np.stack([mean - quantile * error, mean + quantile * error])
        shares = ((values == 0) | (values == 1)).all(axis=0)
        size = effective_size(mean[shares], error[shares], full)
        bounds[:, shares] = wilson(mean[shares], size, quantile=quantile)
        return np.asarray(np.clip(bounds, 0.0, 1.0))

    def _error(self, rows: Rows | None) -> tuple[Vector64, float, float]:
        """Return the standard error of every column, Student's quantile, and the equivalent infinite-population size.

        The error is sqrt(sum_s (n_s / n)^2 (1 - f) v_s / n_s) with the variance v_s within stratum s and the sampled
        fraction f. The degrees of freedom are pairs minus strata. A stratum with a single pair takes the mean variance
        of the others.
        """
        rows = np.arange(len(self.values)) if rows is None else rows
        stratum, values = self.sample.stratum[rows], self.values[rows]
        _, code = np.unique(stratum, return_inverse=True)
        n = np.bincount(code)[:, None].astype(np.float64)
        means, squares = _sum_by(code, values, len(n)) / n, _sum_by(code, values**2, len(n)) / n
        spread = np.maximum(squares - means**2, 0)
        variance = np.divide(spread * n, n - 1, out=np.full_like(spread, np.nan), where=n > 1)
        defined = np.isfinite(variance[:, 0])
        if not defined.any():
            return np.full(values.shape[1], np.nan), 1.0, float(len(values))
        variance[~defined] = variance[defined].mean(axis=0)
        left = 1 - self.sample.per_stratum / self.sample.stratum_size
        error = np.sqrt(((n / len(values)) ** 2 * left * variance / n).sum(axis=0))
        return error, float(stdtrit(len(values) - len(n), (1 + LEVEL) / 2)), len(values) / left


def effective_size(share: Vector64, error: Vector64, size: float) -> Vector64:
    """Return the number of independent pairs with these standard errors; `size` for shares of 0 or 1."""
    spread = share * (1 - share)
    ordinary = (error > 0) & (spread > 0)
    n = np.divide(spread, error**2, out=np.full_like(spread, size), where=ordinary)
    return np.where(np.isfinite(error), n, np.nan)


def _sum_by(code: Rows, values: Matrix, count: int) -> Matrix64:
    columns = [np.bincount(code, weights=column, minlength=count) for column in values.T]
    return np.stack(columns, axis=1)
