"""A vocabulary in a file of its own: one word a line, beside a matrix that has no words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from evenhand.errors import FormatError, InputMissingError
from evenhand.files import bare_name, open_bytes
from evenhand.models.vectors.formats.format import ReadOptions

ENDINGS = (".vocab", ".vocab.txt", ".words.txt", ".txt")
NUMBER_AT_END = re.compile(r".*[ \t][+-]?\d+(\.\d+)?(e[+-]?\d+)?", re.DOTALL)


def join_words(words: Iterable[str]) -> bytes:
    """Words as UTF-8 lines. Only the line feed separates: tokens may contain every other kind of white space."""
    listed = list(words)
    joined = "".join(f"{word}\n" for word in listed)
    if joined.count("\n") != len(listed):
        bad = next(word for word in listed if "\n" in word)
        raise FormatError(
            f"the word {bad!r} contains a line end, which a vocabulary cannot hold", hint="write word2vec's .bin"
        )
    return joined.encode()


def split_words(raw: bytes, path: Path, errors: str = "strict") -> list[str]:
    """The inverse of `join_words`; a last line without its line end is a word too."""
    try:
        text = raw.decode(errors=errors)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FormatError(
            f"{path}, line {line:,} of the vocabulary: not valid UTF-8",
            hint='read it with encoding_errors="replace" (command line: --encoding-errors replace)',
        ) from None
    return text.removesuffix("\n").split("\n") if text else []


def beside(path: Path) -> Path:
    """The vocabulary file that belongs to a matrix file: `x.npy` goes with `x.vocab` or the like, or `vocab.txt`."""
    stem = path.name[: len(bare_name(path))].rpartition(".")[0]
    candidates = [path.with_name(stem + ending) for ending in ENDINGS] + [path.with_name("vocab.txt")]
    for candidate in candidates:
        if candidate != path and candidate.exists():
            return candidate
    raise InputMissingError(
        f"{path} holds a matrix without words, and no vocabulary lies beside it",
        hint=f"put one word a line into {candidates[0].name}, or name the file: vocabulary=... (--vocabulary)",
    )


def read_vocabulary(path: Path, options: ReadOptions) -> Sequence[str]:
    """The words that belong to the matrix file `path`."""
    source = options.vocabulary or beside(path)
    with open_bytes(source) as stream:
        return words_of_file(stream.read(), source, options.encoding_errors)


def words_of_file(raw: bytes, path: Path, errors: str = "strict") -> list[str]:
    """The words of a file that another program or system may have written: its line ends, the mark of some editors."""
    raw = raw.removeprefix("\ufeff".encode())
    if raw.count(b"\r\n") == raw.count(b"\n"):  # otherwise the return belongs to a word
        raw = raw.replace(b"\r\n", b"\n")
    words = split_words(raw, path, errors)
    if len(words) > 1 and all(NUMBER_AT_END.fullmatch(word) for word in words[:100]):
        raise FormatError(
            f"{path}, line 1: numbers beside each word ({words[0][:60]!r})",
            hint="a vocabulary has one word a line, nothing else; name the right file: vocabulary=... (--vocabulary)",
        )
    return words
