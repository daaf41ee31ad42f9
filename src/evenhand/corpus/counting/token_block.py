"""A stretch of a corpus as numbers, with the places that matter: ends of documents and words of the groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows

Labels: TypeAlias = NDArray[np.int8]  # (labellings, hits): which group each hit counts for


@dataclass(frozen=True)
class Block:
    """Word numbers in order; number 0 closes a document, `hits` are places of group words.

    There is one labelling, the true one, or several when labels are shuffled. `document` is the number of the
    document that the block begins in.
    """

    ids: Rows
    ends: Rows
    hits: Rows
    labels: Labels
    document: int = 0

    @property
    def open_from(self) -> int:
        """Where the document begins that the block does not close."""
        return int(self.ends[-1]) + 1 if len(self.ends) else 0

    def documents(self, start: int, stop: int) -> Rows:
        """The number of the document at each place between two."""
        return self.document + np.searchsorted(self.ends, np.arange(start, stop))

    def after(self, other: Block) -> Block:
        """Two stretches as one."""
        shift = len(other.ids)
        return Block(
            np.concatenate([other.ids, self.ids]),
            np.concatenate([other.ends, self.ends + shift]),
            np.concatenate([other.hits, self.hits + shift]),
            np.concatenate([other.labels, self.labels], axis=1),
            other.document,
        )

    def tail(self, start: int) -> Block:
        """The part of the open document from a place on."""
        later = np.searchsorted(self.hits, start)
        none = self.ends[:0]
        hits, labels = self.hits[later:] - start, self.labels[:, later:]
        return Block(self.ids[start:], none, hits, labels, self.document + len(self.ends))


def empty_block(labellings: int) -> Block:
    """A stretch of nothing."""
    none = np.empty(0, dtype=np.intp)
    return Block(none, none, none, np.empty((labellings, 0), dtype=np.int8))


def blocks(ids: Iterator[Rows], groups: Labels) -> Iterator[Block]:
    """Blocks out of arrays of word numbers in which the words of the groups are numbered from 1 on.

    `groups[number - 1]` is the group of such a word. One comparison finds hits and ends, for both have small numbers.
    """
    document = 0
    for part in ids:
        low = np.flatnonzero(part <= len(groups))
        numbers = part[low]
        ends, hits = low[numbers == 0], low[numbers > 0]
        yield Block(part, ends, hits, groups[numbers[numbers > 0] - 1][None], document)
        document += len(ends)
