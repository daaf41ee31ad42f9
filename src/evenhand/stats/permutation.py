"""Permutation tests: a difference of two means, a sum whose units change their label, draws that stop early."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Vector64
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
