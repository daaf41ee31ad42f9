"""Exact co-occurrence weights of every word with each group: a fixed window by prefix sums, or a decay.

Fixed window: a hit at position p adds 1 to the positions p-k ... p+k of its document. Adding +1 where that stretch
begins and -1 behind its end, the running sum gives the count at every position; a hit does not count for itself.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.corpus.counting.accumulators import Sink
from evenhand.corpus.counting.token_block import TokenBlock, empty_block


class FixedWindow:
    """Add the counts of each block to a sink; a document may span any number of blocks."""

    dtype = np.int64

    def __init__(self, window: int, groups: int, labellings: int = 1) -> None:
        self._window, self._groups = window, groups
        self._tail, self._credited = empty_block(labellings), 0

    def feed(self, block: TokenBlock, sink: Sink) -> None:
        """Credit every word whose whole window has been read; keep the rest of the open document."""
        joined = block.after(self._tail)
        stop = max(joined.open_from, len(joined.ids) - self._window)
        begin = self._credited
        low, high = stretches(joined, self._window)
        for labelling, labels in enumerate(joined.labels):
            for group in range(self._groups):
                chosen = labels == group
                counts = _coverage(low[chosen], high[chosen], len(joined.ids))
                counts[joined.hits[chosen]] -= 1
                near = begin + np.flatnonzero(counts[begin:stop] != 0)
                units = joined.units(near, sink.unit) if sink.unit else None
                sink.add(labelling, group, joined.ids.take(near), counts.take(near), units)
        tail_start = max(joined.open_from, stop - self._window)
        self._tail, self._credited = joined.tail(tail_start), stop - tail_start


def stretches(block: TokenBlock, window: int) -> tuple[Rows, Rows]:
    """Return where the window of each hit begins and ends inside its document."""
    index = np.searchsorted(block.ends, block.hits)
    first = np.concatenate([[0], block.ends + 1])[index]
    behind = np.append(block.ends, len(block.ids))[index]
    return np.maximum(block.hits - window, first), np.minimum(block.hits + window + 1, behind)


def _coverage(low: Rows, high: Rows, length: int) -> Rows:
    """Return how many stretches cover each position."""
    steps = np.zeros(length + 1, dtype=np.int64)
    np.add.at(steps, low, 1)
    np.add.at(steps, high, -1)
    return np.cumsum(steps[:-1], out=steps[:-1])


class Decay:
    """Add the weights decay^distance of each block to a sink; a document may span any number of blocks."""

    dtype = np.float64

    def __init__(self, base: float, groups: int, labellings: int = 1) -> None:
        self._base = base
        self._left = np.zeros((labellings, groups))
        # Ids, weights at the start of the next block, and units of the words of the open document.
        none = np.empty(0, dtype=np.intp)
        self._waiting: tuple[Rows, Vector64, Rows] = (none, np.empty(0), none)
        self._powers: Vector64 = np.ones(1)

    def feed(self, block: TokenBlock, sink: Sink) -> None:
        """Credit the words of the block, and earlier words of the same document with the hits of the block."""
        length = len(block.ids)
        if length >= len(self._powers):
            self._powers = np.power(self._base, np.arange(2.0 * length))
        units = block.units(np.arange(length), sink.unit) if sink.unit else None
        first_end = block.ends[0] if len(block.ends) else length
        for labelling, group in np.ndindex(self._left.shape):
            hits = block.hits[block.labels[labelling] == group]
            self._credit_waiting(labelling, group, hits[hits < first_end], sink)
            before, after = self._both_sides(hits, block, (labelling, group))
            weights = before + after
            weights[block.ends] = 0
            sink.add(labelling, group, block.ids, weights, units)
        self._wait(block, units)

    def _credit_waiting(self, labelling: int, group: int, hits: Rows, sink: Sink) -> None:
        ids, powers, units = self._waiting
        if len(ids) and len(hits):
            sink.add(labelling, group, ids, powers * self._powers[hits].sum(), units if sink.unit else None)

    def _both_sides(self, hits: Rows, block: TokenBlock, state: tuple[int, ...]) -> tuple[Vector64, Vector64]:
        length = len(block.ids)
        before, self._left[state] = self._from_left(hits, block.ends, length, float(self._left[state]))
        mirrored = (length - 1 - hits[::-1], length - 1 - block.ends[::-1])
        after, _ = self._from_left(*mirrored, length, 0.0)
        return before, after[::-1]

    def _from_left(self, hits: Rows, ends: Rows, length: int, entering: float) -> tuple[Vector64, float]:
        """Return L at each position and behind the last one; `entering` is L at position 0."""
        events = np.concatenate([hits, ends])
        order = np.argsort(events, kind="stable")
        strengths = np.concatenate([self._strengths(hits, ends, entering), np.zeros(len(ends))])[order]
        positions = np.concatenate([[0], events[order]])
        strengths = np.concatenate([[entering], strengths])
        # An event counts from the position after it; what enters counts from position 0.
        begins = np.concatenate([[0], positions[1:] + 1, [length]])
        spans = np.diff(begins)
        distance = np.arange(length) - np.repeat(positions, spans)
        return np.repeat(strengths, spans) * self._powers[distance], float(
            strengths[-1] * self._powers[length - positions[-1]]
        )

    def _strengths(self, hits: Rows, ends: Rows, entering: float) -> Vector64:
        """Return 1 + L at each hit: the recursion from hit to hit, restarted at document ends."""
        document = np.searchsorted(ends, hits)
        same = document == np.concatenate([[0], document[:-1]]) if len(hits) else np.empty(0, dtype=bool)
        ratios = np.where(same, self._powers[hits - np.concatenate([[0], hits[:-1]])] if len(hits) else 0.0, 0.0)
        run = accumulate(ratios.tolist(), lambda strength, ratio: 1.0 + strength * ratio, initial=entering)
        return np.fromiter(run, dtype=np.float64, count=len(hits) + 1)[1:]

    def _wait(self, block: TokenBlock, units: Rows | None) -> None:
        """Keep the weights that words of the open document give to hits of later blocks, summed by word and unit."""
        length, start = len(block.ids), block.open_from
        ids, powers = block.ids[start:], self._powers[length - np.arange(start, length)]
        labels = np.zeros(len(ids), dtype=np.int64) if units is None else units[start:]
        if not len(block.ends) and len(self._waiting[0]):
            ids = np.concatenate([self._waiting[0], ids])
            powers = np.concatenate([self._waiting[1] * self._powers[length], powers])
            labels = np.concatenate([self._waiting[2], labels])
        lowest, width = int(labels[0]) if len(labels) else 0, int(ids.max(initial=0)) + 1  # units never decrease
        if units is None:
            sums = np.bincount(ids, weights=powers, minlength=1).astype(np.float64)
            words = np.flatnonzero(sums)
            self._waiting = (words, sums[words], np.zeros(len(words), dtype=np.int64))
            return
        keys, inverse = np.unique((labels - lowest) * width + ids, return_inverse=True)
        sums = np.bincount(inverse, weights=powers, minlength=len(keys)).astype(np.float64)
        used = np.flatnonzero(sums)
        self._waiting = (keys[used] % width, sums[used], keys[used] // width + lowest)
