"""The vocabulary of a word-level language model, and texts as token numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import FormatError, UsageError, VocabularyError
from evenhand.files import open_bytes

EOS = "<eos>"
UNK = "<unk>"
Tokens: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True)
class TokenVocabulary:
    """Words in the order of their numbers."""

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.words))
        if len(self.index) != len(self.words):
            repeated = next(word for word, count in Counter(self.words).items() if count > 1)
            raise UsageError(f"the word {repeated!r} occurs twice in the vocabulary")

    @classmethod
    def of(cls, texts: Iterable[Iterable[str]], *, min_count: int = 1, unknown: bool = False) -> TokenVocabulary:
        """Return the words of texts in the order of first appearance.

        Args:
            texts: tokens of each text.
            min_count: how often a word occurs at least; rarer words become `<unk>`.
            unknown: include `<unk>` and `<eos>` even if `min_count` is 1.
        """
        if min_count < 1:
            raise UsageError(f"min_count must be at least 1, got {min_count}")
        counts = Counter(token for text in texts for token in text)
        words = dict.fromkeys(word for word, count in counts.items() if count >= min_count)
        if min_count > 1 or unknown:
            words |= dict.fromkeys((UNK, EOS))
        return cls(tuple(words))

    @cached_property
    def index(self) -> dict[str, int]:
        """The number of each word."""
        return {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def encode(self, tokens: Iterable[str]) -> Tokens:
        """Return the numbers of tokens; out-of-vocabulary tokens become `<unk>`.

        Raises:
            VocabularyError: If a token is out of vocabulary and the vocabulary has no `<unk>`.
        """
        index, unknown = self.index, self.index.get(UNK)
        if unknown is not None:
            return np.fromiter((index.get(token, unknown) for token in tokens), np.int32)
        try:
            return np.fromiter((index[token] for token in tokens), np.int32)
        except KeyError as error:
            raise VocabularyError(
                f"the word {error.args[0]!r} is not in the vocabulary, and the vocabulary has no {UNK}",
                hint="build the vocabulary from all texts, or with min_count or unknown=True",
            ) from error

    def decode(self, numbers: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the words of numbers."""
        return [self.words[number] for number in np.asarray(numbers).tolist()]


def tokens_of(path: Path) -> Iterator[str]:
    """Yield the whitespace-separated tokens of a text file, with `<eos>` after each line, including empty lines.

    This reproduces the published token counts: 929,589 for the Penn Treebank and 2,088,628 for WikiText-2.
    """
    with open_bytes(path) as raw:
        try:
            text = raw.read().decode()
        except UnicodeDecodeError as error:
            raise FormatError(
                f"{path}: not UTF-8 text (byte {error.start:,})", hint="convert the file first"
            ) from error
    lines = text.removesuffix("\n").split("\n") if text else []
    for line in lines:
        yield from line.split()
        yield EOS


def line_tokens(text: str) -> list[str]:
    r"""Return the whitespace-separated tokens of a text, with `<eos>` between its lines.

    >>> line_tokens("she saw him\nhe ran")
    ['she', 'saw', 'him', '<eos>', 'he', 'ran']
    """
    first, *others = text.strip().split("\n")
    return [*first.split(), *(token for line in others for token in (EOS, *line.split()))]
