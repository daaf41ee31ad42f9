"""Text as runs of UTF-8 bytes: the stretches between ASCII characters that stand in no word.

A run is a word, or contains a few. No string is made for a run here, so that a text is divided with a handful of
whole-array operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.counting.text_stream import END

Bytes: TypeAlias = NDArray[np.uint8]
FindSeparators: TypeAlias = Callable[[Bytes], NDArray[np.bool_]]  # which bytes stand between runs; never that of `END`

PADDING = 32  # zero bytes behind the text, so that several bytes can be read at any position
_END = END.encode()
_IN_WORDS = [byte for byte in range(128) if chr(byte).isalnum() or chr(byte) in "_'"]
_STAND_BETWEEN_WORDS = np.arange(256) < 128
_STAND_BETWEEN_WORDS[[ord(END), *_IN_WORDS]] = False


def are_blanks(text: Bytes) -> NDArray[np.bool_]:
    """Return which bytes are ASCII characters at which `str.split` splits: 9 to 13 and 28 to 32.

    The differences wrap around, so that one comparison is enough for a range. A table takes twice the time.
    """
    blanks = text - np.uint8(9) < 5
    blanks |= text - np.uint8(28) < 5
    return blanks


def are_between_words(text: Bytes) -> NDArray[np.bool_]:
    """Return which bytes are ASCII characters other than letters, digits, _ and apostrophes."""
    return _STAND_BETWEEN_WORDS.take(text, mode="clip")


class Runs(NamedTuple):
    """Runs as positions in UTF-8 bytes, in order; each `END` is a run. `text` ends with `PADDING` bytes of zero."""

    text: bytes
    starts: Rows
    lengths: Rows

    def chosen(self, which: Rows | slice) -> Runs:
        """Return some of the runs."""
        return Runs(self.text, self.starts[which], self.lengths[which])

    def contents(self) -> list[bytes]:
        """Return the bytes of each run."""
        spans = zip(self.starts.tolist(), (self.starts + self.lengths).tolist(), strict=True)
        return [self.text[start:end] for start, end in spans]


def find_runs(encoded: bytes, find_separators: FindSeparators) -> Runs:
    """Return the runs of a text between its separators."""
    text = b"".join((b" ", encoded.replace(_END, b" " + _END + b" "), b" ", bytes(PADDING)))
    separates = find_separators(np.frombuffer(text, dtype=np.uint8, count=len(text) - PADDING))
    # The first and the last byte are separators, so that starts and ends of runs alternate.
    edges = np.flatnonzero(separates[1:] != separates[:-1])
    edges += 1
    starts = edges[::2].copy()
    return Runs(text, starts, edges[1::2] - starts)
