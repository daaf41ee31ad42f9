"""The words of a word-level language model, and texts as their numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

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
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise UsageError(f"the word {twice!r} is twice in the vocabulary")

    @classmethod
    def of(cls, texts: Iterable[Iterable[str]], *, min_count: int = 1, unknown: bool = False) -> TokenVocabulary:
        """The words of some texts in the order of first appearance; rarer ones than `min_count` are `<unk>`."""
        if min_count < 1:
            raise UsageError(f"min_count starts at 1, got {min_count}")
        counts = Counter(token for text in texts for token in text)
        kept = dict.fromkeys(word for word, count in counts.items() if count >= min_count)
        if min_count > 1 or unknown:
            kept |= dict.fromkeys((UNK, EOS))
        return cls(tuple(kept))

    @cached_property
    def index(self) -> dict[str, int]:
        """Word to number."""
        return {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def encode(self, tokens: Iterable[str]) -> Tokens:
        """The numbers of tokens; one outside the vocabulary is `<unk>`, or an error where there is no such word."""
        index, unknown = self.index, self.index.get(UNK)
        if unknown is not None:
            return np.fromiter((index.get(token, unknown) for token in tokens), np.int32)
        try:
            return np.fromiter((index[token] for token in tokens), np.int32)
        except KeyError as error:
            raise VocabularyError(
                f"the word {error.args[0]!r} is not in the vocabulary, which has no {UNK} to stand for it",
                hint="build the vocabulary from all texts, or with min_count or unknown=True",
            ) from error

    def decode(self, numbers: Sequence[int] | NDArray[Any]) -> list[str]:
        """The words of some numbers."""
        return [self.words[number] for number in np.asarray(numbers).tolist()]


def tokens_of(path: Path) -> Iterator[str]:
    """The tokens of a text file, parted by blanks, with `<eos>` after each line, empty ones too.

    This is how the published token counts come about: 929,589 for the Penn Treebank, 2,088,628 for WikiText-2.
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
