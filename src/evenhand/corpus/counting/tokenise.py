"""From text to words: at blanks as the paper, Unicode words (the default), or by a function or tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from evenhand.corpus.counting.text_stream import END
from evenhand.errors import FormatError, MissingExtraError, UsageError, require

# Letters, marks, digits and _ of any script; an apostrophe joins what stands on both its sides (don't).
WORD = r"\w+(?:['’]\w+)*"
# What str.split() takes for blank, except the blank itself.
ASCII_BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f"
OTHER_BLANKS = (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)

FILE = "tokenizer.json"
Tokenizer: TypeAlias = "Literal['words', 'whitespace'] | Callable[[str], Iterable[str]] | Any"


@dataclass(frozen=True)
class Tokeniser:
    """A named way to cut a piece of text into a polars Series of words, with `END` after each document."""

    name: str
    lower: bool
    split: Callable[[str], Any]

    def __call__(self, piece: str) -> Any:
        """The words of a piece."""
        return self.split(piece.lower() if self.lower else piece)


def tokeniser(given: Tokenizer = "words", *, lower: bool | None = None) -> Tokeniser:
    """The tokeniser that a name, a function or a tokenizer object means.

    `lower=None` lower-cases for `words` and leaves the text alone otherwise: the corpora of the paper come tokenised,
    and its WikiText-2 lists tell He from he.
    """
    if isinstance(given, str):
        if given not in NAMED:
            return replace(tokeniser(_from_file(Path(given)), lower=lower), name=given)
        return Tokeniser(given, given == "words" if lower is None else lower, NAMED[given])
    function = _function(given)
    name = getattr(given, "name_or_path", "") or getattr(given, "__name__", "") or type(given).__name__
    return Tokeniser(str(name), bool(lower), partial(_called, function, str(name)))


def _from_file(path: Path) -> Any:
    """A Hugging Face tokenizer by its file, or by the folder of its model."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise UsageError(
            f"unknown tokenizer {str(path)!r}", hint=f"use {', '.join(NAMED)}, a {FILE} or its folder, or a function"
        )
    try:
        return require("tokenizers", extra="models").Tokenizer.from_file(str(file))
    except MissingExtraError:
        raise
    except Exception as error:  # what the package raises is of no narrower type
        raise FormatError(f"{file}: no tokenizer can be read from it ({error})", hint=f"name a {FILE}") from error


def _function(given: Any) -> Callable[[str], Iterable[str]]:
    """A transformers tokenizer has `tokenize`, one of the tokenizers package `encode(text).tokens`."""
    if callable(getattr(given, "tokenize", None)):
        tokenize: Callable[[str], Iterable[str]] = given.tokenize
        return tokenize
    if callable(getattr(given, "encode", None)):
        return partial(_encoded, given)
    if callable(given):
        plain: Callable[[str], Iterable[str]] = given
        return plain
    raise UsageError(
        f"a tokenizer is a name, a function from text to words or a Hugging Face tokenizer, got {given!r}",
        hint=f"use {', '.join(NAMED)}",
    )


def _whitespace(piece: str) -> Any:
    import polars as pl

    for blank in ASCII_BLANKS if piece.isascii() else ASCII_BLANKS + OTHER_BLANKS:
        if blank in piece:
            piece = piece.replace(blank, " ")
    # Splitting at each single blank leaves empty words between two of them; `Vocabulary.ids` drops these.
    return pl.Series([piece.replace(END, f" {END} ")]).str.split(" ").explode()


def _words(piece: str) -> Any:
    import polars as pl

    return pl.Series([piece]).str.extract_all(rf"\x00|{WORD}").explode()


def _encoded(given: Any, text: str) -> Iterable[str]:
    tokens: Iterable[str] = given.encode(text, add_special_tokens=False).tokens
    return tokens


def _called(function: Callable[[str], Iterable[str]], name: str, piece: str) -> Any:
    import polars as pl

    *whole, rest = piece.split(END)
    words: list[str] = []
    for text in whole:
        words += [word for word in function(text) if word != END]
        words.append(END)
    words += function(rest) if rest else []
    try:
        return pl.Series(words, dtype=pl.String)
    except TypeError as error:
        raise UsageError(f"tokenizer {name!r} gave something that is no text ({error})") from error


NAMED: dict[str, Callable[[str], Any]] = {"words": _words, "whitespace": _whitespace}
