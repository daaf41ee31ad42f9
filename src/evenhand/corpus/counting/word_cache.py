"""An exact table from short words, given as bytes, to their ids, looked up for a whole array of words at once.

A word of up to eight bytes is one 64-bit number, a longer one several. Each word has a few slots, found by multiplying;
a word whose slots are taken by others is not kept. A look-up compares the whole word, so it never gives a wrong id.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.counting.word_spans import PADDING, WordSpans

Keys = NDArray[np.uint64]  # (columns, words): eight bytes a column, zeros behind the word
WIDTH = 8  # bytes in a column
LONG_COLUMNS = 3
FEWEST_SLOTS, MOST_SLOTS = 14, 20  # powers of two
PROBES = 3
_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(WIDTH + 1)], dtype=np.uint64)


class WordCache:
    """Ids of words of up to 24 bytes; words must not contain NUL bytes, except for the word of one NUL byte."""

    def __init__(self) -> None:
        self._short, self._long = _Slots(1), _Slots(LONG_COLUMNS)

    def find(self, spans: WordSpans) -> Rows:
        """Return the id of each word, or -1 if it is not in the table."""
        is_long = spans.lengths > WIDTH
        ids = self._short.find(_keys(spans, slice(None), 1), ignore=is_long)
        longer = np.flatnonzero(is_long)
        too_long = spans.lengths[longer] > LONG_COLUMNS * WIDTH
        ids[longer] = self._long.find(_keys(spans, longer, LONG_COLUMNS), ignore=too_long)
        return ids

    def add(self, spans: WordSpans, which: Rows, ids: Rows) -> NDArray[np.bool_]:
        """Keep the ids of some of the words, and return which of them there was room for."""
        lengths = spans.lengths[which]
        kept = np.zeros(len(which), dtype=bool)
        short = np.flatnonzero(lengths <= WIDTH)
        kept[short] = self._short.add(_keys(spans, which[short], 1), ids[short])
        long = np.flatnonzero((lengths > WIDTH) & (lengths <= LONG_COLUMNS * WIDTH))
        kept[long] = self._long.add(_keys(spans, which[long], LONG_COLUMNS), ids[long])
        return kept


def _keys(spans: WordSpans, which: Rows | slice, columns: int) -> Keys:
    """Return the bytes of words as numbers; what lies behind the columns is left out."""
    starts, lengths = spans.starts[which], spans.lengths[which]
    positions = len(spans.text) - PADDING  # the padding has room for the bytes behind the last one
    keys = np.empty((columns, len(starts)), dtype=np.uint64)
    for column in range(columns):
        offset = column * WIDTH
        # Eight bytes from each position on.
        windows: NDArray[np.uint64] = np.ndarray((positions,), "<u8", spans.text, offset, (1,))
        np.bitwise_and(windows[starts], _MASKS[np.minimum(np.maximum(lengths - offset, 0), WIDTH)], out=keys[column])
    return keys


class _Slots:
    """Keys of a fixed number of columns and their ids; a word may stand in one of `PROBES` slots."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._make(bits=FEWEST_SLOTS)

    def find(self, keys: Keys, ignore: NDArray[np.bool_]) -> Rows:
        """Return the id of each key, or -1 if it is not here or to be ignored."""
        slots = self._slots(keys, 0)
        ids = self._ids[slots]
        known = self._are_at(slots, keys)
        rest = np.flatnonzero(~(known | ignore))
        ids[~known | ignore] = -1
        for probe in range(1, PROBES):
            slots = self._slots(keys[:, rest], probe)
            known = self._are_at(slots, keys[:, rest])
            ids[rest[known]] = self._ids[slots[known]]
            rest = rest[~known]
        return ids

    def add(self, keys: Keys, ids: Rows) -> NDArray[np.bool_]:
        while self._used + len(ids) > 1 << (self._bits - 2) and self._bits < MOST_SLOTS:
            taken = self._ids >= 0
            kept = self._keys[:, taken], self._ids[taken]
            self._make(self._bits + 1)
            self._place(*kept)
        self._place(keys, ids)
        return self.find(keys, ignore=np.zeros(len(ids), dtype=bool)) >= 0

    def _make(self, bits: int) -> None:
        self._bits, self._used = bits, 0
        self._keys: Keys = np.zeros((self._columns, 1 << bits), dtype=np.uint64)
        self._ids = np.full(1 << bits, -1, dtype=np.intp)

    def _place(self, keys: Keys, ids: Rows) -> None:
        for probe in range(PROBES):
            slots = self._slots(keys, probe)
            free = np.flatnonzero(self._ids[slots] < 0)
            # Of several words for one slot, both assignments keep the last.
            self._keys[:, slots[free]] = keys[:, free]
            self._ids[slots[free]] = ids[free]
            self._used += len(np.unique(slots[free]))
            rest = ~self._are_at(slots, keys)
            keys, ids = keys[:, rest], ids[rest]

    def _are_at(self, slots: Rows, keys: Keys) -> NDArray[np.bool_]:
        known: NDArray[np.bool_] = self._keys[0][slots] == keys[0]
        for stored, wanted in zip(self._keys[1:], keys[1:], strict=True):
            known &= stored[slots] == wanted
        return known

    def _slots(self, keys: Keys, probe: int) -> Rows:
        mixed = keys[0] * _MULTIPLIERS[probe]
        for column in keys[1:]:
            mixed = (mixed ^ column) * _MULTIPLIERS[probe]
        return (mixed >> np.uint64(64 - self._bits)).astype(np.intp)
