"""Permutation test for the difference of two means over a re-partition of the pooled values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Literal

import numpy as np

from evenhand.arrays import Vector64
from evenhand.errors import UsageError

EXACT_UP_TO = 200_000
CELLS_AT_ONCE = 8 << 20
Alternative = Literal["greater", "less", "two-sided"]
Ties = Literal["ge", "gt"]


@dataclass(frozen=True)
class PermutationTest:
    """The outcome: the p-value, how many partitions it counts, and whether these are all there are."""

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
    """How often a random re-partition, each side keeping its size, beats the observed mean(first) - mean(second).

    With sides of equal size that is Caliskan's difference of sums. With unequal ones the one-sided tests are still the
    same, but a difference of sums is not centred at 0 under the null, so that its size would be no two-sided test.
    `two-sided` counts differences of at least the observed size in either direction.

    All partitions are counted when there are at most `exact_up_to`, the observed one among them, so that with
    `ties="ge"` p is never 0. Otherwise `samples` partitions are drawn (words without replacement) and p is
    (b + 1) / (m + 1), which counts the observed one too (Phipson & Smyth 2010). `ties="gt"` counts strictly larger
    values only, as Caliskan et al. 2017 and Ethayarajh et al. 2019 print it.
    """
    _check(first, second, samples)
    # Around their mean, so that the common part of the values costs no precision: it cancels in every difference.
    values = np.concatenate([first, second]).astype(np.float64)
    pooled = values - values.mean()
    count = math.comb(len(pooled), len(first))
    sums = _all_sums(pooled, len(first)) if count <= exact_up_to else _drawn_sums(pooled, len(first), samples, seed)
    # The other side has minus this sum: sum(X') says all about mean(X') - mean(Y') = sum(X') (1 / |X| + 1 / |Y|).
    hits = _hits(sums, float(pooled[: len(first)].sum()), alternative, ties, float(np.abs(values).sum()))
    if count <= exact_up_to:
        return PermutationTest(hits / count, count, exact=True)
    return PermutationTest((hits + 1) / (samples + 1), samples, exact=False)


def _check(first: Vector64, second: Vector64, samples: int) -> None:
    if not len(first) or not len(second):
        raise UsageError("a permutation test needs values on both sides")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise UsageError("a permutation test takes numbers, got NaN or infinity", hint="leave undefined values out")
    if samples < 1:
        raise UsageError(f"a sampled permutation test needs at least 1 sample, got {samples}")


def _hits(statistics: Vector64, observed: float, alternative: str, ties: str, scale: float) -> int:
    """Partitions at least as extreme. Equal sums differ by rounding with the order of adding, hence the tolerance."""
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
