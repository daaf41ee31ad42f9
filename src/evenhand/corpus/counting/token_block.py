"""A stretch of a corpus as token ids, with the positions of document ends and group words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows

Labels: TypeAlias = NDArray[np.int8]  # (labellings, hits): the group of each hit


@dataclass(frozen=True)
class TokenBlock:
    """Token ids in order; id 0 closes a document, `hits` are the positions of group words.

    `labels` holds one labelling, the true one, or several if labels are shuffled. `document` is the number of the
    document in which the block begins, and `offset` the number of tokens of that document before the block.
    """

    ids: Rows
    ends: Rows
    hits: Rows
    labels: Labels
    document: int = 0
    offset: int = 0

    @property
    def open_from(self) -> int:
        """Position at which the document begins that the block does not close."""
        return int(self.ends[-1]) + 1 if len(self.ends) else 0

    def units(self, positions: Rows, length: int) -> Rows:
        """Return the resampling unit of each position: its document, or its stretch of `length` tokens of that."""
        index = np.searchsorted(self.ends, positions)
        starts = np.concatenate([[-self.offset], self.ends + 1])[index]
        return np.asarray(self.document + index + (positions - starts) // length, dtype=np.int64)

    def after(self, other: TokenBlock) -> TokenBlock:
        """Return the other block followed by this one."""
        shift = len(other.ids)
        return TokenBlock(
            np.concatenate([other.ids, self.ids]),
            np.concatenate([other.ends, self.ends + shift]),
            np.concatenate([other.hits, self.hits + shift]),
            np.concatenate([other.labels, self.labels], axis=1),
            other.document if shift else self.document,
            other.offset if shift else self.offset,
        )

    def tail(self, start: int) -> TokenBlock:
        """Return the open document from a position on."""
        later = np.searchsorted(self.hits, start)
        hits, labels = self.hits[later:] - start, self.labels[:, later:]
        offset = start - self.open_from if len(self.ends) else start + self.offset
        return TokenBlock(self.ids[start:], self.ends[:0], hits, labels, self.document + len(self.ends), offset)


def empty_block(labellings: int) -> TokenBlock:
    """Return a block without tokens."""
    none = np.empty(0, dtype=np.intp)
    return TokenBlock(none, none, none, np.empty((labellings, 0), dtype=np.int8))


def blocks(ids: Iterator[Rows], groups: Labels) -> Iterator[TokenBlock]:
    """Yield blocks from arrays of token ids in which the group words have the ids 1, 2, ...

    `groups[id - 1]` is the group of such a word. One comparison finds hits and ends because both have small ids.
    """
    document = offset = 0
    for part in ids:
        low = np.flatnonzero(part <= len(groups))
        numbers = part[low]
        ends, hits = low[numbers == 0], low[numbers > 0]
        yield TokenBlock(part, ends, hits, groups[numbers[numbers > 0] - 1][None], document, offset)
        document += len(ends)
        offset = len(part) - int(ends[-1]) - 1 if len(ends) else offset + len(part)
