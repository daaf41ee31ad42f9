"""fastText word vectors: the mean of a word's own row and the rows of its character n-grams.

N-grams are hashed into shared buckets (Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information"). All
n-grams of a block of words are hashed together, byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix, Rows
from evenhand.errors import FormatError, VocabularyError

# FNV-1a, 32 bits (Fowler, Noll and Vo).
FNV_START, FNV_PRIME = np.uint32(2166136261), np.uint32(16777619)
END_OF_SENTENCE = b"</s>"  # the token of fastText for a line end, which has no n-grams
GATHERED_BYTES = 32 << 20  # rows per block, in double precision

Hashes = NDArray[np.uint32]


@dataclass(frozen=True)
class Ngrams:
    """Rows of the input matrix that hold character n-grams: `bucket` rows after those of the words."""

    shortest: int
    longest: int
    bucket: int
    first_row: int

    @property
    def lengths(self) -> range:
        """N-gram lengths in characters."""
        return range(max(self.shortest, 1), self.longest + 1)


@dataclass(frozen=True)
class _Characters:
    """The characters of a block of words, each word enclosed in "<" and ">"."""

    start: Rows  # first byte of each character
    size: Rows  # its number of bytes
    word: Rows  # the word it belongs to
    room: Rows  # characters from here to the end of the word, this one included
    opens: NDArray[np.bool_]  # True for the first character of a word
    bytes: Hashes  # every byte, sign-extended as in fastText


def _characters(words: Sequence[bytes]) -> _Characters:
    raw = np.frombuffer(b"".join(b"<%b>" % word for word in words), np.uint8)
    ends = np.cumsum([len(word) + 2 for word in words])
    # In fastText every byte that is not a UTF-8 continuation byte starts a character.
    start = np.flatnonzero((raw & 0xC0) != 0x80)
    word = np.searchsorted(ends, start, side="right")
    last = np.cumsum(np.bincount(word, minlength=len(words)))
    room = last[word] - np.arange(len(start))
    room[np.array([text == END_OF_SENTENCE for text in words])[word]] = 0
    opens = np.diff(word, prepend=-1) > 0
    # A signed char in C++: bytes of 128 and above are sign-extended before hashing.
    widened = raw.view(np.int8).astype(np.int32).view(np.uint32)
    return _Characters(start, np.diff(start, append=len(raw)), word, room, opens, widened)


def ngram_rows(words: Sequence[bytes], ngrams: Ngrams) -> tuple[Rows, Rows]:
    """Return, for every n-gram of every word, the index of the word and the row of the input matrix."""
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
            # fastText leaves out the n-grams "<" and ">".
            used = at if length > 1 else at[~text.opens[at] & (text.room[at] > 1)]
            owners.append(text.word[used])
            rows.append(ngrams.first_row + (hashes[used] % np.uint32(ngrams.bucket)).astype(np.int64))
    return np.concatenate(owners), np.concatenate(rows)


def _append_character(hashes: Hashes, at: Rows, character: Rows, text: _Characters) -> None:
    """Extend the hashes of the n-grams that start at `at` by one more character each."""
    byte = 0
    while len(at):
        hashes[at] = (hashes[at] ^ text.bytes[text.start[character] + byte]) * FNV_PRIME
        byte += 1
        longer = text.size[character] > byte
        at, character = at[longer], character[longer]


def mean_vectors(
    words: Sequence[bytes], own_rows: Rows, table: Matrix, ngrams: Ngrams
) -> tuple[Matrix, NDArray[np.int64]]:
    """Return the vector of each word and the number of rows averaged (0 gives a zero vector).

    An entry of -1 in `own_rows` marks a word without a row of its own.
    """
    vectors = np.empty((len(words), table.shape[1]), np.float32)
    counts = np.empty(len(words), np.int64)
    with np.errstate(invalid="ignore"):  # NaN is reported later with its word
        for block in _blocks(words, ngrams, table.shape[1]):
            vectors[block], counts[block] = _block_means(words[block], own_rows[block], table, ngrams)
    return vectors, counts


def _block_means(words: Sequence[bytes], own_rows: Rows, table: Matrix, ngrams: Ngrams) -> tuple[Matrix, Rows]:
    from scipy import sparse

    owners, rows = ngram_rows(words, ngrams)
    with_row = np.flatnonzero(own_rows >= 0)
    owners, rows = np.concatenate([with_row, owners]), np.concatenate([own_rows[with_row], rows])
    counts = np.bincount(owners, minlength=len(words))
    # Each row in use is read from the mapped file once, even if several words share it.
    used, column = np.unique(rows, return_inverse=True)
    means = sparse.csr_array((1.0 / counts[owners], (owners, column)), shape=(len(words), len(used)))
    return means @ table[used].astype(np.float64), counts


def _blocks(words: Sequence[bytes], ngrams: Ngrams, dim: int) -> Iterator[slice]:
    """Yield blocks of words whose n-grams use a bounded number of rows."""
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
    """Composes vectors of unread words from the n-grams of a fastText model."""

    table: Matrix = field(repr=False)
    ngrams: Ngrams
    name: str
    unread: Mapping[bytes, int] = field(default_factory=dict, repr=False)
    """Rows of vocabulary words that were not read because of a limit."""

    def __call__(self, words: Sequence[str]) -> Matrix:
        """Return one row per word; a word too short to have an n-gram raises `VocabularyError`."""
        raw = [word.encode(errors="surrogatepass") for word in words]
        own = np.array([self.unread.get(word, -1) for word in raw], np.int64)
        vectors, counts = mean_vectors(raw, own, self.table, self.ngrams)
        if not counts.all():
            spread = f"{self.ngrams.lengths.start} to {self.ngrams.longest}"
            raise VocabularyError(
                f"{self.name} cannot compose {words[int(counts.argmin())]!r}: it has no n-gram of {spread} characters",
                hint="fastText returns a zero vector for it; leave the word out",
            )
        if not np.isfinite(vectors).all():
            bad = words[int(np.argmin(np.isfinite(vectors).all(axis=1)))]
            raise FormatError(f"{self.name}: NaN or infinity among the n-gram rows of {bad!r}")
        return vectors
