"""Permutation tests: difference of two means, sums whose units change labels, two-way tables; draws that stop early."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.stats.bootstrap import Interval
from evenhand.stats.means import NO_SPREAD, jackknife_interval

EXACT_UP_TO = 200_000
CELLS_AT_ONCE = 4 << 20
Alternative = Literal["greater", "less", "two-sided"]
Ties = Literal["ge", "gt"]
_Kind = TypeVar("_Kind", bound=np.generic)


@dataclass(frozen=True)
class PermutationTest:
    """The p-value, the number of partitions, and whether these are all partitions."""

    p_value: float
    partitions: int
    exact: bool


def permutation_test(
    first: Vector64,
    second: Vector64,
    *,
    alternative: Alternative = "greater",
    ties: Ties = "ge",
    samples: int = 10_000,
    exact_up_to: int = EXACT_UP_TO,
    seed: int = 0,
) -> PermutationTest:
    """Test mean(first) - mean(second) against random partitions of the pooled values into groups of the same sizes.

    For groups of equal size this is equivalent to the difference of sums of Caliskan et al. For unequal groups the
    one-sided tests are equivalent too, but a difference of sums is not centred at 0 under the null hypothesis, so it
    has no two-sided test. `two-sided` counts differences of at least the observed magnitude.

    If there are at most `exact_up_to` partitions, all are counted, including the observed one, so p > 0 with
    `ties="ge"`. Otherwise `samples` partitions are drawn and p = (b + 1) / (m + 1), which also counts the observed one
    (Phipson & Smyth 2010). `ties="gt"` counts strictly larger values only, as in Caliskan et al. 2017 and Ethayarajh et
    al. 2019.
    """
    _check(first, second, samples)
    # Centred for precision; the mean cancels in every difference.
    values = np.concatenate([first, second]).astype(np.float64)
    pooled = values - values.mean()
    # The sums of the two groups add up to 0, so mean(X') - mean(Y') = sum(X') (1 / |X| + 1 / |Y|).
    return partition_test(
        lambda members: np.asarray(pooled[members].sum(axis=1)), len(pooled), len(first),
        observed=float(pooled[: len(first)].sum()), scale=float(np.abs(values).sum()),
        alternative=alternative, ties=ties, samples=samples, exact_up_to=exact_up_to, seed=seed,
    )  # fmt: skip


def partition_test(
    statistic: Callable[[Rows], Vector64],
    total: int,
    size: int,
    *,
    observed: float,
    scale: float = 1.0,
    alternative: Alternative = "greater",
    ties: Ties = "ge",
    samples: int = 10_000,
    exact_up_to: int = EXACT_UP_TO,
    seed: int = 0,
) -> PermutationTest:
    """Test a statistic of `size` of `total` units against partitions, as `permutation_test` does.

    Args:
        statistic: from the (partitions, size) units of the first group to a value for each partition.
        total: number of units.
        size: number of units in the first group.
        observed: the observed value.
        scale: size of what the statistic sums up: differences of 1e-12 of it are rounding.
        alternative: which values count, as in `permutation_test`.
        ties: "ge" counts values at least as large as observed; "gt" strictly larger ones.
        samples: number of random partitions.
        exact_up_to: largest number of partitions to enumerate.
        seed: seed of the random partitions.
    """
    count = math.comb(total, size)
    exact = count <= exact_up_to
    blocks = _all_partitions(total, size) if exact else shuffles(np.arange(total), samples, seed=seed)
    hits = sum(_hits(statistic(block[:, :size]), observed, alternative, ties, scale) for block in blocks)
    if exact:
        return PermutationTest(hits / count, count, exact=True)
    return PermutationTest((hits + 1) / (samples + 1), samples, exact=False)


@dataclass(frozen=True)
class SequentialTest:
    """The p-value, the number of draws that decided it, and how many of these reached the observed value."""

    p_value: float
    draws: int
    reached: int


def sequential_test(reached: NDArray[np.bool_], *, enough: int, most: int) -> SequentialTest | None:
    """Return the p-value of draws that stop early, or None if more draws must be made (Besag & Clifford 1991).

    `reached` says of each draw from the null hypothesis, in the order of drawing, whether its statistic is at least the
    observed one. With the `enough`-th such draw, the l-th of all, the test is decided: p = enough / l. If there are
    fewer among `most` draws, p = (b + 1) / (most + 1) for b of them. Either way P(p <= a) <= a under the null, with
    equality for every value that p can take.
    """
    counts = np.cumsum(reached[:most])
    stop = int(np.searchsorted(counts, enough))
    if stop < len(counts):
        return SequentialTest(enough / (stop + 1), stop + 1, enough)
    if len(counts) < most:
        return None
    return SequentialTest((int(counts[-1]) + 1) / (most + 1), most, int(counts[-1]))


def relabelling_p(contributions: Matrix64, label: int, *, samples: int = 9_999, seed: int = 0) -> float:
    """Return the two-sided p-value of the sum of one label's contributions when each unit draws its label anew.

    All relabellings are counted if there are at most 10,000, a sample of them and the observed one otherwise. With two
    labels and contributions x and -x, this is the test of random changes of sign.

    Args:
        contributions: what each unit would add with each label, (units, labels).
        label: the label of the observed sum.
        samples: number of random relabellings.
        seed: seed of the relabellings.

    >>> relabelling_p(np.array([[1.0, -1.0], [2.0, -2.0], [3.0, -3.0]]), 0)  # 2 of 8 are as extreme
    0.25
    """
    units, labels = contributions.shape
    observed = float(contributions[:, label].sum())
    if labels**units <= samples:
        sums = np.zeros(1)
        for row in contributions:
            sums = (sums[:, None] + row).ravel()
    else:
        drawn = np.random.default_rng(seed).integers(labels, size=(samples, units))
        sums = np.concatenate([[observed], contributions[np.arange(units), drawn].sum(axis=1)])
    limit = abs(observed) - 1e-12 * float(np.abs(contributions).max(axis=1).sum())
    return float(np.mean(np.abs(sums) >= limit))


def _check(first: Vector64, second: Vector64, samples: int) -> None:
    if not len(first) or not len(second):
        raise UsageError("a permutation test needs values in both groups")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise UsageError(
            "a permutation test needs finite numbers, got NaN or infinity", hint="leave out undefined values"
        )
    if samples < 1:
        raise UsageError(f"a sampled permutation test needs at least 1 sample, got {samples}")


def _hits(statistics: Vector64, observed: float, alternative: str, ties: str, scale: float) -> int:
    """Count partitions at least as extreme; the tolerance absorbs rounding in the order of summation."""
    if alternative == "two-sided":
        statistics, observed = np.abs(statistics), abs(observed)
    elif alternative == "less":
        statistics, observed = -statistics, -observed
    elif alternative != "greater":
        raise UsageError(f"unknown alternative {alternative!r}", hint="use greater, less or two-sided")
    if ties not in ("ge", "gt"):
        raise UsageError(f"unknown ties rule {ties!r}", hint="use ge or gt")
    tolerance = 1e-12 * scale
    limit = observed - tolerance if ties == "ge" else observed + tolerance
    return int(np.count_nonzero(statistics >= limit if ties == "ge" else statistics > limit))


def _all_partitions(total: int, size: int) -> Iterator[Rows]:
    ways = combinations(range(total), size)
    while (block := np.fromiter(chain.from_iterable(islice(ways, CELLS_AT_ONCE // total)), dtype=np.int64)).size:
        yield block.reshape(-1, size)


def shuffles(values: NDArray[_Kind], samples: int, *, seed: int = 0) -> Iterator[NDArray[_Kind]]:
    """Yield random orders of the values, one in each row, in blocks of bounded memory."""
    rng, step = np.random.default_rng(seed), max(1, CELLS_AT_ONCE // len(values))
    for start in range(0, samples, step):
        yield rng.permuted(np.broadcast_to(values, (min(step, samples - start), len(values))), axis=1)


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
    drawn = (_statistic(block, starts, sizes, shape) for block in shuffles(residuals, samples, seed=seed))
    hits = sum(int(np.count_nonzero(values >= observed * (1 - 1e-12))) for values in drawn)
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
