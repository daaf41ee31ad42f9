"""Token ids of pieces of text, looked up by the bytes of the text.

The ids are those of `vocabulary.ids(tokeniser(piece))`, which is computed only for runs that the table does not know:
nearly all of a text repeats a few thousand words.

A token of English text (5.3 bytes) takes about 75 ns on one core of an EPYC 7003 in a warm process with a window of 10
(`benchmarks/corpus.py --parts`): reading and decoding 8, encoding 5, finding runs 9, their keys 12, looking them up 13,
new words 10 (33,000 words in 8 million tokens: 2.5 microseconds for each), windows and hits 8, sums 4, the rest 5.
The text has to be looked up with some 40 array operations, each of which takes 0.3 to 5 ns for its pass over the
tokens, so that the number of passes sets the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.counting.tokens import Runs, Tokeniser, Vocabulary, find_runs
from evenhand.corpus.readers.stream import END

Keys = NDArray[np.uint64]  # (runs,)
Columns = NDArray[np.uint64]  # (COLUMNS, runs): eight bytes a column, zeros behind the run
UNKNOWN = -1
WIDTH = 8  # bytes in a column
COLUMNS = 3
LONGEST = COLUMNS * WIDTH  # `tokens.PADDING` has room for it
FEWEST_SLOTS, MOST_SLOTS = 14, 20  # powers of two
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # spreads keys over the upper bits of a product
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(WIDTH + 1)], dtype=np.uint64)
# No byte of UTF-8 has these values, so that no short run has such a key.
_LONG, _ALONE = np.uint64(0xFF << 56), np.uint64(0xFE << 56)


class RunTable:
    """Numbers other than `UNKNOWN` of runs of up to `LONGEST` bytes, which contain no NUL or are one NUL."""

    def __init__(self) -> None:
        self._make(FEWEST_SLOTS)

    def find(self, runs: Runs) -> Rows:
        """Return the number of each run, or `UNKNOWN`."""
        keys, long, columns = _keys_of(runs)
        places = self._places_of(keys)
        numbers = self._numbers.take(places, mode="clip")
        differ = runs.lengths.take(long) > LONGEST
        places = places.take(long)
        for stored, wanted in zip(self._columns, columns, strict=True):
            differ |= stored.take(places, mode="clip") != wanted
        numbers[long[differ]] = UNKNOWN
        return numbers

    def add(self, runs: Runs, numbers: Rows) -> None:
        """Keep the numbers of different runs of at most `LONGEST` bytes, as far as there is room."""
        keys, long, long_columns = _keys_of(runs)
        columns = np.zeros((COLUMNS, len(keys)), dtype=np.uint64)
        columns[:, long] = long_columns
        # Of long runs with the same key, only the first is kept.
        new = np.sort(np.unique(keys, return_index=True)[1])
        new = new[self._numbers[self._places_of(keys[new])] == UNKNOWN]
        if 2 * (self._used + len(new)) > 1 << self._bits and self._bits < MOST_SLOTS:
            self._grow(self._used + len(new))
        new = new[: (1 << self._bits) // 2 - self._used]
        self._place(keys[new], numbers[new], columns[:, new])

    def distinct(self, runs: Runs) -> tuple[Rows, Rows]:
        """Return the indices of all different runs in order, and for each run its position among these.

        Runs of more than `LONGEST` bytes, and long runs with the hash of another one, all count as different.
        """
        keys, long, columns = _keys_of(runs)
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
        """Make an empty table: slots, half as many places for the sorted list, and one place that stays empty."""
        self._bits, self._used, self._listed = bits, 0, 0
        self._nowhere = (1 << bits) + (1 << bits) // 2
        self._keys: Keys = np.zeros(self._nowhere + 1, dtype=np.uint64)
        self._numbers = np.full(self._nowhere + 1, UNKNOWN, dtype=np.intp)
        self._columns: Columns = np.zeros((COLUMNS, self._nowhere + 1), dtype=np.uint64)

    def _grow(self, wanted: int) -> None:
        taken = np.flatnonzero(self._numbers != UNKNOWN)
        taken = taken[np.argsort(self._numbers[taken])]  # words that came first are frequent, so they get their slots
        content = self._keys[taken], self._numbers[taken], self._columns[:, taken]
        self._make(min((2 * wanted - 1).bit_length(), MOST_SLOTS))
        self._place(*content)

    def _place(self, keys: Keys, numbers: Rows, columns: Columns) -> None:
        """Put keys that are not in the table into free slots and into the sorted list."""
        slots = self._slots_of(keys)
        free = np.flatnonzero(self._numbers[slots] == UNKNOWN)
        taken, first = np.unique(slots[free], return_index=True)
        placed = free[first]
        self._keys[taken], self._numbers[taken] = keys[placed], numbers[placed]
        self._columns[:, taken] = columns[:, placed]
        rest = np.ones(len(keys), dtype=bool)
        rest[placed] = False
        keys, numbers, columns = keys[rest], numbers[rest], columns[:, rest]
        order, places = np.argsort(keys), self._list()
        before = np.searchsorted(self._keys[places], keys[order])
        merged = slice(places.start, places.stop + len(keys))
        self._keys[merged] = np.insert(self._keys[places], before, keys[order])
        self._numbers[merged] = np.insert(self._numbers[places], before, numbers[order])
        self._columns[:, merged] = np.insert(self._columns[:, places], before, columns[:, order], axis=1)
        self._used += len(taken) + len(keys)
        self._listed += len(keys)

    def _list(self) -> slice:
        """Return the places of the sorted list."""
        return slice(1 << self._bits, (1 << self._bits) + self._listed)

    def _places_of(self, keys: Keys) -> Rows:
        """Return the place of each key, or `_nowhere`; a key of 0 may have an empty place instead."""
        places = self._slots_of(keys)
        rest = np.flatnonzero(self._keys.take(places, mode="clip") != keys)
        keys, listed = keys.take(rest), self._list()
        found = listed.start + np.searchsorted(self._keys[listed], keys)
        found[self._keys.take(found, mode="clip") != keys] = self._nowhere
        places[rest] = found
        return places

    def _slots_of(self, keys: Keys) -> Rows:
        hashes = keys * _MULTIPLIER
        hashes >>= np.uint64(64 - self._bits)
        return hashes.view(np.int64)


def _keys_of(runs: Runs) -> tuple[Keys, Rows, Columns]:
    """Return the key of each run, which runs are long, and the bytes of these."""
    # The eight bytes from each position on.
    windows: Keys = np.ndarray((len(runs.text) - WIDTH,), "<u8", runs.text, 0, (1,))
    keys = windows[runs.starts]
    keys &= _MASKS.take(runs.lengths, mode="clip")
    long = np.flatnonzero(runs.lengths > WIDTH)
    starts, lengths = runs.starts.take(long), runs.lengths.take(long)
    columns = np.empty((COLUMNS, len(long)), dtype=np.uint64)
    mixed = np.zeros(len(long), dtype=np.uint64)
    for column in columns:
        column[:] = windows[starts]
        column &= _MASKS.take(lengths, mode="clip")
        mixed = (mixed ^ column) * _MULTIPLIER
        starts, lengths = starts + WIDTH, lengths - WIDTH
    keys[long] = (mixed >> np.uint64(8)) | _LONG  # the upper bits of a product depend on all bytes
    return keys, long, columns


# The lower case of this letter depends on the letters around it. That of all others can be found run by run.
CAPITAL_SIGMA = "Σ"
LISTED = -2  # the number of the first list; the next has -3
MOST_AT_A_TIME = 1 << 30
MOST_LISTED = 1 << 16  # lists and ids in lists that are kept


class IdLists(NamedTuple):
    """Lists of ids, one behind the other: the words of runs that contain none or several."""

    ids: Rows
    begins: Rows
    sizes: Rows

    def followed_by(self, ids: Rows, sizes: Rows) -> IdLists:
        """Return these lists and more lists."""
        begins = len(self.ids) + np.cumsum(sizes) - sizes
        return IdLists(*map(np.concatenate, zip(self, (ids, begins, sizes), strict=True)))

    def expand(self, numbers: Rows) -> Rows:
        """Return ids with a list in place of each negative number."""
        listed = np.flatnonzero(numbers < 0)
        if not len(listed):
            return numbers
        which = LISTED - numbers[listed]
        sizes = self.sizes[which]
        counts = np.ones(len(numbers), dtype=np.intp)
        counts[listed] = sizes
        ids = np.repeat(numbers, counts)
        offsets = self.begins[which] - (np.cumsum(sizes) - sizes)
        ids[ids < 0] = self.ids[np.repeat(offsets, sizes) + np.arange(sizes.sum())]
        return ids


class TokenReader:
    """Turns pieces of text into token ids; `END` must be in the vocabulary."""

    def __init__(self, tokeniser: Tokeniser, vocabulary: Vocabulary) -> None:
        self._tokeniser, self._vocabulary = tokeniser, vocabulary
        self._table = RunTable()
        none = np.empty(0, dtype=np.intp)
        self._lists, self._end = IdLists(none, none, none), none
        if tokeniser.separators:
            self._end = vocabulary.ids(tokeniser(END))
            self._table.add(find_runs(END.encode(), tokeniser.separators), self._end)
        # Few runs at first: a new word is unknown wherever it stands among those that are looked up together.
        self._at_a_time = 1 << 12

    def ids(self, piece: str) -> Rows:
        """Return the ids of the words of a piece in order; a new word gets the next id."""
        if self._tokeniser.separators is None:
            return self._vocabulary.ids(self._tokeniser(piece))
        lower = self._tokeniser.lower
        if lower and CAPITAL_SIGMA in piece:
            piece = self._tokeniser.fold(piece)
        encoded = piece.encode()
        runs = find_runs(encoded.lower() if lower else encoded, self._tokeniser.separators)
        parts: list[Rows] = []
        first = 0
        while first < len(runs.starts) or not parts:
            stop = first + self._at_a_time
            parts.append(self._ids_of(runs.chosen(slice(first, stop))))
            first, self._at_a_time = stop, min(2 * self._at_a_time, MOST_AT_A_TIME)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _ids_of(self, runs: Runs) -> Rows:
        numbers, lists = self._table.find(runs), self._lists
        unknown = np.flatnonzero(numbers == UNKNOWN)
        if len(unknown):
            numbers[unknown], lists = self._learn(runs.chosen(unknown))
        return lists.expand(numbers)

    def _learn(self, runs: Runs) -> tuple[Rows, IdLists]:
        """Tokenise unknown runs; return their numbers, and the lists that these refer to."""
        first, inverse = self._table.distinct(runs)
        runs = runs.chosen(first)
        ids = self._vocabulary.ids(self._tokeniser(b"\0".join([*runs.contents(), b""]).decode()))
        ends = np.flatnonzero(ids == self._end)
        words, sizes = np.delete(ids, ends), np.diff(ends, prepend=-1) - 1
        numbers = np.empty(len(sizes), dtype=np.intp)
        single = sizes == 1
        numbers[single] = words[np.repeat(single, sizes)]
        room = len(self._lists.ids) + len(self._lists.sizes) < MOST_LISTED
        kept = (runs.lengths <= LONGEST) & (single | room)
        lists = [self._lists]
        for some in (~single & kept, ~single & ~kept):
            numbers[some] = LISTED - len(lists[-1].sizes) - np.arange(np.count_nonzero(some))
            lists.append(lists[-1].followed_by(words[np.repeat(some, sizes)], sizes[some]))
        self._lists = lists[1]
        self._table.add(runs.chosen(kept), numbers[kept])
        return numbers[inverse], lists[2]
