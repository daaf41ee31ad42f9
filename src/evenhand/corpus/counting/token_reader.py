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

from evenhand.arrays import Rows
from evenhand.corpus.counting.byte_runs import Runs, find_runs
from evenhand.corpus.counting.run_table import LONGEST, UNKNOWN, RunTable
from evenhand.corpus.counting.text_stream import END
from evenhand.corpus.counting.tokenise import Tokeniser
from evenhand.corpus.counting.vocabulary import Vocabulary

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
