"""fastText's word vectors: the mean of a word's own row and the rows of its character n-grams.

An n-gram has no row of its own: its hash names a bucket, and buckets are shared (Bojanowski et al. 2017, "Enriching
Word Vectors with Subword Information"). All n-grams of a block of words are hashed together, byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from evenhand.arrays import Matrix, Rows
from evenhand.errors import FormatError, VocabularyError

# FNV-1a, 32 bits (Fowler, Noll and Vo).
FNV_START, FNV_PRIME = np.uint32(2166136261), np.uint32(16777619)
END_OF_SENTENCE = b"</s>"  # fastText's token for a line end: no word, so it has no n-grams
GATHERED_BYTES = 32 << 20  # rows looked at in one go, in double precision

Hashes = NDArray[np.uint32]


@dataclass(frozen=True)
class Ngrams:
    """Which rows of the input matrix hold character n-grams: `bucket` of them, after the rows of the words."""

    shortest: int
    longest: int
    bucket: int
    first_row: int

    @property
    def lengths(self) -> range:
        """The n-gram lengths that are used, in characters."""
        return range(max(self.shortest, 1), self.longest + 1)


@dataclass(frozen=True)
class _Characters:
    """The characters of a run of words, each word written between "<" and ">"."""

    start: Rows  # first byte of each character
    size: Rows  # its number of bytes
    word: Rows  # the word it belongs to
    room: Rows  # characters from here to the end of the word, this one included
    opens: NDArray[np.bool_]  # whether it is the first of its word
    bytes: Hashes  # every byte, widened as fastText widens it


def _characters(words: Sequence[bytes]) -> _Characters:
    raw = np.frombuffer(b"".join(b"<%b>" % word for word in words), np.uint8)
    ends = np.cumsum([len(word) + 2 for word in words])
    # fastText takes every byte that is no UTF-8 continuation byte as the start of a character.
    start = np.flatnonzero((raw & 0xC0) != 0x80)
    word = np.searchsorted(ends, start, side="right")
    last = np.cumsum(np.bincount(word, minlength=len(words)))
    room = last[word] - np.arange(len(start))
    room[np.array([text == END_OF_SENTENCE for text in words])[word]] = 0
    opens = np.diff(word, prepend=-1) > 0
    # C++'s signed char: a byte of 128 and more enters the hash with all its higher bits set.
    widened = raw.view(np.int8).astype(np.int32).view(np.uint32)
    return _Characters(start, np.diff(start, append=len(raw)), word, room, opens, widened)


def ngram_rows(words: Sequence[bytes], ngrams: Ngrams) -> tuple[Rows, Rows]:
    """For every n-gram of every word: the position of the word, and the row of the input matrix it uses."""
    text = _characters(words)
    hashes = np.full(len(text.start), FNV_START)
    at = np.arange(len(text.start))
    owners, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for length in range(1, ngrams.longest + 1):
        at = at[text.room[at] >= length]
        if not len(at):
            break
        _append_character(hashes, at, at + length - 1, text)
        if length in ngrams.lengths:
            # A lone "<" or ">" says nothing about the word, and fastText leaves both out.
            used = at if length > 1 else at[~text.opens[at] & (text.room[at] > 1)]
            owners.append(text.word[used])
            rows.append(ngrams.first_row + (hashes[used] % np.uint32(ngrams.bucket)).astype(np.int64))
    return np.concatenate(owners), np.concatenate(rows)


def _append_character(hashes: Hashes, at: Rows, character: Rows, text: _Characters) -> None:
    """Go on hashing, for the n-grams that begin at `at`, over the bytes of one more character each."""
    byte = 0
    while len(at):
        hashes[at] = (hashes[at] ^ text.bytes[text.start[character] + byte]) * FNV_PRIME
        byte += 1
        longer = text.size[character] > byte
        at, character = at[longer], character[longer]


def mean_vectors(
    words: Sequence[bytes], own_rows: Rows, table: Matrix, ngrams: Ngrams
) -> tuple[Matrix, NDArray[np.int64]]:
    """The vector of each word, and of how many rows it is the mean (0: a zero vector). An own row of -1 is none."""
    vectors = np.empty((len(words), table.shape[1]), np.float32)
    counts = np.empty(len(words), np.int64)
    with np.errstate(invalid="ignore"):  # a NaN in the file is refused by whoever gets the vectors, with its word
        for block in _blocks(words, ngrams, table.shape[1]):
            vectors[block], counts[block] = _block_means(words[block], own_rows[block], table, ngrams)
    return vectors, counts


def _block_means(words: Sequence[bytes], own_rows: Rows, table: Matrix, ngrams: Ngrams) -> tuple[Any, Rows]:
    owners, rows = ngram_rows(words, ngrams)
    known = np.flatnonzero(own_rows >= 0)
    owners, rows = np.concatenate([known, owners]), np.concatenate([own_rows[known], rows])
    counts = np.bincount(owners, minlength=len(words))
    # Only the rows in use leave the mapped file; each is read once, however many words share it.
    used, column = np.unique(rows, return_inverse=True)
    means = sparse.csr_array((1.0 / counts[owners], (owners, column)), shape=(len(words), len(used)))
    return means @ table[used].astype(np.float64), counts


def _blocks(words: Sequence[bytes], ngrams: Ngrams, dim: int) -> Iterator[slice]:
    """Runs of words whose n-grams touch a bounded number of rows."""
    most = np.cumsum([(len(word) + 2) * len(ngrams.lengths) + 1 for word in words])
    budget = max(GATHERED_BYTES // (8 * dim), 1)
    start = 0
    while start < len(words):
        before = int(most[start - 1]) if start else 0
        stop = max(int(np.searchsorted(most, before + budget, side="right")), start + 1)
        yield slice(start, stop)
        start = stop


@dataclass(frozen=True)
class SubwordComposer:
    """Vectors for words that were not read, from the n-grams of a fastText model."""

    table: Matrix = field(repr=False)
    ngrams: Ngrams
    name: str
    unread: Mapping[bytes, int] = field(default_factory=dict, repr=False)
    """Rows of vocabulary words that a limit kept out: they have a row of their own."""

    def __call__(self, words: Sequence[str]) -> Matrix:
        """One row a word; a word too short to have an n-gram is an error, not a zero vector."""
        raw = [word.encode(errors="surrogatepass") for word in words]
        own = np.array([self.unread.get(word, -1) for word in raw], np.int64)
        vectors, counts = mean_vectors(raw, own, self.table, self.ngrams)
        if not counts.all():
            spread = f"{self.ngrams.lengths.start} to {self.ngrams.longest}"
            raise VocabularyError(
                f"{self.name} cannot compose {words[int(counts.argmin())]!r}: it has no n-gram of {spread} characters",
                hint="fastText itself would answer with a zero vector; leave the word out",
            )
        if not np.isfinite(vectors).all():
            bad = words[int(np.argmin(np.isfinite(vectors).all(axis=1)))]
            raise FormatError(f"{self.name}: NaN or infinity among the n-gram rows of {bad!r}")
        return vectors
