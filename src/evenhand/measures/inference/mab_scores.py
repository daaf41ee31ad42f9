"""E and d of Dawkins 2021, and their permutation test over words.

Two formulas differ from the printed ones. Eq. 2 divides by 2 |S|, four times too much: all 40 values of the tables are
the distance between the two means. Eq. 1 averages over sentences, but all 20 values of table 1 are distances of group
means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, islice

import numpy as np

from evenhand.arrays import Floats, Matrix64, Rows, Vector64
from evenhand.errors import UsageError
from evenhand.stats import PermutationTest
from evenhand.stats.permutation import EXACT_UP_TO, Ties

ALL_NEUTRAL = np.array([0.0, 1.0, 0.0])  # (entailment, neutral, contradiction)
ROWS_AT_ONCE = 20_000
ROUNDING = 1e-12


def gender_gap(first: Floats, second: Floats) -> Vector64:
    """Return d, the distance between two (..., 3) mean triples; 0 also for a model with a constant answer."""
    return np.asarray(np.linalg.norm(np.asarray(first, np.float64) - np.asarray(second, np.float64), axis=-1))


def error(first: Floats, second: Floats) -> Vector64:
    """Return E of the group means: the mean over the two groups of the distance from all neutral."""
    distances = [np.linalg.norm(np.asarray(mean, np.float64) - ALL_NEUTRAL, axis=-1) for mean in (first, second)]
    return np.asarray((distances[0] + distances[1]) / 2)


def gap_test(
    first: Matrix64,
    second: Matrix64,
    *,
    ties: Ties = "ge",
    samples: int = 10_000,
    exact_up_to: int = EXACT_UP_TO,
    seed: int = 0,
) -> PermutationTest:
    """Test d by permuting the words between the two groups.

    All partitions are enumerated if there are at most `exact_up_to`; otherwise `samples` are drawn and p is
    (b + 1) / (m + 1).

    Args:
        first: Mean triples of the words of the first group.
        second: Mean triples of the words of the second group.
        ties: "ge" counts distances at least as large as observed; "gt" strictly larger ones, as the paper does.
        samples: Number of random partitions.
        exact_up_to: Largest number of partitions to enumerate.
        seed: Seed of the random partitions.
    """
    if first.ndim != 2 or second.ndim != 2 or not len(first) or not len(second):
        raise UsageError("the test needs the mean triples of the words of two non-empty groups")
    pooled = np.concatenate([first, second])
    observed = float(gender_gap(first.mean(axis=0), second.mean(axis=0)))
    total, size, count = len(pooled), len(first), math.comb(len(pooled), len(first))
    exact = count <= exact_up_to
    blocks = _all_partitions(total, size) if exact else _random_partitions(total, size, samples, seed)
    hits = sum(_count_hits(pooled, block, observed, ties) for block in blocks)
    if exact:
        return PermutationTest(hits / count, count, exact=True)
    return PermutationTest((hits + 1) / (samples + 1), samples, exact=False)


def _count_hits(pooled: Matrix64, members: Rows, observed: float, ties: Ties) -> int:
    size, rest = members.shape[1], len(pooled) - members.shape[1]
    sums = pooled[members].sum(axis=1)
    distances = gender_gap(sums / size, (pooled.sum(axis=0) - sums) / rest)
    limit = observed - ROUNDING if ties == "ge" else observed + ROUNDING
    return int(np.count_nonzero(distances >= limit if ties == "ge" else distances > limit))


def _all_partitions(total: int, size: int) -> Iterator[Rows]:
    ways = combinations(range(total), size)
    return (np.array(block) for block in iter(lambda: list(islice(ways, ROWS_AT_ONCE)), []))


def _random_partitions(total: int, size: int, samples: int, seed: int) -> Iterator[Rows]:
    rng = np.random.default_rng(seed)
    counts = (min(ROWS_AT_ONCE, samples - done) for done in range(0, samples, ROWS_AT_ONCE))
    words = np.arange(total)
    return (rng.permuted(np.broadcast_to(words, (count, total)), axis=1)[:, :size] for count in counts)
