"""Permutation test for the difference of two means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Literal

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.errors import UsageError

EXACT_UP_TO = 200_000
CELLS_AT_ONCE = 8 << 20
Alternative = Literal["greater", "less", "two-sided"]
Ties = Literal["ge", "gt"]


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
    count = math.comb(len(pooled), len(first))
    sums = _all_sums(pooled, len(first)) if count <= exact_up_to else _drawn_sums(pooled, len(first), samples, seed)
    # The sums of the two groups add up to 0, so mean(X') - mean(Y') = sum(X') (1 / |X| + 1 / |Y|).
    hits = _hits(sums, float(pooled[: len(first)].sum()), alternative, ties, float(np.abs(values).sum()))
    if count <= exact_up_to:
        return PermutationTest(hits / count, count, exact=True)
    return PermutationTest((hits + 1) / (samples + 1), samples, exact=False)


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


def _all_sums(pooled: Vector64, size: int) -> Vector64:
    count = math.comb(len(pooled), size)
    flat = chain.from_iterable(combinations(range(len(pooled)), size))
    chosen = np.fromiter(flat, dtype=np.intp, count=count * size).reshape(count, size)
    return np.asarray(pooled[chosen].sum(axis=1))


def _drawn_sums(pooled: Vector64, size: int, samples: int, seed: int) -> Vector64:
    rng = np.random.default_rng(seed)
    sums = np.empty(samples)
    step = max(1, CELLS_AT_ONCE // len(pooled))
    for start in range(0, samples, step):
        rows = min(step, samples - start)
        shuffled = rng.permuted(np.broadcast_to(pooled, (rows, len(pooled))), axis=1)
        sums[start : start + rows] = shuffled[:, :size].sum(axis=1)
    return sums


def holm(p_values: Sequence[float] | Vector64) -> Vector64:
    """Return p-values adjusted by Holm (1979), which controls the family-wise error rate.

    The k-th smallest of m is multiplied by m - k + 1, then a running maximum is taken. No independence is assumed.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p, order, back = _sorted(p_values)
    scaled = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.asarray(np.minimum(scaled, 1.0)[back])


def benjamini_hochberg(p_values: Sequence[float] | Vector64) -> Vector64:
    """Return p-values adjusted by Benjamini & Hochberg (1995), which controls the false discovery rate.

    The k-th smallest of m is multiplied by m / k, then a running minimum from the largest is taken. It is valid for
    independent and for positively dependent tests.

    >>> benjamini_hochberg([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.04, 0.04]
    """
    p, order, back = _sorted(p_values)
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    lowest = np.minimum.accumulate(scaled[::-1])[::-1]
    return np.asarray(np.minimum(lowest, 1.0)[back])


def _sorted(p_values: Sequence[float] | Vector64) -> tuple[Vector64, Rows, Rows]:
    """Return the values, the order that sorts them, and its inverse."""
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1:
        raise UsageError(f"p-values must be one-dimensional, got shape {p.shape}")
    invalid = p[~((p >= 0) & (p <= 1))]
    if len(invalid):
        raise UsageError(f"a p-value must be between 0 and 1, got {invalid[0]}", hint="leave out undefined tests")
    order = np.argsort(p, kind="stable").astype(np.int64)
    return p, order, np.argsort(order, kind="stable").astype(np.int64)
