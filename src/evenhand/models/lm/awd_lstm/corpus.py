"""What a word-level language model is trained on: its vocabulary, and three splits as token numbers in columns."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import FormatError, InputMissingError, UsageError, VocabularyError
from evenhand.files import read_utf8

if TYPE_CHECKING:
    import torch


EOS = "<eos>"
UNK = "<unk>"
Tokens: TypeAlias = NDArray[np.int32]
SPLITS = ("train", "valid", "test")
SOURCES = ("all", "train")  # splits that a vocabulary is built from
HALF_SHARE = 0.05  # of the stretches are about half as long (Merity et al. 2018, section 5)
JITTER = 5.0  # standard deviation of the length of a stretch
SHORTEST = 5


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
    text = read_utf8(path)
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


@dataclass(frozen=True, eq=False)
class LMCorpus:
    """Training, validation and test text over one vocabulary; `test` may be empty.

    Args:
        train: token numbers of the training text, with `<eos>` after each line.
        valid: token numbers of the validation text.
        test: token numbers of the test text.
        vocabulary: the words that the numbers stand for.
        name: for records.
        counted: the splits that the vocabulary was built from: `all` or `train`.
    """

    train: Tokens
    valid: Tokens
    test: Tokens
    vocabulary: TokenVocabulary
    name: str = ""
    counted: str = "all"

    def __post_init__(self) -> None:
        for split in SPLITS:
            tokens = np.asarray(getattr(self, split), np.int32)
            object.__setattr__(self, split, tokens)
            if len(tokens) and not (tokens.min() >= 0 and tokens.max() < len(self.vocabulary)):
                raise UsageError(f"the {split} text has numbers outside the vocabulary of {len(self.vocabulary):,}")
        if len(self.train) < 2 or len(self.valid) < 2:
            raise FormatError(
                f"training and validation text need tokens, got {len(self.train)} and {len(self.valid)}",
                hint="name files with whitespace-separated tokens",
            )

    @classmethod
    def read(
        cls,
        train: str | Path,
        valid: str | Path,
        test: str | Path | None = None,
        *,
        vocabulary: str = "all",
        min_count: int = 1,
        name: str = "",
    ) -> LMCorpus:
        """Read three text files with whitespace-separated tokens.

        The usual corpora are closed: rare words are `<unk>` in the files, and the vocabulary is built from all three
        splits, as in Merity et al. 2018.

        Args:
            train: file of the training text.
            valid: file of the validation text.
            test: file of the test text.
            vocabulary: `all` builds the vocabulary from all splits, `train` from the training text alone.
            min_count: how often a word occurs at least; rarer words become `<unk>`.
            name: for records; the name of the training file by default.
        """
        if vocabulary not in SOURCES:
            raise UsageError(f"unknown vocabulary {vocabulary!r}", hint=f"use {' or '.join(SOURCES)}")
        texts = [list(tokens_of(Path(path))) if path is not None else [] for path in (train, valid, test)]
        counted = texts if vocabulary == "all" else texts[:1]
        words = TokenVocabulary.of(counted, min_count=min_count, unknown=vocabulary == "train")
        splits = [words.encode(text) for text in texts]
        return cls(splits[0], splits[1], splits[2], vocabulary=words, name=name or Path(train).name, counted=vocabulary)

    @classmethod
    def folder(cls, path: str | Path, *, vocabulary: str = "all", min_count: int = 1) -> LMCorpus:
        """Read a folder with one file each whose name contains train, valid and, optionally, test."""
        folder = Path(path)
        if not folder.is_dir():
            raise InputMissingError(f"folder {str(folder)!r} does not exist", hint="check the spelling of the path")
        files = {split: _find_split(folder, split) for split in SPLITS}
        for split in SPLITS[:2]:
            if files[split] is None:
                raise InputMissingError(f"{folder}: no file with {split!r} in its name", hint="such as train.txt")
        train, valid = files["train"], files["valid"]
        return cls.read(
            str(train), str(valid), files["test"], vocabulary=vocabulary, min_count=min_count, name=folder.name
        )

    def digest(self) -> str:
        """Return the SHA-256 of the vocabulary and all splits."""
        hasher = hashlib.sha256("\n".join(self.vocabulary.words).encode())
        for split in SPLITS:
            hasher.update(split.encode() + np.ascontiguousarray(getattr(self, split)).tobytes())
        return hasher.hexdigest()

    def describe(self) -> dict[str, object]:
        """Return name, sizes and digest for records."""
        tokens = {split: len(getattr(self, split)) for split in SPLITS}
        words = {"words": len(self.vocabulary), "vocabulary_from": self.counted}
        return {"name": self.name, "tokens": tokens, **words, "sha256": self.digest()}


def _find_split(folder: Path, split: str) -> Path | None:
    files = sorted(path for path in folder.iterdir() if split in path.name.lower() and path.is_file())
    if len(files) > 1:
        raise FormatError(
            f"{folder}: {len(files)} files have {split!r} in their name ({files[0].name}, {files[1].name})",
            hint="name the three files one by one",
        )
    return files[0] if files else None


def columns(tokens: Tokens, batch: int, device: str | torch.device = "cpu") -> torch.Tensor:
    """Return a token stream as `batch` equal columns, (steps, batch); the remainder at its end is not used."""
    import torch

    steps = len(tokens) // batch
    if steps < 2:
        raise UsageError(
            f"{len(tokens)} tokens are too few for {batch} columns of at least 2",
            hint="use more text" + (", or a smaller batch" if batch > 1 else ""),
        )
    matrix = np.asarray(tokens[: steps * batch]).reshape(batch, steps).T
    return torch.from_numpy(np.ascontiguousarray(matrix, dtype=np.int64)).to(device)


def stretches(steps: int, bptt: int, *, seed: int, epoch: int) -> list[int]:
    """Return random lengths that cover the steps - 1 predictions of a column in one epoch.

    Lengths are about `bptt`, or half of it for 5 %, with a standard deviation of 5 and at least 5; the last is the
    remainder. They depend on seed and epoch alone, so a resumed training splits the text as an uninterrupted one does.
    """
    rng = np.random.default_rng([seed, epoch])
    lengths: list[int] = []
    remaining = steps - 1
    while remaining > 0:
        centre = bptt if rng.random() >= HALF_SHARE else bptt / 2
        lengths.append(min(remaining, max(SHORTEST, int(rng.normal(centre, JITTER)))))
        remaining -= lengths[-1]
    return lengths


def starts(lengths: list[int]) -> list[int]:
    """Return the first step of each stretch."""
    return [0, *accumulate(lengths)][:-1]
