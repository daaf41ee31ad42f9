"""Vocabulary files: one word per line, for a matrix without words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from evenhand.errors import FormatError, InputMissingError
from evenhand.files import bare_name, open_bytes
from evenhand.models.vectors.formats.format import ReadOptions
from evenhand.models.vectors.formats.rows import line_blocks

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
