"""The non-zero counts of a co-occurrence matrix, dealt at random into blocks that a GloVe trainer takes one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows, Vector64
from evenhand.errors import DegenerateError, FormatError

if TYPE_CHECKING:
    from evenhand.corpus import Cooccurrence

FEW = 64
PER_WORD = 4  # entries for each word of the vocabulary: in a small one, larger blocks would hit a row too often at once


@dataclass(frozen=True, eq=False)
class Block:
    """Some entries, sorted by word: their words and contexts, and each entry's place among these."""

    words: Rows
    contexts: Rows
    word_of: NDArray[np.int32]
    context_of: NDArray[np.int32]
    starts: NDArray[np.int32]
    """Where the entries of each word begin, and the end: the row pointer of a CSR matrix."""
    log_counts: Vector64 | NDArray[np.float32]
    weights: Vector64 | NDArray[np.float32]
    """f(X) = min(1, X / x_max) ** alpha."""

    def __len__(self) -> int:
        return len(self.log_counts)

    @property
    def word_hits(self) -> Rows:
        """How many entries each word has here."""
        return np.diff(self.starts)

    @property
    def context_hits(self) -> Rows:
        """How many entries each context has here."""
        return np.bincount(self.context_of, minlength=len(self.contexts))


def blocks(
    counts: Cooccurrence, rng: np.random.Generator, *, size: int, x_max: float, alpha: float, dtype: Any = np.float32
) -> list[Block]:
    """All non-zero counts, each in one block."""
    table = counts.matrix.tocsr().tocoo()  # row by row
    values = np.asarray(table.data, dtype=np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise FormatError("the co-occurrence counts hold a value that is negative or not finite", hint="count again")
    kept = np.flatnonzero(values)
    if not len(kept):
        raise DegenerateError(
            f"the co-occurrence counts of {len(counts.words):,} words are all zero, so there is nothing to learn from",
            hint="use more text, a wider window or a lower min_count",
        )
    dealt = _dealt(len(kept), min(size, max(FEW, PER_WORD * len(counts.words))), rng)
    words, contexts, values = table.row[kept], table.col[kept], values[kept]
    logs, weights = np.log(values).astype(dtype), (np.minimum(values / x_max, 1) ** alpha).astype(dtype)
    place = np.zeros(len(counts.words), dtype=np.int32)
    return [_block(words[some], contexts[some], logs[some], weights[some], place) for some in dealt]


def _dealt(n: int, size: int, rng: np.random.Generator) -> list[Rows]:
    """The entries of each block in rising order, and so sorted by word; sizes differ by 1 at most."""
    number = -(-n // size)
    hands = (np.arange(n) % number).astype(np.min_scalar_type(number))
    rng.shuffle(hands)
    return np.array_split(np.argsort(hands, kind="stable"), np.cumsum(np.bincount(hands))[:-1])


def _block(words: Rows, contexts: Rows, logs: Any, weights: Any, place: NDArray[np.int32]) -> Block:
    """`place` is room for one number for each word of the vocabulary, all 0, and is left so."""
    starts = np.flatnonzero(np.diff(words, prepend=-1))
    ends = np.append(starts, len(words)).astype(np.int32)
    word_of = np.repeat(np.arange(len(starts), dtype=np.int32), np.diff(ends))
    place[contexts] = 1
    there = np.flatnonzero(place)
    place[there] = np.arange(len(there), dtype=np.int32)
    context_of = place[contexts]
    place[there] = 0
    return Block(words[starts], there, word_of, context_of, ends, logs, weights)
