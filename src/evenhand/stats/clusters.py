"""Clustered values: those that share a word or a template are not independent. Intervals, and the cluster bootstrap."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np

from evenhand.arrays import Floats, Matrix64, Rows, Vector64
from evenhand.errors import UsageError
from evenhand.stats.bootstrap import RESAMPLES, Interval
from evenhand.stats.means import FEWEST, NO_SPREAD, UNLIMITED, EstimatorMoments, Limits, combined, moments

MAX_CELLS = 50_000_000  # of the table of cluster combinations: 400 MB
CELLS_AT_ONCE = 4 << 20
EXTREME, ENOUGH_CLUSTERS = 0.1, 25  # where the interval of a share by two kinds of clusters is approximate


def cluster_weights(
    clusters: Sequence[Sequence[Hashable]], count: int = RESAMPLES, *, seed: int = 0
) -> tuple[Matrix64, ...]:
    """Return how often each cluster is drawn: (count, clusters) weights per clustering, in order of appearance.

    The weight of a value is the product of the weights of its clusters, one per clustering (pigeonhole bootstrap, Owen
    2007). With one clustering this is the usual cluster bootstrap; if every value is its own cluster, it is the
    ordinary bootstrap.
    """
    rng = np.random.default_rng(seed)
    sizes = [int(codes.max()) + 1 for codes in _coded(clusters)]
    return tuple(rng.multinomial(size, np.full(size, 1 / size), size=count).astype(np.float64) for size in sizes)


def clustered_means(
    values: Floats, clusters: Sequence[Sequence[Hashable]], *, count: int = RESAMPLES, seed: int = 0
) -> Matrix64:
    """Return the mean of the values in each cluster bootstrap draw: (count,), or (count, columns) for a matrix.

    `clusters` has one label per value in each clustering: `[words]`, or `[words, templates]` to resample both. Columns
    are resampled together, so differences between them (before and after) stay paired. A draw without any value has
    mean NaN. Values are first summed by combination of clusters, so the cost depends on the number of combinations.
    """
    columns = np.asarray(values, dtype=np.float64)
    matrix = columns.reshape(len(columns), -1)
    sums = clustered_sums(np.column_stack([matrix, np.ones(len(matrix))]), clusters, count=count, seed=seed)
    means = np.divide(sums[:, :-1], sums[:, -1:], out=np.full_like(sums[:, :-1], np.nan), where=sums[:, -1:] > 0)
    return means[:, 0] if columns.ndim == 1 else means


def clustered_sums(
    values: Matrix64, clusters: Sequence[Sequence[Hashable]], *, count: int = RESAMPLES, seed: int = 0
) -> Matrix64:
    """Return the sum of each column in each cluster bootstrap draw, (count, columns); see `clustered_means`."""
    codes = _coded(clusters)
    if any(len(code) != len(values) for code in codes):
        raise UsageError(f"{len(values)} values need {len(values)} labels in each clustering")
    return _contracted(_table(values, codes), cluster_weights(clusters, count, seed=seed))


def cluster_moments(values: Floats, clusters: Sequence[Sequence[Hashable]]) -> EstimatorMoments:
    """Return the moments of the mean of values that share one or two kinds of clusters.

    A cluster contributes the sum of its deviations from the mean. With two clusterings, the variance is the sum of both
    minus that of the combinations, which both contain (Cameron, Gelbach & Miller 2011), and not below the larger one.
    The pigeonhole bootstrap counts the combinations three times and is too wide where they matter.
    """
    codes = _coded(clusters)
    numbers = np.asarray(values, dtype=np.float64)
    if any(len(code) != len(numbers) for code in codes):
        raise UsageError(f"{len(numbers)} values need {len(numbers)} labels in each clustering")
    if len(codes) > 2:
        raise UsageError(f"intervals are defined for one or two clusterings, got {len(codes)}")
    parts = [_one_way(numbers, code) for code in codes]
    if len(parts) == 1:
        return parts[0]
    both = combined(parts, [1.0, 1.0])
    cells = _one_way(numbers, codes[0] * (int(codes[1].max()) + 1) + codes[1])
    largest = max(part.variance for part in parts)
    variance = max(both.variance - cells.variance, largest)
    return both._replace(variance=variance, third=both.third - cells.third)


def clustered_interval(
    values: Floats, clusters: Sequence[Sequence[Hashable]], *, limits: Limits = UNLIMITED, share: bool = False
) -> Interval:
    """Return the interval of a mean over clusters; None for fewer than three clusters in some clustering.

    Args:
        values: one number for each case.
        clusters: one label per value in each clustering, as in `clustered_means`.
        limits: the smallest and the largest possible mean.
        share: whether the values are shares from 0 to 1, whose interval is Wilson's for the effective number of cases.
    """
    units = min(len(set(labels)) for labels in clusters)
    if units < FEWEST:
        return None
    spread, mean = cluster_moments(values, clusters), float(np.mean(values))
    return spread.share_interval(mean, units) if share else spread.interval(mean, limits=limits)


def crossed_share_note(share: float, clusters: Sequence[Sequence[Hashable]]) -> str:
    """Return what to say beside the interval of a share by two kinds of clusters where it is not a 95 % interval.

    In simulation that is near 0 and 1, with few clusters of some kind (`docs/explanation/intervals.md`).
    """
    extreme = 0 < share <= EXTREME or 1 - EXTREME <= share < 1
    fewest = min(len(set(labels)) for labels in clusters)
    if len(clusters) < 2 or not extreme or fewest >= ENOUGH_CLUSTERS:
        return ""
    return (
        f"the interval of a share this near to 0 or 1, with {fewest} clusters of one kind, is approximate: it covers "
        "86 to 98 % in simulation, least where clusters differ much"
    )


def _one_way(values: Vector64, codes: Rows) -> EstimatorMoments:
    """Return the moments of the mean when whole clusters vary: those of the sums of deviations, times their number."""
    _, codes = np.unique(codes, return_inverse=True)
    away = values - values.mean()
    if np.abs(away).max() <= NO_SPREAD * np.abs(values).max():
        away = np.zeros_like(away)
    sums = np.bincount(codes, weights=away)
    return moments(sums * (len(sums) / len(values)))


def _coded(clusters: Sequence[Sequence[Hashable]]) -> tuple[Rows, ...]:
    """Return the labels as integers from 0, in order of appearance."""
    if not clusters or isinstance(clusters[0], str) or not len(clusters[0]):
        raise UsageError("clusters must be one or more lists of labels, one label per value", hint="use [words]")
    return tuple(_codes(labels) for labels in clusters)


def _codes(labels: Sequence[Hashable]) -> Rows:
    seen: dict[Hashable, int] = {}
    return np.array([seen.setdefault(label, len(seen)) for label in labels], dtype=np.int64)


def _table(columns: Matrix64, codes: tuple[Rows, ...]) -> Matrix64:
    """Sum each column over each combination of clusters: (clusters, ..., columns)."""
    shape = tuple(int(code.max()) + 1 for code in codes)
    if math.prod(shape) * columns.shape[1] > MAX_CELLS:
        raise UsageError(
            f"{' x '.join(map(str, shape))} combinations of clusters are too many", hint="use fewer clusterings"
        )
    flat = np.ravel_multi_index(codes, shape)
    sums = [np.bincount(flat, weights=column, minlength=math.prod(shape)) for column in columns.T]
    return np.stack(sums, axis=-1).astype(np.float64).reshape(*shape, columns.shape[1])


def _contracted(table: Matrix64, weights: tuple[Matrix64, ...]) -> Matrix64:
    """Contract the table with the weights, one clustering after the other, in blocks of draws."""
    draws, columns = len(weights[0]), table.shape[-1]
    first = table.reshape(table.shape[0], -1)
    step = max(1, CELLS_AT_ONCE // first.shape[1])
    out = np.empty((draws, columns))
    for start in range(0, draws, step):
        part = weights[0][start : start + step] @ first
        for weight in weights[1:]:
            block = weight[start : start + step]
            part = np.einsum("bl,blr->br", block, part.reshape(len(block), block.shape[1], -1))
        out[start : start + step] = part
    return out
