"""Split text into words: at whitespace as in the paper, into Unicode words (the default), or by a tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from evenhand import language as languages
from evenhand.corpus.counting.byte_runs import FindSeparators, are_between_words, are_blanks
from evenhand.corpus.counting.text_stream import END
from evenhand.errors import FormatError, MissingExtraError, UsageError, require

if TYPE_CHECKING:
    import polars as pl

# Letters, marks, digits and _ of any script; an apostrophe joins what stands on both its sides (don't).
WORD = r"\w+(?:['’]\w+)*"
# The characters at which str.split() splits, except the space itself.
ASCII_WHITESPACE = "\t\n\v\f\r\x1c\x1d\x1e\x1f"
OTHER_WHITESPACE = (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
FILE = "tokenizer.json"
LANGUAGE = "language:"  # before the ISO code of a language


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
Tokenizer: TypeAlias = "str | Path | Split | TransformersTokenizer | FastTokenizer"


@dataclass(frozen=True)
class Tokeniser:
    """A named function that splits a piece of text into a polars Series of words, with `END` after each document.

    Text may be divided at `separators` first, which changes nothing; None if it may not.
    """

    name: str
    lower: bool
    split: Callable[[str], pl.Series]
    language: str = "en"
    separators: FindSeparators | None = None

    def __call__(self, piece: str) -> pl.Series:
        """Return the words of a piece."""
        return self.split(self.fold(piece))

    def fold(self, text: str) -> str:
        """Return the text in the case in which words are counted, by the rules of its language."""
        return languages.lower(text, self.language) if self.lower else text


def make_tokeniser(tokenizer: Tokenizer = "words", *, lower: bool | None = None) -> Tokeniser:
    """Return the tokeniser for a name, a file, a function or a tokenizer object.

    `lower=None` lower-cases for `words` only: the corpora of the paper are tokenised already, and its WikiText-2 lists
    distinguish He from he. "language:tr" divides and lower-cases text by the rules of Turkish, see `language.tokenise`;
    German text is not lower-cased, because its nouns are told apart by their capitals.
    """
    if isinstance(tokenizer, (str, Path)):
        name = str(tokenizer)
        if name.startswith(LANGUAGE):
            return _by_language(name, lower)
        if name not in NAMED:
            return replace(make_tokeniser(_load_file(Path(name)), lower=lower), name=name)
        split, separators = NAMED[name]
        return Tokeniser(name, name == "words" if lower is None else lower, split, separators=separators)
    split = _split_function(tokenizer)
    name = getattr(tokenizer, "name_or_path", "") or getattr(tokenizer, "__name__", "") or type(tokenizer).__name__
    return Tokeniser(str(name), bool(lower), partial(_split_documents, split, str(name)))


def _by_language(name: str, lower: bool | None) -> Tokeniser:
    code = name.removeprefix(LANGUAGE)
    folds = languages.language(code).casing in ("folded", "dotted")
    split = partial(languages.tokenise, code=code)
    split("")  # raises at once if a package is missing
    return Tokeniser(name, folds if lower is None else lower, partial(_split_documents, split, name), code)


def _load_file(path: Path) -> FastTokenizer:
    """Load a Hugging Face tokenizer from its file, or from the folder of its model."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise UsageError(
            f"unknown tokenizer {str(path)!r}",
            hint=f"use {', '.join(NAMED)}, {LANGUAGE}CODE, a {FILE} or its folder, or a function",
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


def _split_whitespace(piece: str) -> pl.Series:
    import polars as pl

    for character in ASCII_WHITESPACE if piece.isascii() else ASCII_WHITESPACE + OTHER_WHITESPACE:
        if character in piece:
            piece = piece.replace(character, " ")
    # Splitting at each single space leaves empty words between two of them; `Vocabulary.ids` drops these.
    return pl.Series([piece.replace(END, f" {END} ")]).str.split(" ").explode()


def _split_words(piece: str) -> pl.Series:
    import polars as pl

    return pl.Series([piece]).str.extract_all(rf"\x00|{WORD}").explode()


def _split_documents(split: Split, name: str, piece: str) -> pl.Series:
    import polars as pl

    *documents, rest = piece.split(END)
    words: list[str] = []
    for text in documents:
        words += [word for word in split(text) if word != END]
        words.append(END)
    words += split(rest) if rest else []
    try:
        return pl.Series(words, dtype=pl.String)
    except (TypeError, UnicodeEncodeError) as error:
        raise UsageError(f"tokenizer {name!r} returned something that is not text ({error})") from error


NAMED: dict[str, tuple[Callable[[str], pl.Series], FindSeparators]] = {
    "words": (_split_words, are_between_words),
    "whitespace": (_split_whitespace, are_blanks),
}
