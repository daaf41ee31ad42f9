"""What a map does to a set of vectors: words changed, variance kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.mitigations.maps import Chain, RowNormalise, VectorMap
from evenhand.mitigations.maps.application import BLOCK_VALUES, check_dim
from evenhand.mitigations.maps.backend import NUMPY
from evenhand.models.vectors import Vectors

ENOUGH = 50_000  # words; a second pass over a larger table would take as long as applying the map
UNCHANGED = 1e-6  # of a row's length: what rounding to float32 may move it by


def effects(vm: VectorMap, v: Vectors) -> dict[str, Any]:
    """How many words the map moves, and the share of the total variance over the vocabulary that is left after it.

    One pass in blocks of rows; of a table larger than `ENOUGH`, blocks spread evenly over it, and `measured_on` says
    on how many words the two numbers then rest. The variance is around the mean of each side, so that a mere shift
    keeps all of it; a map that makes vectors longer may give more than 1. A map that begins by scaling vectors to
    length 1 is compared with the vectors at that length: the loss of lengths says nothing about the concept.
    """
    check_dim(vm, v.dim)
    first, rest = _scaling(vm)
    before, after, changed = _Moments(v.dim), _Moments(vm.out_dim_of(v.dim) or 0), 0
    size = max(1, BLOCK_VALUES // v.dim)
    for start in range(0, len(v), size * max(1, len(v) // ENOUGH)):
        words = v.words[start : start + size]
        original = v.matrix[start : start + size].astype(np.float64)
        original = original if first is None else first.transform(original, NUMPY, words)
        mapped = rest.transform(original, NUMPY, words)
        changed += _moved(original, mapped, before.add(original), after.add(mapped))
    total = before.variance()
    found = {
        "words_changed": round(changed / max(before.n, 1) * len(v)),
        "variance_kept": after.variance() / total if total else 1.0,
    }
    return found if before.n == len(v) else {**found, "measured_on": before.n}


def _scaling(vm: VectorMap) -> tuple[VectorMap | None, VectorMap]:
    """The scaling to length 1 that a map begins with, if it does, and the rest of it."""
    if isinstance(vm, Chain) and len(vm.parts) > 1 and isinstance(vm.parts[0], RowNormalise):
        return vm.parts[0], Chain(vm.parts[1:])
    return None, vm


def _moved(before: Matrix64, after: Matrix64, before_squares: Vector64, after_squares: Vector64) -> int:
    if before.shape != after.shape:
        return len(before)
    # |a - b|^2 without forming a - b; in double precision this resolves 1e-8 of a length, well below UNCHANGED.
    squares = before_squares + after_squares - 2 * np.einsum("ij,ij->i", before, after)
    return int(np.count_nonzero(squares > UNCHANGED**2 * before_squares))


class _Moments:
    """Sums over rows that arrive in blocks."""

    def __init__(self, dim: int) -> None:
        self.n, self.total, self.squares = 0, np.zeros(dim), 0.0

    def add(self, block: Matrix64) -> Vector64:
        """Count the rows in; gives their squared lengths."""
        squares = np.einsum("ij,ij->i", block, block)
        self.n += len(block)
        self.total += np.ones(len(block)) @ block
        self.squares += float(squares.sum())
        return np.asarray(squares, dtype=np.float64)

    def variance(self) -> float:
        return max(0.0, self.squares - float(self.total @ self.total) / max(self.n, 1))
