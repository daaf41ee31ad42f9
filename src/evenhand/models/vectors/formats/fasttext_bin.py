"""Read fastText binary models (.bin): settings, dictionary, then one row per word and per n-gram bucket.

The layout is that of `FastText::saveModel`, versions 11 and 12, little-endian and without padding.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import FormatError
from evenhand.files import compression_of, open_bytes
from evenhand.models.vectors.formats.format import Format, Parsed, ReadOptions, register_format
from evenhand.models.vectors.formats.rows import GrowingMatrix
from evenhand.models.vectors.formats.subwords import Ngrams, SubwordComposer, mean_vectors

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
