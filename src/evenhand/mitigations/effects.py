"""What a map does to a set of vectors: words changed, variance kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.arrays import Floats, Matrix64, row_norms
from evenhand.mitigations.maps import VectorMap, apply_blocks
from evenhand.models.vectors import Vectors

UNCHANGED = 1e-6  # of a row's length: what rounding to float32 may move it by


def effects(vm: VectorMap, v: Vectors) -> dict[str, Any]:
    """How many words the map moves, and the share of the total variance over the vocabulary that is left after it.

    One pass in blocks of rows. The variance is around the mean of each side, so that a mere shift keeps all of it;
    a map that makes vectors longer may give more than 1.
    """
    before, after, changed, start = _Moments(v.dim), _Moments(vm.out_dim_of(v.dim) or 0), 0, 0
    for block in apply_blocks(vm, v.matrix, v.words):
        original = v.matrix[start : start + len(block)].astype(np.float64)
        changed += _moved(original, block.astype(np.float64))
        before.add(original)
        after.add(block)
        start += len(block)
    total = before.variance()
    return {"words_changed": changed, "variance_kept": after.variance() / total if total else 1.0}


def _moved(before: Matrix64, after: Matrix64) -> int:
    if before.shape != after.shape:
        return len(before)
    return int(np.count_nonzero(row_norms(after - before) > UNCHANGED * row_norms(before)))


class _Moments:
    """Sums over rows that arrive in blocks."""

    def __init__(self, dim: int) -> None:
        self.n, self.total, self.squares = 0, np.zeros(dim), 0.0

    def add(self, block: Floats) -> None:
        self.n += len(block)
        self.total += block.sum(axis=0, dtype=np.float64)
        self.squares += float(np.square(block, dtype=np.float64).sum())

    def variance(self) -> float:
        return max(0.0, self.squares - float(self.total @ self.total) / max(self.n, 1))
