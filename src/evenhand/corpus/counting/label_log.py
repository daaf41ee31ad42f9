"""The group labels of all hits of a text, in order and by document."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.counting.token_block import TokenBlock

LabelSequence = NDArray[np.int8]  # (hits,)


@dataclass(frozen=True)
class LabelLog:
    """The label of every hit of a text in order, and the number of hits of each document that has any.

    Takes one byte for each hit.
    """

    labels: LabelSequence
    sizes: Rows

    @property
    def starts(self) -> Rows:
        """The index of the first hit of each document."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    @classmethod
    def joined(cls, logs: list[LabelLog]) -> LabelLog:
        """Join the logs of shards in their order; no document spans two shards."""
        return cls(np.concatenate([log.labels for log in logs]), np.concatenate([log.sizes for log in logs]))


class LabelLogger:
    """Collects a `LabelLog` from the blocks of one shard."""

    def __init__(self) -> None:
        self._labels: list[LabelSequence] = [np.empty(0, dtype=np.int8)]
        self._sizes: list[Rows] = []
        self._last = -1  # the document of the last hit

    def add(self, block: TokenBlock) -> None:
        """Add the labels of a block."""
        if not len(block.hits):
            return
        documents, sizes = np.unique(block.document + np.searchsorted(block.ends, block.hits), return_counts=True)
        sizes = sizes.astype(np.int64)
        if self._sizes and documents[0] == self._last:
            self._sizes[-1][-1] += sizes[0]
            sizes = sizes[1:]
        if len(sizes):
            self._sizes.append(sizes)
        self._labels.append(block.labels[0].astype(np.int8))
        self._last = int(documents[-1])

    def log(self) -> LabelLog:
        """Return the collected labels."""
        sizes = np.concatenate(self._sizes) if self._sizes else np.empty(0, dtype=np.int64)
        return LabelLog(np.concatenate(self._labels), sizes)
