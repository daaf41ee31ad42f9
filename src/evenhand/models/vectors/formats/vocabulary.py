"""A vocabulary in a file of its own: one word a line, beside a matrix that has no words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from evenhand.errors import FormatError, InputMissingError
from evenhand.files import bare_name, open_bytes
from evenhand.models.vectors.formats.format import ReadOptions

ENDINGS = (".vocab", ".vocab.txt", ".words.txt", ".txt")


def join_words(words: Iterable[str]) -> bytes:
    """Words as UTF-8 lines. Only the line feed separates: tokens may contain every other kind of white space."""
    listed = list(words)
    joined = "\n".join(listed)
    if joined.count("\n") != max(len(listed) - 1, 0):
        bad = next(word for word in listed if "\n" in word)
        raise FormatError(f"the word {bad!r} contains a line end, which a vocabulary file cannot hold")
    return joined.encode(errors="surrogatepass")


def split_words(raw: bytes, path: Path, errors: str = "strict") -> list[str]:
    """The inverse of `join_words`; a last line end is not a word."""
    try:
        text = raw.decode(errors="surrogatepass" if errors == "strict" else errors)
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}: the vocabulary is not valid UTF-8 (byte {error.start:,})",
            hint='read it with encoding_errors="replace" (command line: --encoding-errors replace)',
        ) from None
    text = text.replace("\r\n", "\n").removesuffix("\n")
    return text.split("\n") if text else []


def beside(path: Path) -> Path:
    """The vocabulary file that belongs to a matrix file: `x.npy` goes with `x.vocab` or the like, or `vocab.txt`."""
    stem = path.name[: len(bare_name(path))].rpartition(".")[0]
    candidates = [path.with_name(stem + ending) for ending in ENDINGS] + [path.with_name("vocab.txt")]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise InputMissingError(
        f"{path} holds a matrix without words, and no vocabulary lies beside it",
        hint=f"put one word a line into {candidates[0].name}, or name the file: vocabulary=... (--vocabulary)",
    )


def read_vocabulary(path: Path, options: ReadOptions) -> Sequence[str]:
    """The words that belong to the matrix file `path`."""
    source = options.vocabulary or beside(path)
    with open_bytes(source) as stream:
        return split_words(stream.read(), source, options.encoding_errors)
