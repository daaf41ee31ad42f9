"""E and d of Dawkins 2021, and their permutation test over words.

The printed eq. 2 divides by 2 |S|, which is four times too much: all 40 values of the tables are the distance between
the two means. The printed eq. 1 averages over sentences; all 20 values of table 1 are distances of the groups' means.
"""

from __future__ import annotations

import math
from itertools import chain, combinations, islice

import numpy as np

from evenhand.arrays import Floats, Matrix64, Vector64
from evenhand.errors import UsageError
from evenhand.stats import PermutationTest
from evenhand.stats.permutation import EXACT_UP_TO, Ties

ALL_NEUTRAL = np.array([0.0, 1.0, 0.0])  # (entailment, neutral, contradiction)
ROWS_AT_ONCE = 20_000
ROUNDING = 1e-12


def gender_gap(first: Floats, second: Floats) -> Vector64:
    """d: the distance between mean triples, (..., 3) each; 0 also for a model that always answers the same."""
    return np.asarray(np.linalg.norm(np.asarray(first, np.float64) - np.asarray(second, np.float64), axis=-1))


def error(first: Floats, second: Floats) -> Vector64:
    """E at the level of group means: the mean over the two groups of the distance from all neutral."""
    away = [np.linalg.norm(np.asarray(mean, np.float64) - ALL_NEUTRAL, axis=-1) for mean in (first, second)]
    return np.asarray((away[0] + away[1]) / 2)


def gap_test(
    first: Matrix64,
    second: Matrix64,
    *,
    ties: Ties = "ge",
    samples: int = 10_000,
    exact_up_to: int = EXACT_UP_TO,
    seed: int = 0,
) -> PermutationTest:
    """How often words dealt to two groups of the same sizes are as far apart: rows are the mean triples of words.

    All partitions are counted when there are at most `exact_up_to`; otherwise `samples` are drawn and p is
    (b + 1) / (m + 1). `ties="gt"` counts strictly larger distances only, as the paper does.
    """
    if first.ndim != 2 or second.ndim != 2 or not len(first) or not len(second):
        raise UsageError("the test takes the mean triples of the words of two groups")
    pooled = np.concatenate([first, second])
    observed = float(gender_gap(first.mean(axis=0), second.mean(axis=0)))
    total, size, count = len(pooled), len(first), math.comb(len(pooled), len(first))
    exact = count <= exact_up_to
    blocks = _all(total, size) if exact else _drawn(total, size, samples, seed)
    hits = sum(_hits(pooled, block, observed, ties) for block in blocks)
    if exact:
        return PermutationTest(hits / count, count, exact=True)
    return PermutationTest((hits + 1) / (samples + 1), samples, exact=False)


def _hits(pooled: Matrix64, chosen: np.ndarray, observed: float, ties: Ties) -> int:
    size, rest = chosen.shape[1], len(pooled) - chosen.shape[1]
    sums = pooled[chosen].sum(axis=1)
    distances = gender_gap(sums / size, (pooled.sum(axis=0) - sums) / rest)
    limit = observed - ROUNDING if ties == "ge" else observed + ROUNDING
    return int(np.count_nonzero(distances >= limit if ties == "ge" else distances > limit))


def _all(total: int, size: int) -> chain[np.ndarray]:
    ways = combinations(range(total), size)
    blocks = iter(lambda: list(islice(ways, ROWS_AT_ONCE)), [])
    return chain.from_iterable([np.array(block)] for block in blocks)


def _drawn(total: int, size: int, samples: int, seed: int) -> chain[np.ndarray]:
    rng = np.random.default_rng(seed)
    counts = (min(ROWS_AT_ONCE, samples - done) for done in range(0, samples, ROWS_AT_ONCE))
    places = np.arange(total)
    return chain.from_iterable(
        [rng.permuted(np.broadcast_to(places, (count, total)), axis=1)[:, :size]] for count in counts
    )
