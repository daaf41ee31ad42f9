"""Words as stretches of UTF-8 bytes: split at whitespace, or into Unicode words, with whole-array operations.

No string is made for a word here. `Vocabulary` looks words up by their bytes and makes strings only of those that its
cache does not know.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.counting.text_stream import END

# Letters, marks, digits and _ of any script; an apostrophe joins what stands on both its sides (don't).
WORD = r"\w+(?:['’]\w+)*"
# The characters at which str.split() splits, except the space itself.
ASCII_WHITESPACE = "\t\n\v\f\r\x1c\x1d\x1e\x1f"
OTHER_WHITESPACE = (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
PADDING = 32  # bytes behind the text, so that several bytes can be read at any start
Bytes = NDArray[np.uint8]

_SEPARATES = np.zeros(256, dtype=bool)
_SEPARATES[[ord(character) for character in f" {END}{ASCII_WHITESPACE}"]] = True
_HIGHEST_SEPARATOR = ord(" ")
_APOSTROPHE = ord("'")
_FIRST_NON_ASCII = 0x80
# Bytes of other characters count as letters at first: the run they stand in is split again, by the characters' classes.
_IN_RUN = np.array([chr(byte).isalnum() or byte == ord("_") or byte >= _FIRST_NON_ASCII for byte in range(256)])
# `OTHER_WHITESPACE` as numbers of the two or three bytes of a character.
_WHITESPACE_CODES = {
    size: np.array([int.from_bytes(code) for code in map(str.encode, OTHER_WHITESPACE) if len(code) == size])
    for size in (2, 3)
}
MANY_NON_ASCII = 0.2  # share of the bytes above which splitting run by run does not pay


class WordSpans(NamedTuple):
    """Words as positions in UTF-8 bytes, in order; `END` is a word. `text` ends with `PADDING` bytes of zero."""

    text: bytes
    starts: Rows
    lengths: Rows

    def between(self, first: int, stop: int) -> WordSpans:
        """Return the words from a number on, and before another."""
        return WordSpans(self.text, self.starts[first:stop], self.lengths[first:stop])

    def strings(self, which: Rows) -> list[str]:
        """Return some of the words as strings."""
        ends = self.starts[which] + self.lengths[which]
        spans = zip(self.starts[which].tolist(), ends.tolist(), strict=True)
        return [self.text[start:end].decode() for start, end in spans]


def split_at_whitespace(piece: str) -> WordSpans:
    """Split a piece as `str.split` does, and at `END`, which is a word of its own."""
    encoded = piece.encode()
    text, array = _padded(encoded if piece.isascii() else _with_spaces(encoded))
    low = np.flatnonzero(array <= _HIGHEST_SEPARATOR)
    separators = low[_SEPARATES[array[low]]]
    starts = np.concatenate([[0], separators + 1])
    lengths = np.append(separators, len(array)) - starts
    words = lengths > 0
    return _with_ends(text, array, starts[words], lengths[words])


def split_into_words(piece: str, *, lower: bool) -> WordSpans | None:
    """Split a piece into the matches of `WORD`; return None where matching the whole piece is the faster or only way.

    A run of word bytes without other characters than ASCII is a word. Other runs are split by the pattern itself, which
    never matches across an ASCII character that is neither a word character nor an apostrophe.
    """
    encoded = piece.encode()
    text, array = _padded(encoded.lower() if lower else encoded)
    other = np.flatnonzero(array >= _FIRST_NON_ASCII) if not piece.isascii() else np.empty(0, dtype=np.intp)
    # The lower case of Σ depends on the letters around it, which may stand in another run.
    if len(other) > MANY_NON_ASCII * len(array) or (lower and "Σ" in piece):
        return None
    in_run = _IN_RUN[array]
    apostrophes = np.flatnonzero(array == _APOSTROPHE)
    apostrophes = apostrophes[(apostrophes > 0) & (apostrophes < len(array) - 1)]
    in_run[apostrophes] = in_run[apostrophes - 1] & in_run[apostrophes + 1]
    padded = np.zeros(len(array) + 2, dtype=bool)
    padded[1:-1] = in_run
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    starts = edges[::2]
    spans = _with_ends(text, array, starts, edges[1::2] - starts)
    return _split_runs(spans, other, lower=lower) if len(other) else spans


def _with_spaces(encoded: bytes) -> bytes:
    """Return the text with spaces in place of `OTHER_WHITESPACE`, found in its bytes: searching a str takes longer."""
    text = np.frombuffer(encoded + bytes(2), dtype=np.uint8)
    leads = np.flatnonzero(text >= _FIRST_NON_ASCII)
    code = np.zeros(len(leads), dtype=np.int64)
    for size in (1, 2, 3):
        code = 256 * code + text[leads + size - 1]
        found = leads[np.isin(code, _WHITESPACE_CODES[size])] if size in _WHITESPACE_CODES else leads[:0]
        if len(found):
            text = text.copy()
            text[found[:, None] + np.arange(size)] = ord(" ")
    return text[:-2].tobytes()


def _padded(encoded: bytes) -> tuple[bytes, Bytes]:
    text = encoded + bytes(PADDING)
    return text, np.frombuffer(text, dtype=np.uint8, count=len(encoded))


def _with_ends(text: bytes, array: Bytes, starts: Rows, lengths: Rows) -> WordSpans:
    """Insert the marks that close documents as words."""
    ends = np.flatnonzero(array == ord(END))
    before = np.searchsorted(starts, ends)
    return WordSpans(text, np.insert(starts, before, ends), np.insert(lengths, before, 1))


def _split_runs(spans: WordSpans, other: Rows, *, lower: bool) -> WordSpans:
    """Replace each run that contains one of the bytes `other` by its words, which are written behind the text."""
    import polars as pl

    runs = np.unique(np.searchsorted(spans.starts, other, side="right") - 1)
    strings = spans.strings(runs)
    matches = pl.Series([run.lower() for run in strings] if lower else strings).str.extract_all(WORD)
    words = [word.encode() for found in matches.to_list() for word in found]
    counts = np.ones(len(spans.starts), dtype=np.intp)
    counts[runs] = matches.list.len().to_numpy()
    again = np.zeros(len(spans.starts), dtype=bool)
    again[runs] = True
    again = np.repeat(again, counts)
    starts, lengths = np.repeat(spans.starts, counts), np.repeat(spans.lengths, counts)
    lengths[again] = sizes = np.array([len(word) for word in words], dtype=np.intp)
    starts[again] = len(spans.text) + np.cumsum(sizes) - sizes
    return WordSpans(spans.text + b"".join(words) + bytes(PADDING), starts, lengths)
