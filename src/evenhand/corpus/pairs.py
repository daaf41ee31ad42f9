"""Counting pairs of words by their distance: the streaming part of a co-occurrence matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.corpus.sums import SparseSum
from evenhand.errors import UsageError

Weighting = Literal["flat", "harmonic", "dynamic"]
# Weight of a pair at distance d in a window of k. GloVe weighs 1/d; word2vec draws the reach of each window uniformly
# from 1 ... k, which keeps a pair at distance d with probability (k - d + 1) / k.
WEIGHTS: dict[str, Callable[[Vector64, int], Vector64]] = {
    "flat": lambda d, k: np.ones_like(d),
    "harmonic": lambda d, k: 1 / d,
    "dynamic": lambda d, k: (k - d + 1) / k,
}


def weights(weighting: str, window: int) -> Vector64:
    """The weights of the distances 1 ... window."""
    if weighting not in WEIGHTS:
        raise UsageError(f"unknown weighting {weighting!r}", hint=f"use {', '.join(get_args(Weighting))}")
    if window < 1:
        raise UsageError(f"a window reaches at least 1 word, got {window}")
    return WEIGHTS[weighting](np.arange(1.0, window + 1), window)


def pair_counts(blocks: Iterable[Rows], by_distance: Vector64) -> SparseSum:
    """Weighted counts of unordered pairs, the smaller number first, within documents (number 0 closes one)."""
    total = SparseSum()
    tail = np.empty(0, dtype=np.intp)
    for block in blocks:
        ids = np.concatenate([tail, block])
        total.add(*_pairs(ids, len(tail), by_distance))
        closed = np.flatnonzero(ids == 0)
        tail = ids[max(len(ids) - len(by_distance), int(closed[-1]) + 1 if len(closed) else 0) :]
    return total


def _pairs(ids: Rows, old: int, by_distance: Vector64) -> tuple[Rows, Rows, Any]:
    """Every pair whose second word is new; the first `old` words were counted among themselves before."""
    document = np.cumsum(ids == 0)
    first, second, values = [], [], []
    for distance, weight in enumerate(by_distance, start=1):
        right = np.arange(max(old, distance), len(ids))
        left = right - distance
        together = (document[left] == document[right]) & (ids[left] > 0)
        a, b = ids[left[together]], ids[right[together]]
        first.append(np.minimum(a, b))
        second.append(np.maximum(a, b))
        values.append(np.full(len(a), weight))
    return np.concatenate(first), np.concatenate(second), np.concatenate(values)
