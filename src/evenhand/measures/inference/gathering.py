"""Everything the scores need, added up while the answers come in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from evenhand.arrays import Matrix, as_float64
from evenhand.measures.inference.columns import Columns
from evenhand.measures.inference.extremes import Extremes
from evenhand.measures.inference.resampling import Resampled
from evenhand.measures.inference.sampled import SampledValues
from evenhand.measures.inference.tables import Tables
from evenhand.models.nli import LABELS, Grid, GridModel, NLIModel
from evenhand.models.nli.asking import answers, grids_of
from evenhand.models.nli.protocol import RecordedModel
from evenhand.words.probes import Points, Probe, Sample

KEPT_EXTREMES = 50
PAIRS_AT_ONCE = 8_192
Progress = Callable[[int, int, str], None]


class Gathered:
    """Tables, extremes and resamples of one run; what it holds does not depend on how many pairs there are."""

    def __init__(self, probe: Probe, columns: Columns, *, draws: int, seed: int) -> None:
        self.probe, self.columns = probe, columns
        self.tables = Tables(probe.shape, len(columns.names))
        self.extremes = Extremes(len(LABELS), KEPT_EXTREMES)
        self.resampled = Resampled(probe, len(columns.names), draws, seed=seed) if draws else None
        self.sampled: SampledValues | None = None

    def add_grid(self, grid: Grid) -> None:
        """The answers to whole phrases."""
        values = self.columns.of(grid.probabilities)
        self.tables.add_grid(grid.phrases, values)
        if self.resampled:
            self.resampled.add_grid(grid.phrases, values)
        each = self.probe.shape[1] * self.probe.shape[2]
        pairs = (grid.phrases[:, None] * each + np.arange(each)).ravel()
        self.extremes.add(pairs, grid.probabilities.reshape(-1, len(LABELS)))

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


def ask_all(gathered: Gathered, model: NLIModel | RecordedModel, progress: Progress | None) -> None:
    """Put every pair of the probe to the model."""
    probe, done = gathered.probe, 0
    if isinstance(model, RecordedModel):
        for grid in _recorded(model, probe):
            gathered.add_grid(grid)
        return
    for grid in model.grids(probe) if isinstance(model, GridModel) else grids_of(model, probe):
        gathered.add_grid(grid)
        done += len(grid.phrases)
        if progress:
            progress(done, probe.shape[0], probe.name)


def ask_sample(gathered: Gathered, model: NLIModel | RecordedModel, sample: Sample) -> None:
    """Put a stratified sample of the probe to the model."""
    if isinstance(model, RecordedModel):
        # unpacked, not next(): the file is read to its end, and rows left over are an error
        (part,) = model.recorded(gathered.probe, [sample.points])
        found = part.matrix
    else:
        found = answers(model, gathered.probe, sample.points)
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
