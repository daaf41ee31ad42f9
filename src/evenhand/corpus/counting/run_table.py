"""An exact hash table from runs of bytes to numbers, in which a whole array of runs is looked up at once.

The key of a run of up to eight bytes is these bytes. That of a longer run is a hash of its bytes, which are compared
too, so that a look-up never gives the number of another run. A run whose slot is taken stands in one of the next slots,
or is not kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.counting.byte_runs import Runs

Keys = NDArray[np.uint64]  # (runs,)
Columns = NDArray[np.uint64]  # (COLUMNS, long runs): eight bytes a column, zeros behind the run
UNKNOWN = -1
WIDTH = 8  # bytes in a column
COLUMNS = 3
LONGEST = COLUMNS * WIDTH  # `byte_runs.PADDING` has room for it
FEWEST_SLOTS, MOST_SLOTS = 14, 20  # powers of two
PROBES = 32
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # spreads keys over the upper bits of a product
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(WIDTH + 1)], dtype=np.uint64)
# No byte of UTF-8 has these values, so that no short run has such a key.
_LONG, _ALONE = np.uint64(0xFF << 56), np.uint64(0xFE << 56)


class RunTable:
    """Numbers other than `UNKNOWN` of runs of up to `LONGEST` bytes, which contain no NUL or are one NUL."""

    def __init__(self) -> None:
        self._text, self._windows = b"", np.empty(0, dtype=np.uint64)
        self._make(FEWEST_SLOTS)

    def find(self, runs: Runs) -> Rows:
        """Return the number of each run, or `UNKNOWN`."""
        keys, long, columns = self._keys_of(runs)
        slots = self._slots_of(keys)
        numbers = self._numbers.take(slots, mode="clip")
        differ = runs.lengths.take(long) > LONGEST
        slots = slots.take(long)
        for stored, wanted in zip(self._columns, columns, strict=True):
            differ |= stored.take(slots, mode="clip") != wanted
        numbers[long[differ]] = UNKNOWN
        return numbers

    def add(self, runs: Runs, numbers: Rows) -> None:
        """Keep the numbers of runs of at most `LONGEST` bytes as far as there is room."""
        keys, long, long_columns = self._keys_of(runs)
        columns = np.zeros((COLUMNS, len(keys)), dtype=np.uint64)
        columns[:, long] = long_columns
        if 2 * (self._used + len(keys)) > 1 << self._bits and self._bits < MOST_SLOTS:
            self._grow(self._used + len(keys))
        room = (1 << self._bits) // 2 - self._used
        self._place(keys[:room], numbers[:room], columns[:, :room])

    def distinct(self, runs: Runs) -> tuple[Rows, Rows]:
        """Return the places of all different runs in order, and for each run its index among these.

        Runs of more than `LONGEST` bytes, and long runs with the hash of another one, all count as different.
        """
        keys, long, columns = self._keys_of(runs)
        alone = runs.lengths > LONGEST
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        same_key = np.searchsorted(long, first[inverse[long]])
        alone[long[(columns != columns[:, same_key]).any(axis=0)]] = True
        if alone.any():
            keys[alone] = _ALONE + np.arange(np.count_nonzero(alone), dtype=np.uint64)
            _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return first[order], np.argsort(order)[inverse]

    def _make(self, bits: int) -> None:
        self._bits, self._used = bits, 0
        self._nowhere = (1 << bits) + PROBES  # a slot that stays free; the search from the last but PROBES may go on
        self._keys: Keys = np.zeros(self._nowhere + 1, dtype=np.uint64)
        self._numbers = np.full(self._nowhere + 1, UNKNOWN, dtype=np.intp)
        self._columns: Columns = np.zeros((COLUMNS, self._nowhere + 1), dtype=np.uint64)

    def _grow(self, wanted: int) -> None:
        taken = np.flatnonzero(self._numbers != UNKNOWN)
        taken = taken[np.argsort(self._numbers[taken])]  # the words that came first are frequent: they get their slots
        content = self._keys[taken], self._numbers[taken], self._columns[:, taken]
        self._make(min((2 * wanted - 1).bit_length(), MOST_SLOTS))
        self._place(*content)

    def _place(self, keys: Keys, numbers: Rows, columns: Columns) -> None:
        """Put keys into free slots; a key that is in the table, or finds no free slot, is left out."""
        while len(keys):
            slots = self._slots_of(keys)
            free = np.flatnonzero((self._numbers[slots] == UNKNOWN) & (slots != self._nowhere))
            taken, first = np.unique(slots[free], return_index=True)  # of several keys, the first gets the slot
            placed = free[first]
            self._keys[taken], self._numbers[taken] = keys[placed], numbers[placed]
            self._columns[:, taken] = columns[:, placed]
            self._used += len(taken)
            rest = np.setdiff1d(free, placed, assume_unique=True)
            keys, numbers, columns = keys[rest], numbers[rest], columns[:, rest]

    def _slots_of(self, keys: Keys) -> Rows:
        """Return the slot of each key, or a free one where it might stand, or `_nowhere`."""
        hashes = keys * _MULTIPLIER
        hashes ^= hashes >> np.uint64(32)
        hashes *= _MULTIPLIER
        hashes >>= np.uint64(64 - self._bits)
        slots: Rows = hashes.view(np.int64)
        rest = np.flatnonzero(self._keys.take(slots, mode="clip") != keys)
        for _ in range(PROBES):
            rest = rest[self._numbers[slots[rest]] != UNKNOWN]  # a free slot ends the search
            if not len(rest):
                return slots
            slots[rest] += 1
            rest = rest[self._keys[slots[rest]] != keys[rest]]
        slots[rest] = self._nowhere
        return slots

    def _keys_of(self, runs: Runs) -> tuple[Keys, Rows, Columns]:
        """Return the key of each run, which runs are long, and the bytes of these."""
        windows = self._eight_bytes_from_each(runs.text)
        keys = windows.take(runs.starts, mode="clip")
        keys &= _MASKS.take(runs.lengths, mode="clip")
        long = np.flatnonzero(runs.lengths > WIDTH)
        starts, lengths = runs.starts.take(long), runs.lengths.take(long)
        columns = np.empty((COLUMNS, len(long)), dtype=np.uint64)
        mixed = np.zeros(len(long), dtype=np.uint64)
        for column in columns:
            np.take(windows, starts, out=column, mode="clip")
            column &= _MASKS.take(lengths, mode="clip")
            mixed = (mixed ^ column) * _MULTIPLIER
            starts, lengths = starts + WIDTH, lengths - WIDTH
        keys[long] = mixed | _LONG
        return keys, long, columns

    def _eight_bytes_from_each(self, text: bytes) -> Keys:
        """Return the eight bytes from each position on as a number, in memory that the next text overwrites."""
        size = len(text) - WIDTH
        if size > len(self._windows):
            self._windows = np.empty(size, dtype=np.uint64)
        if text is not self._text:
            np.copyto(self._windows[:size], np.ndarray((size,), "<u8", text, 0, (1,)))
            self._text = text
        return self._windows[:size]
