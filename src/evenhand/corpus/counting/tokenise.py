"""Split text into words: at whitespace as in the paper, into Unicode words (the default), or by a tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from evenhand.corpus.counting.text_stream import END
from evenhand.corpus.counting.word_spans import WORD, WordSpans, split_at_whitespace, split_into_words
from evenhand.errors import FormatError, MissingExtraError, UsageError, require

if TYPE_CHECKING:
    import polars as pl

FILE = "tokenizer.json"


class TransformersTokenizer(Protocol):
    """A tokenizer of the transformers package."""

    def tokenize(self, text: str) -> Iterable[str]:
        """Split text into tokens."""


class Encoding(Protocol):
    """The result of `FastTokenizer.encode`."""

    @property
    def tokens(self) -> list[str]:
        """The tokens as text."""


class FastTokenizer(Protocol):
    """A tokenizer of the tokenizers package."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> Encoding:
        """Split text into tokens."""


Split: TypeAlias = Callable[[str], Iterable[str]]
SplitPiece: TypeAlias = "Callable[[str, bool], pl.Series | WordSpans]"  # a piece, and whether it is lower-cased
Tokenizer: TypeAlias = "str | Path | Split | TransformersTokenizer | FastTokenizer"


@dataclass(frozen=True)
class Tokeniser:
    """A named function that splits a piece of text into words, with `END` after each document."""

    name: str
    lower: bool
    split: SplitPiece

    def __call__(self, piece: str) -> pl.Series | WordSpans:
        """Return the words of a piece."""
        return self.split(piece, self.lower)


def make_tokeniser(tokenizer: Tokenizer = "words", *, lower: bool | None = None) -> Tokeniser:
    """Return the tokeniser for a name, a file, a function or a tokenizer object.

    `lower=None` lower-cases for `words` only: the corpora of the paper are tokenised already, and its WikiText-2 lists
    distinguish He from he.
    """
    if isinstance(tokenizer, (str, Path)):
        name = str(tokenizer)
        if name not in NAMED:
            return replace(make_tokeniser(_load_file(Path(name)), lower=lower), name=name)
        return Tokeniser(name, name == "words" if lower is None else lower, NAMED[name])
    split = _split_function(tokenizer)
    name = getattr(tokenizer, "name_or_path", "") or getattr(tokenizer, "__name__", "") or type(tokenizer).__name__
    return Tokeniser(str(name), bool(lower), partial(_split_documents, split, str(name)))


def _load_file(path: Path) -> FastTokenizer:
    """Load a Hugging Face tokenizer from its file, or from the folder of its model."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise UsageError(
            f"unknown tokenizer {str(path)!r}", hint=f"use {', '.join(NAMED)}, a {FILE} or its folder, or a function"
        )
    try:
        tokenizer: FastTokenizer = require("tokenizers", extra="models").Tokenizer.from_file(str(file))
    except MissingExtraError:
        raise
    except Exception as error:  # the package raises nothing narrower
        raise FormatError(f"{file}: not a tokenizer file ({error})", hint=f"name a {FILE}") from error
    return tokenizer


def _split_function(tokenizer: object) -> Split:
    """Return the function that splits text: `tokenize`, `encode(text).tokens`, or the callable itself."""
    if callable(tokenize := getattr(tokenizer, "tokenize", None)):
        return tokenize  # type: ignore[no-any-return]
    if callable(encode := getattr(tokenizer, "encode", None)):
        return partial(_encode, encode)
    if callable(tokenizer):
        return tokenizer
    raise UsageError(
        f"a tokenizer must be a name, a function from text to words or a Hugging Face tokenizer, got {tokenizer!r}",
        hint=f"use {', '.join(NAMED)}",
    )


def _encode(encode: Callable[..., Encoding], text: str) -> Iterable[str]:
    return encode(text, add_special_tokens=False).tokens


def _split_whitespace(piece: str, lower: bool) -> WordSpans:
    return split_at_whitespace(piece.lower() if lower else piece)


def _split_words(piece: str, lower: bool) -> pl.Series | WordSpans:
    import polars as pl

    spans = split_into_words(piece, lower=lower)
    if spans is None:
        return pl.Series([piece.lower() if lower else piece]).str.extract_all(rf"\x00|{WORD}").explode()
    return spans


def _split_documents(split: Split, name: str, piece: str, lower: bool) -> pl.Series:
    import polars as pl

    *documents, rest = (piece.lower() if lower else piece).split(END)
    words: list[str] = []
    for text in documents:
        words += [word for word in split(text) if word != END]
        words.append(END)
    words += split(rest) if rest else []
    try:
        return pl.Series(words, dtype=pl.String)
    except (TypeError, UnicodeEncodeError) as error:
        raise UsageError(f"tokenizer {name!r} returned something that is not text ({error})") from error


NAMED: dict[str, SplitPiece] = {"words": _split_words, "whitespace": _split_whitespace}
