"""Read fastText binary models (.bin): settings, dictionary, then one row per word and per n-gram bucket.

The layout is that of `FastText::saveModel`, versions 11 and 12, little-endian and without padding. The vector of a word
is the mean of its own row and the rows of its character n-grams, which are hashed into shared buckets (Bojanowski et
al. 2017, "Enriching Word Vectors with Subword Information").
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix, Rows
from evenhand.errors import FormatError, VocabularyError
from evenhand.files import compression_of, open_bytes
from evenhand.models.vectors.formats.format import Format, Parsed, ReadOptions, register_format
from evenhand.models.vectors.formats.text import GrowingMatrix

MAGIC = 793712314
MODELS = {1: "cbow", 2: "skipgram", 3: "supervised"}
LONGEST_WORD = 1 << 16
LONGEST_NGRAM = 64  # the default of fastText is 6; a larger value means a damaged header
AFTER_WORD = 10  # the terminating zero, an int64 count, an int8 type


@dataclass(frozen=True)
class _Header:
    version: int
    dim: int
    model: int
    bucket: int
    shortest: int
    longest: int
    entries: int
    words: int
    pruned: int

    @property
    def ngrams(self) -> Ngrams | None:
        """The n-grams of the model, or None."""
        # Version 11 wrote n-gram lengths into supervised models that had been trained without n-grams.
        unused = self.version == 11 and MODELS[self.model] == "supervised"
        some = max(self.shortest, 1) <= self.longest and self.bucket > 0 and not unused
        return Ngrams(self.shortest, self.longest, self.bucket, self.words) if some else None


def is_fasttext_binary(start: bytes) -> bool:
    """Return whether a file starts as fastText binary models do."""
    return start.startswith(MAGIC.to_bytes(4, "little"))


def read(path: Path, options: ReadOptions) -> Parsed:
    """Read words and vectors; a model with n-grams can also compose vectors of unseen words.

    The input matrix is memory-mapped unless the file is compressed.
    """
    with open_bytes(path, kept=True) as stream:
        cursor = Cursor(stream, path)
        header = _header(cursor)
        raw = _dictionary(cursor, header)
        table = _input_rows(cursor, header)
        _check_output(cursor)
    words = _decode(raw[: options.limit], options.encoding_errors, path)
    return _vectors(words, raw, table, header, path.name)


def _header(cursor: Cursor) -> _Header:
    magic, version = cursor.numbers("2i", "its header")
    if magic != MAGIC or version not in (11, 12):
        kind = f"fastText version {version}" if magic == MAGIC else "not a fastText binary"
        raise FormatError(f"{cursor.path}: {kind}; versions 11 and 12 are supported", hint="name another `format=`")
    settings = cursor.numbers("12id", "its settings")
    dim, model, bucket, shortest, longest = settings[0], *settings[7:11]
    entries, words, labels, _tokens, pruned = cursor.numbers("3i2q", "the head of its dictionary")
    header = _Header(version, dim, model, bucket, shortest, longest, entries, words, pruned)
    if not (1 <= dim <= 100_000 and model in MODELS and bucket >= 0 and 0 <= longest <= LONGEST_NGRAM):
        raise cursor.broken(f"invalid settings: {dim=}, {model=}, {bucket=}, maxn={longest}")
    if words < 1 or labels < 0 or words + labels != entries or pruned < -1:
        raise cursor.broken(f"invalid dictionary: {words=}, {labels=}, {entries=}, {pruned=}")
    cursor.require(entries * (AFTER_WORD + 1) + 8 * max(pruned, 0), "the dictionary")
    return header


def _dictionary(cursor: Cursor, header: _Header) -> list[bytes]:
    """Return the words as bytes, without the labels of a classifier that follow them."""
    entries: list[bytes] = []
    kinds = bytearray()
    while len(entries) < header.entries:
        window, grown = cursor.window()
        start = _whole_entries(window, header.entries - len(entries), entries, kinds)
        if not start and (not grown or len(window) >= LONGEST_WORD + AFTER_WORD):
            raise cursor.broken(f"dictionary entry {len(entries) + 1:,} of {header.entries:,} has no end")
        cursor.advance(start)
    if any(kinds[: header.words]) or b"" in entries:
        raise cursor.broken("the dictionary contains an empty word, or a label among its words")
    cursor.skip(8 * max(header.pruned, 0), "the list of pruned n-grams")
    return entries[: header.words]


def _whole_entries(window: bytes, most: int, entries: list[bytes], kinds: bytearray) -> int:
    """Append the complete entries of the window, and return their size in bytes."""
    start = 0
    for _ in range(most):
        end = window.find(b"\0", start, start + LONGEST_WORD)
        if end < 0 or end + AFTER_WORD > len(window):
            break
        entries.append(window[start:end])
        kinds.append(window[end + AFTER_WORD - 1])
        start = end + AFTER_WORD
    return start


def _input_rows(cursor: Cursor, header: _Header) -> Matrix:
    (quantised,) = cursor.numbers("B", "its input matrix")
    if quantised or header.pruned >= 0:
        raise FormatError(
            f"{cursor.path}: quantised or pruned fastText models (.ftz) are not supported",
            hint="use the .bin file it was made from",
        )
    rows, dim = cursor.numbers("2q", "its input matrix")
    needed = header.words + (header.bucket if header.ngrams else 0)
    if dim != header.dim or rows < needed:
        raise cursor.broken(f"an input matrix of {rows:,} x {dim:,}; the header requires {needed:,} x {header.dim:,}")
    cursor.require(4 * rows * dim, "the input matrix")
    if cursor.size is None:
        return _read_rows(cursor, rows, dim)
    table = np.memmap(cursor.path, "<f4", "r", offset=cursor.position, shape=(rows, dim))
    cursor.skip(4 * rows * dim, "the input matrix")
    return table


def _read_rows(cursor: Cursor, rows: int, dim: int) -> Matrix:
    matrix = GrowingMatrix(dim)
    while matrix.rows < rows:
        count = min(rows - matrix.rows, max(CHUNK // (4 * dim), 1))
        block = cursor.take(4 * count * dim, f"row {matrix.rows + 1:,} or later of {rows:,} of the input matrix")
        matrix.reserve(count)[:] = np.frombuffer(block, "<f4").reshape(count, dim)
    return matrix.finish()


def _check_output(cursor: Cursor) -> None:
    """Check that the output matrix is complete; it is not used, but a truncated one means a truncated file."""
    _quantised, rows, dim = cursor.numbers("B2q", "its output matrix")
    if rows < 0 or dim < 0:
        raise cursor.broken(f"an output matrix of {rows:,} x {dim:,}")
    cursor.skip(4 * rows * dim, "the output matrix")


def _decode(raw: Sequence[bytes], errors: str, path: Path) -> list[str]:
    words: list[str] = []
    for word in raw:
        try:
            words.append(word.decode(errors=errors))
        except UnicodeDecodeError:
            raise FormatError(
                f"{path}, word {len(words) + 1:,}: not valid UTF-8: {word[:40]!r}",
                hint='read it with `encoding_errors="replace"`',
            ) from None
    return words


def _vectors(words: list[str], raw: list[bytes], table: Matrix, header: _Header, name: str) -> Parsed:
    source = {
        "model": MODELS[header.model],
        "version": header.version,
        "labels": header.entries - header.words,
        "minn": header.shortest,
        "maxn": header.longest,
        "bucket": header.bucket,
    }
    if header.ngrams is None:
        # The rows follow the dictionary and are usually not aligned to four bytes.
        return Parsed(words, np.require(table[: len(words)], np.float32, ["A", "C"]), source=source)
    own = np.arange(len(words))
    matrix, _counts = mean_vectors(raw[: len(words)], own, table, header.ngrams)
    unread = {word: row for row, word in enumerate(raw[len(words) :], len(words))}
    return Parsed(words, matrix, source=source, compose=SubwordComposer(table, header.ngrams, name, unread))


CHUNK = 16 << 20


class Cursor:
    """A position in a stream; a truncated stream raises an error with the position."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.stream, self.path = stream, path
        self.size = None if compression_of(path) else path.stat().st_size
        self.position = 0
        self._ahead = b""

    def take(self, count: int, what: str) -> bytes:
        """Read exactly `count` bytes."""
        while len(self._ahead) < count:
            more = self.stream.read(count - len(self._ahead))
            if not more:
                raise self.broken(f"the file ends inside {what}")
            self._ahead += more
        taken = self._ahead[:count]
        self.advance(count)
        return taken

    def numbers(self, layout: str, what: str) -> tuple[int, ...]:
        """Read little-endian numbers without padding; `layout` is a `struct` format."""
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout), what))

    def window(self) -> tuple[bytes, bool]:
        """Read one more chunk; return all bytes ahead, and whether the chunk was not empty."""
        more = self.stream.read(CHUNK)
        self._ahead += more
        return self._ahead, bool(more)

    def advance(self, count: int) -> None:
        """Consume bytes of the window."""
        self.position += count
        self._ahead = self._ahead[count:]

    def skip(self, count: int, what: str) -> None:
        """Skip bytes without keeping them in memory."""
        if self.size is None:
            while count > 0:
                count -= len(self.take(min(count, CHUNK), what))
            return
        self.require(count, what)
        self._ahead = b""
        self.position += count
        self.stream.seek(self.position)

    def require(self, count: int, what: str) -> None:
        """Raise an error if fewer than `count` bytes are left, before any memory is allocated."""
        if self.size is not None and count > self.size - self.position:
            raise self.broken(f"{what} takes {count:,} bytes, but only {self.size - self.position:,} are left")

    def broken(self, why: str) -> FormatError:
        """Return the error for a damaged file, with the position."""
        return FormatError(
            f"{self.path}, byte {self.position:,}: {why}",
            hint="fetch the file again, or name another `format=`",
        )


register_format(
    Format(
        "fasttext-bin",
        "fastText binary, with sub-words",
        (".ft.bin",),
        read,
        matches=is_fasttext_binary,
        cached=False,
        why_not_written="it holds sub-word weights that a table of words does not have",
    )
)


# FNV-1a, 32 bits (Fowler, Noll and Vo).
FNV_START, FNV_PRIME = np.uint32(2166136261), np.uint32(16777619)
END_OF_SENTENCE = b"</s>"  # the token of fastText for a line end, which has no n-grams
GATHERED_BYTES = 32 << 20  # rows per block, in double precision

_Hashes = NDArray[np.uint32]


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
    bytes: _Hashes  # every byte, sign-extended as in fastText


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


def _append_character(hashes: _Hashes, at: Rows, character: Rows, text: _Characters) -> None:
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
