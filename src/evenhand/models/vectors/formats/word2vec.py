"""word2vec binary files, and gensim's pickles of such models, which are opened only with `allow_pickle`.

A binary file has a header line, and then for each word its bytes, a space and its float32 numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import FormatError, UsageError, VocabularyError, require
from evenhand.files import compression_of, existing, open_bytes, writing
from evenhand.models.vectors.formats.format import Format, Parsed, ReadOptions, WordMatrix, register_format
from evenhand.models.vectors.formats.text import GrowingMatrix

CHUNK = 16 << 20
HEADER_LINE = re.compile(rb"\d{1,11}[ \t]\d{1,11}\s*?\n")
LONGEST_WORD = 1 << 16


def is_word2vec_binary(start: bytes) -> bool:
    """Return whether a header line is followed by bytes that are not text.

    Text contains no NUL byte; 4 KB of float32 numbers nearly always do.
    """
    return b"\0" in start and HEADER_LINE.match(start) is not None


def read(path: Path, options: ReadOptions) -> Parsed:
    """Read the file in order; a truncated file raises an error with the position."""
    with open_bytes(path, kept=True) as stream:
        count, dim = _header(stream, path)
        if not compression_of(path) and count * (4 * dim + 2) > path.stat().st_size:
            raise FormatError(
                f"{path}: the header states {count:,} words of {dim} numbers, more than the file holds",
                hint="the file is truncated: fetch it again",
            )
        wanted = count if options.limit is None else min(count, options.limit)
        words, matrix, rest = _rows(stream, path, wanted, dim, options.encoding_errors)
        # Reading further also verifies the checksum of a compressed stream.
        if wanted == count and (rest + stream.read(64)).strip():
            raise FormatError(
                f"{path}: more data after the {count:,} words stated in the header",
                hint="the header is wrong, or two files were concatenated; fetch it again",
            )
    return Parsed(words, matrix)


def _header(stream: IO[bytes], path: Path) -> tuple[int, int]:
    line = bytearray()
    while len(line) < 64 and (byte := stream.read(1)) and byte != b"\n":
        line += byte
    fields = bytes(line).split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 12 for field in fields):
        raise FormatError(
            f"{path}: the first line is not a word2vec header (two integers)", hint="name another `format=`"
        )
    count, dim = int(fields[0]), int(fields[1])
    if not 1 <= dim <= 100_000:
        raise FormatError(
            f"{path}, line 1: the header states a dimension of {dim:,}",
            hint="fetch it again, or name another `format=`",
        )
    return count, dim


def _rows(stream: IO[bytes], path: Path, count: int, dim: int, errors: str) -> tuple[list[str], Matrix, bytes]:
    words: list[str] = []
    matrix = GrowingMatrix(dim)
    buffer, width = b"", 4 * dim
    while len(words) < count:
        chunk = stream.read(CHUNK)
        if not chunk:
            raise FormatError(
                f"{path}: the file ends inside word {len(words) + 1:,} of {count:,}",
                hint="the file is truncated: fetch it again",
            )
        buffer += chunk
        spans, used = _complete_entries(buffer, width, len(words), count)
        if not spans and len(buffer) >= LONGEST_WORD + width + 2:
            raise _no_word(path, len(words) + 1)
        rows = matrix.reserve(len(spans))
        for row, (start, space) in enumerate(spans):
            words.append(_decode(buffer[start:space], errors, path, len(words)))
            rows[row] = np.frombuffer(buffer, "<f4", dim, space + 1)
        buffer = buffer[used:]
    return words, matrix.finish(), buffer


def _no_word(path: Path, number: int) -> FormatError:
    return FormatError(
        f"{path}: word {number:,} has no end within {LONGEST_WORD:,} bytes",
        hint="the file is damaged or not in word2vec binary format; fetch it again or name another `format=`",
    )


def _complete_entries(buffer: bytes, width: int, done: int, count: int) -> tuple[list[tuple[int, int]], int]:
    """Return the start and the position of the space of every complete entry in the buffer, and their size."""
    spans: list[tuple[int, int]] = []
    position = 0
    while done + len(spans) < count:
        start = position + buffer.startswith(b"\n", position)  # the original tool ends rows with a line end
        space = buffer.find(b" ", start, start + LONGEST_WORD)
        if space < 0 or space + 1 + width > len(buffer):
            break
        spans.append((start, space))
        position = space + 1 + width
    return spans, position


def _decode(raw: bytes, errors: str, path: Path, row: int) -> str:
    try:
        word = raw.decode(errors=errors)
    except UnicodeDecodeError:
        raise FormatError(
            f"{path}, word {row + 1:,}: not valid UTF-8: {raw[:40]!r}",
            hint='read it with `encoding_errors="replace"`',
        ) from None
    if not word:
        raise FormatError(
            f"{path}, word {row + 1:,}: the word is empty",
            hint="the dimension in the header is wrong, or the file is damaged; fetch it again",
        )
    return word


def write(vectors: WordMatrix, path: Path) -> None:
    """Write the layout of the original tool, with a line end after each row."""
    for word in vectors.words:
        if not word or " " in word or word.startswith("\n") or len(word) > LONGEST_WORD // 4:
            raise FormatError(
                f"{path}: word2vec binary format cannot hold the word {word[:60]!r}",
                hint="write .safetensors",
            )
    with writing(path) as out:
        out.write(f"{len(vectors)} {vectors.dim}\n".encode())
        for word, row in zip(vectors.words, vectors.matrix, strict=True):
            out.write(word.encode() + b" " + row.astype("<f4").tobytes() + b"\n")


register_format(Format("word2vec-bin", "word2vec binary", (".bin",), read, write, is_word2vec_binary))


@dataclass(frozen=True)
class GensimComposer:
    """Composes vectors of unseen words with a gensim `FastTextKeyedVectors`."""

    keyed_vectors: Any = field(repr=False)

    def __call__(self, words: Sequence[str]) -> Matrix:
        """Return one row per word; a word too short to have an n-gram raises `VocabularyError`."""
        rows = np.array([self.keyed_vectors.get_vector(word) for word in words], np.float32)
        composed = rows.reshape(len(words), -1).any(axis=1)  # gensim returns a zero vector and logs a warning
        if not composed.all():
            raise VocabularyError(
                f"the gensim model cannot compose {words[int(composed.argmin())]!r}: it has no n-gram of valid length",
                hint="leave the word out",
            )
        return rows


def read_gensim(path: Path, options: ReadOptions) -> Parsed:
    """Unpickle `KeyedVectors` or a model that has them. This can run arbitrary code."""
    if not options.allow_pickle:
        raise UsageError(
            f"{path}: a Python pickle, which can run arbitrary code when it is opened",
            hint="if you trust the file: `allow_pickle=True`",
        )
    existing(path, what="vector file")
    saved = require("gensim.utils", extra="gensim").SaveLoad
    try:
        model = saved.load(str(path), mmap=None if compression_of(path) else "r")
    except Exception as error:  # unpickling can raise any exception
        raise FormatError(
            f"{path}: gensim cannot open it ({type(error).__name__}: {error})",
            hint="keep its .npy files beside it, or export it with save_word2vec_format at its origin",
        ) from error
    return gensim_content(model, name=str(path), limit=options.limit)


def gensim_content(model: Any, *, name: str, limit: int | None = None) -> Parsed:
    """Return words, matrix and composer of gensim `KeyedVectors`, or of a model with a `wv` attribute."""
    keyed = getattr(model, "wv", model)
    words, matrix = getattr(keyed, "index_to_key", None), getattr(keyed, "vectors", None)
    if words is None or matrix is None:
        raise FormatError(f"{name}: a {type(model).__name__}, not gensim (4 or later) vectors", hint="pass model.wv")
    # gensim allocates rows before it assigns keys; rows without a key are skipped.
    rows = [row for row, word in enumerate(words) if word is not None][:limit]
    keys = [words[row] for row in rows]
    invalid = next((key for key in keys if not isinstance(key, str)), None)
    if invalid is not None:
        raise FormatError(f"{name}: the key {invalid!r} is a {type(invalid).__name__}, not a word")
    whole = rows == list(range(len(rows)))
    compose = GensimComposer(keyed) if getattr(keyed, "bucket", 0) else None
    source = {"gensim": type(keyed).__name__}
    return Parsed(keys, matrix[: len(rows)] if whole else matrix[rows], source=source, compose=compose)
