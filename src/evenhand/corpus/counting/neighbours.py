"""The words near each hit of a text, as sparse matrices: found once, summed under many labellings of the hits.

Fixed window: the co-occurrences with a group are the sum of its hits' columns in a matrix (words, hits).

Decay: the weight of a position is what its nearest hit on each side passes on, times decay^distance. What a hit passes
on to the right is L(h) = x(h) + decay^gap L(h - 1), where x(h) is 1 for a hit of the group and the gap is that to the
previous hit of the document; to the left likewise. So two matrices of the weights between neighbouring hits do, with
at most two entries for each token, however far the decay reaches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.corpus.counting.windows import Labels, SparseMatrix, Table, TokenBlock, empty_block, stretches

PAIRS = 1 << 23  # pairs of a hit and a word in one matrix: about 100 MB
SINGLE = 1 << 24  # counts below this are exact in single precision


@dataclass(frozen=True, eq=False)
class Neighbours:
    """How often each scored word stands in the window of each hit, for consecutive hits of a text.

    `near` is (words, hits); `width` is the number of positions in the window of each hit, whatever word they hold.
    """

    near: SparseMatrix
    width: NDArray[np.int64]
    first: int
    """The number of the first hit."""

    @property
    def hits(self) -> int:
        """How many hits there are."""
        return len(self.width)

    @property
    def pairs(self) -> int:
        """How many entries there are to keep."""
        return int(self.near.nnz)

    def sums(self, labels: Labels, groups: int) -> Table:
        """Return (labellings, groups, words + 1): co-occurrences under each labelling; the last word is all others.

        One product of the sparse matrix with all labellings for each group but the last, which has what remains.
        """
        words = self.near.shape[0]
        table = np.empty((len(labels), groups, words + 1), dtype=np.int64)
        remaining = np.empty(words + 1, dtype=np.int64)
        remaining[:words] = self.near.sum(axis=1)
        remaining[words] = self.width.sum() - remaining[:words].sum()
        dtype = np.float32 if remaining.sum() < SINGLE else np.float64
        near = self.near.astype(dtype)
        left = np.broadcast_to(remaining, (len(labels), words + 1))
        for group in range(groups - 1):
            chosen = labels == group
            counts = table[:, group]
            counts[:, :words] = (near @ chosen.T.astype(dtype)).T
            counts[:, words] = chosen @ self.width - counts[:, :words].sum(axis=1)
            left = left - counts
        table[:, groups - 1] = left
        return cast(Table, table)


def window_neighbours(blocks: Iterable[TokenBlock], window: int, first_word: int, words: int) -> Iterator[Neighbours]:
    """Yield the neighbours of all hits of a shard, a few million pairs at a time.

    The scored words have the ids from `first_word` on; a document may span any number of blocks. The windows of a hit
    may be divided between two matrices that follow each other.
    """
    tail, credited, number = empty_block(1), 0, 0  # `number`: of the first hit of the tail
    parts: list[tuple[Rows, Rows, Rows, Rows]] = []
    for block in blocks:
        joined = block.after(tail)
        stop = max(joined.open_from, len(joined.ids) - window)
        parts.append(_pairs(joined, window, (credited, stop), number, (first_word, first_word + words)))
        tail_start = max(joined.open_from, stop - window)
        number += int(np.searchsorted(joined.hits, tail_start))
        tail, credited = joined.tail(tail_start), stop - tail_start
        if sum(len(hits) for hits, *_ in parts) >= PAIRS:
            yield _matrix(parts, words)
            parts = []
    if parts:
        yield _matrix(parts, words)


def _pairs(
    block: TokenBlock, window: int, credited: tuple[int, int], number: int, scored: tuple[int, int]
) -> tuple[Rows, Rows, Rows, Rows]:
    """Return hit and word of every pair with a scored word, and each hit with the width of its window.

    Only positions between the bounds `credited` count: others were paired before, or have hits not read yet.
    """
    low, high = (np.clip(ends, *credited) for ends in stretches(block, window))
    lengths = high - low
    hits = number + np.arange(len(block.hits))
    rows = np.repeat(hits, lengths)
    behind = np.cumsum(lengths)
    positions = np.arange(len(rows)) + np.repeat(low - behind + lengths, lengths)
    words = block.ids[positions] - scored[0]
    kept = (words >= 0) & (words < scored[1] - scored[0])
    own = (block.hits >= credited[0]) & (block.hits < credited[1])
    used = lengths > 0
    return rows[kept], words[kept], hits[used], (lengths - own)[used]


def _matrix(parts: list[tuple[Rows, Rows, Rows, Rows]], words: int) -> Neighbours:
    from scipy.sparse import coo_array

    rows, columns, hits, lengths = (np.concatenate(column) for column in zip(*parts, strict=True))
    first = int(hits.min()) if len(hits) else 0
    width = np.zeros(int(hits.max()) + 1 - first if len(hits) else 0, dtype=np.int64)
    np.add.at(width, hits - first, lengths)
    shape = (words, len(width))
    places = (columns.astype(np.int32), (rows - first).astype(np.int32))
    near = coo_array((np.ones(len(rows), dtype=np.int32), places), shape=shape).tocsr()
    return Neighbours(near, width, first)


@dataclass(frozen=True, eq=False)
class DecayNeighbours:
    """The weights of words between neighbouring hits of a whole shard.

    `right` and `left` are (words + 1, hits): decay^distance of the positions to the right of each hit up to the next
    one, and to its left up to the previous one. The last word stands for all unscored words. `ratio` is decay^gap to
    the previous hit of the same document, 0 for the first.
    """

    right: SparseMatrix
    left: SparseMatrix
    ratio: Vector64
    first: int = 0

    @property
    def hits(self) -> int:
        """How many hits there are."""
        return len(self.ratio)

    @property
    def pairs(self) -> int:
        """How many entries there are to keep."""
        return int(self.right.nnz + self.left.nnz)

    def sums(self, labels: Labels, groups: int) -> Table:
        """Return (labellings, groups, words + 1): the weights under each labelling; the last word is all others."""
        table = np.empty((len(labels), groups, self.right.shape[0]))
        to_next = np.append(self.ratio[1:], 0.0)
        for group in range(groups):
            own = (labels == group).T.astype(np.float64)
            passed = _scan(own, self.ratio), _scan(own[::-1], to_next[::-1])[::-1]
            table[:, group] = (self.right @ passed[0] + self.left @ passed[1]).T
        return cast(Table, table)


def _scan(own: Matrix64, ratio: Vector64) -> Matrix64:
    """Return L with L(h) = own(h) + ratio(h) L(h - 1), by doubling the reach of each sum; ratio(0) must be 0."""
    sums, factor, step = own.copy(), ratio.copy(), 1
    while step < len(factor) and factor[step:].any():
        sums[step:] += factor[step:, None] * sums[:-step]
        factor[step:] = factor[step:] * factor[:-step]
        step *= 2
    return sums


def decay_neighbours(
    blocks: Iterable[TokenBlock], decay: float, first_word: int, words: int, *, most: int
) -> list[DecayNeighbours] | None:
    """Return the weights of a shard between neighbouring hits, or None if there are more than `most`."""
    reach = int(np.ceil(np.log(np.finfo(np.float64).smallest_subnormal) / np.log(decay))) + 1  # decay^reach is 0
    tail, credited, number = empty_block(1), 0, 0  # `number`: of the first hit of the tail
    sides: tuple[list[_Entries], list[_Entries]] = ([], [])
    ratios: list[Vector64] = []
    pairs = 0
    for block in blocks:
        joined = block.after(tail)
        known = int(np.searchsorted(joined.hits, credited))
        sides[0].append(_to_the_right(joined, decay, credited, number, first_word, words))
        sides[1].append(_to_the_left(joined, decay, known, number, first_word, words))
        ratios.append(_ratios(joined, decay)[known:])
        pairs += sum(len(side[-1][0]) for side in sides)
        if pairs > most:
            return None
        later = joined.hits[joined.hits >= joined.open_from]
        tail_start = max(int(later[-1]) if len(later) else joined.open_from, len(joined.ids) - reach)
        number += int(np.searchsorted(joined.hits, tail_start))
        tail, credited = joined.tail(tail_start), len(joined.ids) - tail_start
    ratio = np.concatenate(ratios) if ratios else np.empty(0)
    right, left = (_weights(side, words, len(ratio)) for side in sides)
    return [DecayNeighbours(right, left, ratio)]


_Entries = tuple[Rows, Rows, Vector64]  # word, hit, weight


def _to_the_right(block: TokenBlock, decay: float, begin: int, number: int, first_word: int, words: int) -> _Entries:
    """Return the weights of positions from `begin` on to the nearest hit before them."""
    positions = np.arange(begin, len(block.ids))
    index = np.searchsorted(block.hits, positions, side="left") - 1
    return _entries(block, positions, index, decay, number, first_word, words)


def _to_the_left(block: TokenBlock, decay: float, known: int, number: int, first_word: int, words: int) -> _Entries:
    """Return the weights of positions to the nearest hit behind them, if it is not among the first `known`."""
    begin = int(block.hits[known - 1]) if known else 0
    positions = np.arange(begin, len(block.ids))
    index = np.searchsorted(block.hits, positions, side="right")
    index[index == len(block.hits)] = -1
    return _entries(block, positions, index, decay, number, first_word, words)


def _entries(
    block: TokenBlock, positions: Rows, index: Rows, decay: float, number: int, first_word: int, words: int
) -> _Entries:
    """Return word, hit and weight of positions with a hit of the same document."""
    if not len(block.hits):
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), np.empty(0)
    document = np.searchsorted(block.ends, positions)
    paired = (index >= 0) & (block.ids[positions] != 0)
    paired &= np.searchsorted(block.ends, block.hits)[index] == document
    positions, index = positions[paired], index[paired]
    ids = block.ids[positions] - first_word
    weights = np.power(decay, np.abs(positions - block.hits[index]).astype(np.float64))
    kept = weights > 0
    return np.where(ids < 0, words, ids)[kept], (number + index)[kept], weights[kept]


def _ratios(block: TokenBlock, decay: float) -> Vector64:
    """Return decay^gap between each hit and the previous one of its document; 0 for the first."""
    document = np.searchsorted(block.ends, block.hits)
    ratio = np.zeros(len(block.hits))
    gaps = np.diff(block.hits).astype(np.float64)
    ratio[1:] = np.where(np.diff(document) == 0, np.power(decay, gaps), 0.0)
    return ratio


def _weights(side: list[_Entries], words: int, hits: int) -> SparseMatrix:
    from scipy.sparse import coo_array, csr_array

    if not side:
        return csr_array((words + 1, hits), dtype=np.float64)
    rows, columns, weights = (np.concatenate(column) for column in zip(*side, strict=True))
    places = (rows.astype(np.int32), columns.astype(np.int32))
    return coo_array((weights, places), shape=(words + 1, hits)).tocsr()
