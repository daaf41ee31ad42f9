"""NumPy .npy matrices, whose words are in a vocabulary file with one word per line or in a parquet file."""

from __future__ import annotations

import math
import re
import tokenize
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import numpy as np

from evenhand.arrays import Matrix
from evenhand.columnar import MissingColumnError, TextColumn
from evenhand.errors import EvenhandError, FormatError, InputMissingError
from evenhand.files import bare_name, compression_of, existing, open_bytes, writing
from evenhand.models.vectors.formats.format import (
    MAX_EXPANSION,
    Format,
    Parsed,
    ReadOptions,
    WordMatrix,
    check_expansion,
    register_format,
)
from evenhand.models.vectors.formats.text import line_blocks

# Exceptions that numpy's header parser raises for damaged headers.
BROKEN_HEADER = (
    ValueError,
    EOFError,
    OSError,
    SyntaxError,
    OverflowError,
    MemoryError,
    TypeError,
    KeyError,
    AttributeError,
    RecursionError,
    tokenize.TokenError,
)


def is_npy(start: bytes) -> bool:
    """Return whether a file starts as .npy files do."""
    return start.startswith(b"\x93NUMPY")


def is_parquet(start: bytes) -> bool:
    """Return whether a file starts as parquet files do."""
    return start.startswith(b"PAR1")


def read(path: Path, options: ReadOptions) -> Parsed:
    """Read matrix and vocabulary; the matrix is memory-mapped unless compressed. Object arrays are refused."""
    return Parsed(read_vocabulary(path, options), read_matrix(path))


def read_matrix(path: Path) -> Matrix:
    """Read a .npy matrix, memory-mapped unless it is compressed."""
    try:
        with open_bytes(path) as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns about headers written by Python 2
            if not is_npy(stream.read(6)):
                raise ValueError("the magic number is missing")
            if not compression_of(path):
                return np.lib.format.open_memmap(path, mode="r")
        return _decompress(path)
    except EvenhandError:
        raise
    except BROKEN_HEADER as error:
        raise FormatError(
            f"{path}: not a readable .npy matrix ({error})", hint="fetch or write the file again"
        ) from error


def _decompress(path: Path) -> Matrix:
    with open_bytes(path) as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _check_size(stream, path)
    with open_bytes(path) as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matrix = np.lib.format.read_array(stream, allow_pickle=False)
        if stream.read(1):  # reading to the end also verifies the checksum
            raise ValueError("more data follows the matrix")
    return matrix


def _check_size(stream: IO[bytes], path: Path) -> None:
    """Check the size that the header states before memory is allocated."""
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    check_expansion(path, math.prod(shape) * dtype.itemsize)


def write(vectors: WordMatrix, path: Path) -> None:
    """Write the matrix and `<name>.vocab`."""
    stem = path.name.removesuffix(path.suffix if compression_of(path) else "")
    vocabulary = path.with_name(Path(stem).stem + ".vocab")
    raw = join_words(vectors.words)
    if words_of_file(raw, vocabulary) != list(vectors.words):
        raise FormatError(
            f"{vocabulary}: words with carriage returns or byte order marks cannot be restored",
            hint="write .safetensors",
        )
    with writing(vocabulary) as out:
        out.write(raw)
    with writing(path) as out:
        # Not `out` itself: numpy would write to its descriptor with fwrite and miss errors of the last block, so a
        # full disk would leave half a matrix.
        stream = SimpleNamespace(write=out.write)
        np.lib.format.write_array(stream, np.ascontiguousarray(vectors.matrix), allow_pickle=False)


def read_parquet(path: Path, options: ReadOptions) -> Parsed:
    """Read a parquet column of words and the .npy matrix in the same folder (layout of the kumo packages)."""
    matrices = sorted(path.parent.glob("*.npy"))
    if len(matrices) != 1:
        raise InputMissingError(
            f"{path}: expected one .npy matrix in the same folder, found {len(matrices)}",
            hint="put the two files of a data set in a folder of their own",
        )
    allowed = max(MAX_EXPANSION * existing(path).stat().st_size, options.max_record)
    column = TextColumn(str(path), None, options.max_record, limit=4 * allowed, total=allowed)
    words: list[str] = []
    try:
        for block in column.parquet(path):
            for place, kind in block.others.items():
                raise _not_words(path, f"{kind or 'too long a text'} in row {len(words) + place + 1}")
            words += [text for text in block.texts if text is not None]
    except MissingColumnError as error:
        raise _not_words(path, str(error.texts)) from None
    return Parsed(words, read_matrix(matrices[0]))


def _not_words(path: Path, found: str) -> FormatError:
    return FormatError(f"{path}: expected one column of words without nulls, found {found}", hint="fetch it again")


register_format(
    Format("npy", "numpy matrix + vocabulary", (".npy",), read, write, is_npy, cached=False, separate_words=True)
)
register_format(
    Format(
        "parquet-npy",
        "parquet words + numpy matrix",
        (".parquet",),
        read_parquet,
        matches=is_parquet,
        cached=False,
        why_not_written="it is the layout of other packages",
    )
)


ENDINGS = (".vocab", ".vocab.txt", ".words.txt", ".txt")
NUMBER_AT_END = re.compile(r".*[ \t][+-]?\d++(\.\d++)?(e[+-]?\d++)?", re.DOTALL)


def join_words(words: Iterable[str]) -> bytes:
    """Encode words as UTF-8 lines separated by line feeds; tokens may contain other white space."""
    lines = list(words)
    joined = "".join(f"{word}\n" for word in lines)
    if joined.count("\n") != len(lines):
        bad = next(word for word in lines if "\n" in word)
        raise FormatError(
            f"the word {bad!r} contains a line end, which a vocabulary file cannot hold", hint="write word2vec .bin"
        )
    return joined.encode()


def split_words(raw: bytes, path: Path, errors: str = "strict") -> list[str]:
    """Decode lines into words, the inverse of `join_words`; the last line end is optional."""
    try:
        text = raw.decode(errors=errors)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FormatError(
            f"{path}, line {line:,} of the vocabulary: not valid UTF-8",
            hint='read it with `encoding_errors="replace"`',
        ) from None
    return text.removesuffix("\n").split("\n") if text else []


def beside(path: Path) -> Path:
    """Return the vocabulary file of a matrix file: `x.vocab` or similar for `x.npy`, or `vocab.txt`."""
    stem = path.name[: len(bare_name(path))].rpartition(".")[0]
    candidates = [path.with_name(stem + ending) for ending in ENDINGS] + [path.with_name("vocab.txt")]
    for candidate in candidates:
        if candidate != path and candidate.exists():
            return candidate
    raise InputMissingError(
        f"{path} has no words, and there is no vocabulary file beside it",
        hint=f"write one word per line to {candidates[0].name}, or name the file: `vocabulary=`",
    )


def read_vocabulary(path: Path, options: ReadOptions) -> Sequence[str]:
    """Read the words of the matrix file `path`."""
    source = options.vocabulary or beside(path)
    with open_bytes(source, kept=True) as stream:
        # Read by lines, so that a compressed file without line ends does not fill the memory.
        raw = b"".join(line_blocks(stream, source, max_record=options.max_record))
    return words_of_file(raw, source, options.encoding_errors)


def words_of_file(raw: bytes, path: Path, errors: str = "strict") -> list[str]:
    """Decode a vocabulary file; handles CRLF line ends and a byte order mark."""
    raw = raw.removeprefix("\ufeff".encode())
    if raw.count(b"\r\n") == raw.count(b"\n"):  # otherwise the carriage return belongs to a word
        raw = raw.replace(b"\r\n", b"\n")
    words = split_words(raw, path, errors)
    if len(words) > 1 and all(NUMBER_AT_END.fullmatch(word) for word in words[:100]):
        raise FormatError(
            f"{path}, line 1: numbers after each word ({words[0][:60]!r})",
            hint="a vocabulary file has one word per line; name the right file: `vocabulary=`",
        )
    return words
