"""Fixed window: how many words of a group stand within k places of each word, exact, by prefix sums.

A hit at place p adds 1 to the places p-k ... p+k that lie in its document. Adding +1 where that stretch begins and -1
behind its end, the running sum gives the count at every place; the hit does not count for itself.
"""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Rows
from evenhand.corpus.blocks import Block, empty_block
from evenhand.corpus.sums import Sink


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
