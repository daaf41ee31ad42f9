"""Fixed window: how many words of a group stand within k places of each word, exact, by prefix sums.

A hit at place p adds 1 to the places p-k ... p+k that lie in its document. Adding +1 where that stretch begins and -1
behind its end, the running sum gives the count at every place; the hit does not count for itself.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.corpus.counting.accumulators import Sink
from evenhand.corpus.counting.token_block import Block, empty_block


class FixedWindow:
    """Feeds the counts of each block to a sink; a document may run over any number of blocks."""

    dtype = np.int64

    def __init__(self, reach: int, groups: int, labellings: int = 1) -> None:
        self._reach, self._groups = reach, groups
        self._tail, self._credited = empty_block(labellings), 0

    def feed(self, block: Block, sink: Sink) -> None:
        """Credit every word whose neighbours on both sides are known; keep the rest of the open document."""
        joined = block.after(self._tail)
        stop = max(joined.open_from, len(joined.ids) - self._reach)
        begin, ids = self._credited, joined.ids[self._credited : stop]
        documents = joined.documents(begin, stop) if sink.by_document else None
        low, high = _stretches(joined, self._reach)
        for labelling, labels in enumerate(joined.labels):
            for group in range(self._groups):
                chosen = labels == group
                counts = _covered(low[chosen], high[chosen], len(joined.ids))
                counts[joined.hits[chosen]] -= 1
                sink.add(labelling, group, ids, counts[begin:stop], documents)
        keep = max(joined.open_from, stop - self._reach)
        self._tail, self._credited = joined.tail(keep), stop - keep


def _stretches(block: Block, reach: int) -> tuple[Rows, Rows]:
    """Where the surroundings of each hit begin and end inside its document."""
    place = np.searchsorted(block.ends, block.hits)
    first = np.concatenate([[0], block.ends + 1])[place]
    behind = np.append(block.ends, len(block.ids))[place]
    return np.maximum(block.hits - reach, first), np.minimum(block.hits + reach + 1, behind)


def _covered(low: Rows, high: Rows, length: int) -> Rows:
    steps = np.zeros(length + 1, dtype=np.int64)
    np.add.at(steps, low, 1)
    np.add.at(steps, high, -1)
    return np.cumsum(steps[:-1], out=steps[:-1])


class Decay:
    """Feeds the weights of each block to a sink; a document may run over any number of blocks."""

    dtype = np.float64

    def __init__(self, base: float, groups: int, labellings: int = 1) -> None:
        self._base = base
        self._left = np.zeros((labellings, groups))
        self._waiting: tuple[Rows, Vector64] = (np.empty(0, dtype=np.intp), np.empty(0))
        self._powers: Vector64 = np.ones(1)

    def feed(self, block: Block, sink: Sink) -> None:
        """Credit the words of the block, and the words before it in the same document with what the block adds."""
        length = len(block.ids)
        if length >= len(self._powers):
            self._powers = np.power(self._base, np.arange(2.0 * length))
        documents = block.documents(0, length) if sink.by_document else None
        first_end = block.ends[0] if len(block.ends) else length
        for labelling, group in np.ndindex(self._left.shape):
            hits = block.hits[block.labels[labelling] == group]
            self._credit_waiting(labelling, group, hits[hits < first_end], block.document, sink)
            before, after = self._both_sides(hits, block, (labelling, group))
            weights = before + after
            weights[block.ends] = 0
            sink.add(labelling, group, block.ids, weights, documents)
        self._wait(block)

    def _credit_waiting(self, labelling: int, group: int, hits: Rows, document: int, sink: Sink) -> None:
        ids, powers = self._waiting
        if len(ids) and len(hits):
            documents = np.full(len(ids), document) if sink.by_document else None
            sink.add(labelling, group, ids, powers * self._powers[hits].sum(), documents)

    def _both_sides(self, hits: Rows, block: Block, state: tuple[int, ...]) -> tuple[Vector64, Vector64]:
        length = len(block.ids)
        before, self._left[state] = self._from_left(hits, block.ends, length, float(self._left[state]))
        mirrored = (length - 1 - hits[::-1], length - 1 - block.ends[::-1])
        after, _ = self._from_left(*mirrored, length, 0.0)
        return before, after[::-1]

    def _from_left(self, hits: Rows, ends: Rows, length: int, entering: float) -> tuple[Vector64, float]:
        """L at each place, and the one at the place behind the last; `entering` is L at place 0."""
        events = np.concatenate([hits, ends])
        order = np.argsort(events, kind="stable")
        strengths = np.concatenate([self._strengths(hits, ends, entering), np.zeros(len(ends))])[order]
        places = np.concatenate([[0], events[order]])
        strengths = np.concatenate([[entering], strengths])
        # An event counts from the place after it on; what enters counts from place 0 on.
        begins = np.concatenate([[0], places[1:] + 1, [length]])
        spans = np.diff(begins)
        distance = np.arange(length) - np.repeat(places, spans)
        return np.repeat(strengths, spans) * self._powers[distance], float(
            strengths[-1] * self._powers[length - places[-1]]
        )

    def _strengths(self, hits: Rows, ends: Rows, entering: float) -> Vector64:
        """1 + L at each hit: the recursion itself, from hit to hit, broken at ends of documents."""
        document = np.searchsorted(ends, hits)
        same = document == np.concatenate([[0], document[:-1]]) if len(hits) else np.empty(0, dtype=bool)
        ratios = np.where(same, self._powers[hits - np.concatenate([[0], hits[:-1]])] if len(hits) else 0.0, 0.0)
        run = accumulate(ratios.tolist(), lambda strength, ratio: 1.0 + strength * ratio, initial=entering)
        return np.fromiter(run, dtype=np.float64, count=len(hits) + 1)[1:]

    def _wait(self, block: Block) -> None:
        length, start = len(block.ids), block.open_from
        ids, powers = block.ids[start:], self._powers[length - np.arange(start, length)]
        if not len(block.ends) and len(self._waiting[0]):
            ids = np.concatenate([self._waiting[0], ids])
            powers = np.concatenate([self._waiting[1] * self._powers[length], powers])
        sums = np.bincount(ids, weights=powers, minlength=1).astype(np.float64)
        words = np.flatnonzero(sums)
        self._waiting = (words, sums[words])
