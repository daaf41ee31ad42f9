"""Two-way tables: what a cell has beyond the sum of its row and its column, and a test of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.stats.bootstrap import Interval
from evenhand.stats.means import NO_SPREAD, jackknife_interval

CELLS_AT_ONCE = 4 << 20


def interactions(means: Matrix64) -> Matrix64:
    """Return what each cell mean has beyond the sum of its parts: m_ij - m_i. - m_.j + m_.. for (..., rows, columns).

    The marginal means are unweighted means over cells, so that large cells do not decide what a row is like. Rows and
    columns of the result add up to 0.

    >>> interactions(np.array([[3.0, 1.0], [1.0, 1.0]])).tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    rows, columns = means.mean(axis=-1, keepdims=True), means.mean(axis=-2, keepdims=True)
    return np.asarray(means - rows - columns + means.mean(axis=(-2, -1), keepdims=True))


@dataclass(frozen=True, eq=False)
class InteractionTest:
    """The interaction of a two-way table.

    Attributes:
        means: mean of each cell (rows, columns).
        expected: the sum of the two parts, m_i. + m_.j - m_..
        effects: mean minus expected, in units of `deviation`.
        intervals: of the effects, by cell.
        deviation: pooled standard deviation within cells.
        strength: square root of the mean squared effect; 0 where the parts add up.
        p_value: of the hypothesis that the parts add up.
        left_out: the effects with one value left out each, (values, rows, columns); values in the order of the cells.
    """

    means: Matrix64
    expected: Matrix64
    effects: Matrix64
    intervals: tuple[tuple[Interval, ...], ...]
    deviation: float
    strength: float
    p_value: float
    left_out: Matrix64


def interaction_test(cells: Sequence[Sequence[Vector64]], *, samples: int = 10_000, seed: int = 0) -> InteractionTest:
    """Test whether the cells of a table are the sum of a row part and a column part.

    The statistic is the sum of squared effects. Its null distribution permutes the residuals of the additive model over
    all values (Freedman & Lane 1983), so that row and column differences of any size are allowed for; p = (b + 1) /
    (m + 1). The intervals let the values within cells vary, and the standard deviation with them; there are none if a
    cell has two values only.

    Args:
        cells: values of each cell, as rows of columns; two values or more each.
        samples: number of permutations.
        seed: seed of the permutations.

    Raises:
        DegenerateError: If the values of no cell vary.
    """
    shape = (len(cells), len(cells[0]))
    if min(shape) < 2 or any(len(row) != shape[1] for row in cells):
        raise UsageError(f"an interaction needs a full table of two rows and two columns or more, got {shape}")
    flat = [np.asarray(values, dtype=np.float64) for row in cells for values in row]
    sizes = np.array([len(values) for values in flat])
    if sizes.min() < 2:
        raise UsageError(f"a cell has {sizes.min()} values", hint="each cell needs two values or more")
    if samples < 1:
        raise UsageError(f"samples must be at least 1, got {samples}")
    values = np.concatenate(flat)
    means = np.array([part.mean() for part in flat]).reshape(shape)
    within = sum(float(((part - part.mean()) ** 2).sum()) for part in flat)
    deviation = float(np.sqrt(within / (len(values) - len(flat))))
    if deviation <= NO_SPREAD * max(float(np.abs(values).max()), 1e-300):
        raise DegenerateError("the values do not vary within cells", hint="an interaction is measured against that")
    raw = interactions(means)
    expected = means - raw
    residuals = values - np.repeat(expected.ravel(), sizes)
    starts = np.cumsum(sizes) - sizes
    observed = _statistic(residuals[None], starts, sizes, shape)[0]
    rng = np.random.default_rng(seed)
    hits, step = 0, max(1, CELLS_AT_ONCE // len(values))
    for start in range(0, samples, step):
        count = min(step, samples - start)
        shuffled = rng.permuted(np.broadcast_to(residuals, (count, len(residuals))), axis=1)
        hits += int(np.count_nonzero(_statistic(shuffled, starts, sizes, shape) >= observed * (1 - 1e-12)))
    effects = raw / deviation
    return InteractionTest(
        means, expected, effects, _intervals(flat, shape), deviation,
        float(np.sqrt((effects**2).mean())), (hits + 1) / (samples + 1), _left_out(flat, shape),
    )  # fmt: skip


def _statistic(values: Matrix64, starts: Rows, sizes: Rows, shape: tuple[int, int]) -> Vector64:
    """Return the sum of squared effects of each row of values, over the variance within cells."""
    means = np.add.reduceat(values, starts, axis=1) / sizes
    squares = np.add.reduceat(values**2, starts, axis=1) - sizes * means**2
    variance = squares.sum(axis=1) / (values.shape[1] - len(sizes))
    effects = interactions(means.reshape(-1, *shape))
    return np.asarray((effects**2).sum(axis=(1, 2)) / np.maximum(variance, 1e-300))


def _intervals(cells: Sequence[Vector64], shape: tuple[int, int]) -> tuple[tuple[Interval, ...], ...]:
    """Return the interval of each effect, with the sampling error of the standard deviation that it is divided by."""
    codes, columns = _columns(cells)

    def bounds(row: int, column: int) -> Interval:
        return jackknife_interval(
            lambda sums: _effects(sums, shape)[:, row, column], columns, strata=codes, skewed=False
        )

    return tuple(tuple(bounds(row, column) for column in range(shape[1])) for row in range(shape[0]))


def _left_out(cells: Sequence[Vector64], shape: tuple[int, int]) -> Matrix64:
    _, columns = _columns(cells)
    with np.errstate(all="ignore"):
        return _effects(columns.sum(axis=0) - columns, shape)


def _columns(cells: Sequence[Vector64]) -> tuple[Rows, Matrix64]:
    """Return the cell of each value, and its part in the counts, sums and sums of squares of all cells."""
    codes = np.repeat(np.arange(len(cells)), [len(values) for values in cells])
    values = np.concatenate(cells)
    values = values - values.mean()
    own = codes[:, None] == np.arange(len(cells))
    return codes, np.concatenate([own, own * values[:, None], own * values[:, None] ** 2], axis=1).astype(np.float64)


def _effects(sums: Matrix64, shape: tuple[int, int]) -> Matrix64:
    """Return the effects of the cells from rows of column sums."""
    counts, totals, squares = np.split(sums, 3, axis=1)
    variance = (squares - totals**2 / counts).sum(axis=1) / (counts - 1).sum(axis=1)
    return np.asarray(interactions((totals / counts).reshape(-1, *shape)) / np.sqrt(variance)[:, None, None])
