"""How a map changes a set of vectors: words changed, share of variance kept, and a warning when little is left."""

from __future__ import annotations

import warnings

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import EvenhandWarning
from evenhand.mitigations.maps import Chain, RowNormalise, VectorMap
from evenhand.mitigations.maps.application import BLOCK_VALUES, check_dim
from evenhand.mitigations.maps.backend import NUMPY
from evenhand.models.vectors import Vectors

SAMPLE = 50_000  # words; measuring a larger table in full would take as long as applying the map
UNCHANGED = 1e-6  # of a row's length: the error of rounding to float32
# Share of the variance below which little of the original vectors is left. With default parameters the methods of this
# package keep between .31 (half-sibling regression) and 1 of the variance of the embedded vectors.
MIN_VARIANCE_KEPT = 0.1


def map_report(vm: VectorMap, v: Vectors) -> dict[str, object]:
    """Return the number of words that the map changes and the share of the vocabulary's variance it keeps.

    A table larger than `SAMPLE` words is measured on blocks spread evenly over it, and `measured_on` is the number of
    words measured. The variance is around the mean of each side, so a shift keeps all of it; a map that makes vectors
    longer may give more than 1. A map that begins by scaling to unit length is compared with the vectors at unit
    length: lengths carry no information about the concept. Warns if less than `MIN_VARIANCE_KEPT` is kept.
    """
    check_dim(vm, v.dim)
    first, rest = _split_scaling(vm)
    before, after, changed = _Moments(v.dim), _Moments(vm.out_dim_of(v.dim) or 0), 0
    size = max(1, BLOCK_VALUES // v.dim)
    for start in range(0, len(v), size * max(1, len(v) // SAMPLE)):
        words = v.words[start : start + size]
        original = v.matrix[start : start + size].astype(np.float64)
        original = original if first is None else first.transform(original, NUMPY, words)
        mapped = rest.transform(original, NUMPY, words)
        changed += _count_changed(original, mapped, before.add(original), after.add(mapped))
    total = before.variance()
    kept = after.variance() / total if total else 1.0
    if kept < MIN_VARIANCE_KEPT:
        _warn_variance(kept, vm, v)
    report: dict[str, object] = {
        "words_changed": round(changed / max(before.n, 1) * len(v)),
        "variance_kept": kept,
    }
    return report if before.n == len(v) else {**report, "measured_on": before.n}


def _warn_variance(kept: float, vm: VectorMap, v: Vectors) -> None:
    warnings.warn(
        f"the map keeps only {100 * kept:.1f} % of the variance of {v.name} ({vm.rank_removed} of {v.dim} dimensions "
        f"removed; below {100 * MIN_VARIANCE_KEPT:.0f} % the vectors have lost most of their content, and measures on "
        "them say little): use a weaker setting or another method",
        EvenhandWarning,
        stacklevel=5,
    )


def _split_scaling(vm: VectorMap) -> tuple[VectorMap | None, VectorMap]:
    """Return the scaling to unit length that a map begins with, or None, and the rest of the map."""
    if isinstance(vm, Chain) and len(vm.parts) > 1 and isinstance(vm.parts[0], RowNormalise):
        return vm.parts[0], Chain(vm.parts[1:])
    return None, vm


def _count_changed(before: Matrix64, after: Matrix64, before_squares: Vector64, after_squares: Vector64) -> int:
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
        """Add the rows and return their squared lengths."""
        squares = np.einsum("ij,ij->i", block, block)
        self.n += len(block)
        self.total += np.ones(len(block)) @ block
        self.squares += float(squares.sum())
        return np.asarray(squares, dtype=np.float64)

    def variance(self) -> float:
        return max(0.0, self.squares - float(self.total @ self.total) / max(self.n, 1))
