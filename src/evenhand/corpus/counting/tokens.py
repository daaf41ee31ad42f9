"""From text to token ids: runs of bytes, tokenisers, the vocabulary, special tokens and stop words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand import language as languages
from evenhand.arrays import Rows, texts_of
from evenhand.corpus.readers.stream import END
from evenhand.errors import FormatError, UsageError, foreign_errors, require
from evenhand.files import existing
from evenhand.tokenizer_files import check_tokenizer

if TYPE_CHECKING:
    import polars as pl


Bytes: TypeAlias = NDArray[np.uint8]
FindSeparators: TypeAlias = Callable[[Bytes], NDArray[np.bool_]]  # which bytes stand between runs; never that of `END`

PADDING = 32  # zero bytes behind the text, so that several bytes can be read at any position
_END = END.encode()
_IN_WORDS = [byte for byte in range(128) if chr(byte).isalnum() or chr(byte) in "_'"]
_STAND_BETWEEN_WORDS = np.arange(256) < 128
_STAND_BETWEEN_WORDS[[ord(END), *_IN_WORDS]] = False


def are_blanks(text: Bytes) -> NDArray[np.bool_]:
    """Return which bytes are ASCII characters at which `str.split` splits: 9 to 13 and 28 to 32.

    The differences wrap around, so that one comparison is enough for a range. A table takes twice the time.
    """
    blanks = text - np.uint8(9) < 5
    blanks |= text - np.uint8(28) < 5
    return blanks


def are_between_words(text: Bytes) -> NDArray[np.bool_]:
    """Return which bytes are ASCII characters other than letters, digits, _ and apostrophes."""
    return _STAND_BETWEEN_WORDS.take(text, mode="clip")


class Runs(NamedTuple):
    """Runs as positions in UTF-8 bytes, in order; each `END` is a run. `text` ends with `PADDING` bytes of zero."""

    text: bytes
    starts: Rows
    lengths: Rows

    def chosen(self, which: Rows | slice) -> Runs:
        """Return some of the runs."""
        return Runs(self.text, self.starts[which], self.lengths[which])

    def contents(self) -> list[bytes]:
        """Return the bytes of each run."""
        spans = zip(self.starts.tolist(), (self.starts + self.lengths).tolist(), strict=True)
        return [self.text[start:end] for start, end in spans]


def find_runs(encoded: bytes, find_separators: FindSeparators) -> Runs:
    """Return the runs of a text between its separators."""
    text = b"".join((b" ", encoded.replace(_END, b" " + _END + b" "), b" ", bytes(PADDING)))
    separates = find_separators(np.frombuffer(text, dtype=np.uint8, count=len(text) - PADDING))
    # The first and the last byte are separators, so that starts and ends of runs alternate.
    edges = np.flatnonzero(separates[1:] != separates[:-1])
    edges += 1
    starts = edges[::2].copy()
    return Runs(text, starts, edges[1::2] - starts)


# Letters, marks, digits and _ of any script; an apostrophe joins what stands on both its sides (don't).
WORD = r"\w+(?:['’]\w+)*"
# The characters at which str.split() splits, except the space itself.
ASCII_WHITESPACE = "\t\n\v\f\r\x1c\x1d\x1e\x1f"
OTHER_WHITESPACE = (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
FILE = "tokenizer.json"
REPAIR = "check its files, or use another tokenizer"
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
    with foreign_errors(f"{file}: not a tokenizer file", hint=f"name a {FILE}"):
        content = json.loads(file.read_bytes())
        check_tokenizer(file, content if isinstance(content, dict) else {})
        tokenizer: FastTokenizer = require("tokenizers", extra="models").Tokenizer.from_file(str(file))
    return tokenizer


def _split_function(tokenizer: object) -> Split:
    """Return the function that splits text: `tokenize`, `encode(text).tokens`, or the callable itself."""
    if callable(tokenize := getattr(tokenizer, "tokenize", None)):
        return partial(_tokenize, tokenize)
    if callable(encode := getattr(tokenizer, "encode", None)):
        return partial(_encode, encode)
    if callable(tokenizer):
        return tokenizer
    raise UsageError(
        f"a tokenizer must be a name, a function from text to words or a Hugging Face tokenizer, got {tokenizer!r}",
        hint=f"use {', '.join(NAMED)}",
    )


def _tokenize(tokenize: Split, text: str) -> Iterable[str]:
    with foreign_errors("the tokenizer fails", hint=REPAIR):
        return list(tokenize(text))


def _encode(encode: Callable[..., Encoding], text: str) -> Iterable[str]:
    with foreign_errors("the tokenizer fails", hint=REPAIR):
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


class Vocabulary:
    """Maps words to ids through a polars categorical, which takes half the time of a Python dict or less.

    The initial words have the ids 0, 1, ... The table is private to this object and is freed with it.
    """

    def __init__(self, words: Iterable[str]) -> None:
        import polars as pl

        self._categories: pl.Categories = pl.Categories.random()
        self._dtype: pl.Categorical = pl.Categorical(self._categories)
        # polars drops the ids when no Series with them remains, so one is kept.
        self._anchor: pl.Series = pl.Series(list(words), dtype=self._dtype)

    def ids(self, words: pl.Series) -> Rows:
        """Return the ids of a Series of words without its empty words; a new word gets the next id."""
        non_empty = words.filter(words != "")  # drops nulls too: an exploded empty list is one
        return np.asarray(non_empty.cast(self._dtype).to_physical().to_numpy(), dtype=np.intp)

    @property
    def words(self) -> pl.Series:
        """All words, in the order of their ids."""
        return self._categories.to_series()


SPECIAL_TOKENS = ("<unk>", "<eos>", "N")  # of Penn Treebank and WikiText: a rare word, a line end, a number
IN_BRACKETS = r"^<[^<>]+>$"
LETTER_OR_DIGIT = r"[\p{L}\p{M}\p{N}]"


def drops_special_tokens(choice: str | None, tokeniser: Tokeniser) -> bool:
    """Return True if special tokens are not scored; by default they are dropped from whitespace-tokenised text.

    The tokeniser `words` yields words only, and the meaning of a function's tokens is known to its author only.
    """
    if choice not in (None, "drop", "keep"):
        raise UsageError(f"unknown special_tokens {choice!r}", hint="use drop or keep")
    return tokeniser.name == "whitespace" if choice is None else choice == "drop"


def are_special_tokens(words: pl.Series, *, lower: bool) -> NDArray[np.bool_]:
    """Return which words are in `SPECIAL_TOKENS`, look like <num>, or have no letter or digit."""
    named = words.is_in([token.lower() if lower else token for token in SPECIAL_TOKENS])
    special = named | words.str.contains(IN_BRACKETS) | ~words.str.contains(LETTER_OR_DIGIT)
    return np.asarray(special.to_numpy(), dtype=bool)


CLASSES: dict[str, str] = {
    "pronouns": """i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its
        itself we us our ours ourselves they them their theirs themselves who whom whose which what this that these
        those""",
    "determiners": "a an the some any no each every all both few more most other such own same",
    "prepositions": """of at by for with about against between into through during before after above below to from up
        down in out on off over under""",
    "conjunctions": "and but if or because as until while than nor so",
    "adverbs": "again further then once here there when where why how not only too very just now",
    "auxiliaries": """am is are was were be been being have has had having do does did doing will would shall should can
        could may might must""",
    "clitics": """'s n't 're 've 'd 'll 'm s t d ll m o re ve y don ain aren couldn didn doesn hadn hasn haven isn
        mightn mustn needn shan shouldn wasn weren won wouldn""",
    "contractions": """don't ain't aren't couldn't didn't doesn't hadn't hasn't haven't isn't mightn't mustn't needn't
        shan't shouldn't wasn't weren't won't wouldn't can't cannot i'm you're he's she's it's we're they're i've you've
        we've they've i'll you'll he'll she'll it'll we'll they'll i'd you'd he'd she'd we'd they'd that's that'll
        should've""",
}
ENGLISH: tuple[str, ...] = tuple(dict.fromkeys(word for words in CLASSES.values() for word in words.split()))


def load_stop_words(stop_words: str | Path | Iterable[str]) -> tuple[str, ...]:
    """Return the stop words of a name (`english`, `none`), a file of words, or a list."""
    if isinstance(stop_words, str) and stop_words == "english":
        return ENGLISH
    if isinstance(stop_words, str) and stop_words in ("", "none"):
        return ()
    if isinstance(stop_words, (str, Path)):
        path = existing(Path(stop_words), what="stop list")
        try:
            return tuple(path.read_text(encoding="utf-8").split())
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}: not valid UTF-8 ({error})", hint="save the stop list as UTF-8") from error
    words = tuple(texts_of(stop_words, "word", "text") or stop_words)
    if not all(isinstance(word, str) for word in words):
        raise UsageError("stop_words must be a list of words", hint="or english, or the name of a file of words")
    return words
