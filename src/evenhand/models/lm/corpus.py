"""A text to train a language model on, in three parts, as numbers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenhand.errors import FormatError, InputMissingError, UsageError
from evenhand.models.lm.vocabulary import Tokens, TokenVocabulary, tokens_of

SPLITS = ("train", "valid", "test")
FROM = ("all", "train")


@dataclass(frozen=True, eq=False)
class LMCorpus:
    """Training, validation and test text over one vocabulary; `test` may be empty.

    Args:
        train: the numbers of the training tokens, `<eos>` after each line.
        valid: of the validation tokens.
        test: of the test tokens.
        vocabulary: what the numbers stand for.
        name: for records.
        counted: where the vocabulary came from: `all` parts, or `train` alone.
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
                raise UsageError(f"the {split} part has numbers outside the vocabulary of {len(self.vocabulary):,}")
        if len(self.train) < 2 or len(self.valid) < 2:
            raise FormatError(
                f"training and validation text need tokens, got {len(self.train)} and {len(self.valid)}",
                hint="name files that hold text, tokens parted by blanks",
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
        """Read three text files, tokens parted by blanks.

        The usual corpora are closed: rare words are `<unk>` in the files, and the vocabulary is taken from all three
        parts, as Merity et al. 2018 do. `vocabulary="train"` takes it from the training part alone, and `min_count`
        keeps the words that occur so often there; all others become `<unk>`.
        """
        if vocabulary not in FROM:
            raise UsageError(f"unknown vocabulary {vocabulary!r}", hint=f"use {' or '.join(FROM)}")
        texts = [list(tokens_of(Path(path))) if path is not None else [] for path in (train, valid, test)]
        counted = texts if vocabulary == "all" else texts[:1]
        words = TokenVocabulary.of(counted, min_count=min_count, unknown=vocabulary == "train")
        parts = [words.encode(text) for text in texts]
        return cls(parts[0], parts[1], parts[2], vocabulary=words, name=name or Path(train).name, counted=vocabulary)

    @classmethod
    def folder(cls, path: str | Path, *, vocabulary: str = "all", min_count: int = 1) -> LMCorpus:
        """Read a folder with one file each whose name has train, valid and, if there is one, test in it."""
        place = Path(path)
        if not place.is_dir():
            raise InputMissingError(f"folder {str(place)!r} does not exist", hint="check the spelling of the path")
        found = {split: _only(place, split) for split in SPLITS}
        for split in SPLITS[:2]:
            if found[split] is None:
                raise InputMissingError(f"{place}: no file with {split!r} in its name", hint="such as train.txt")
        train, valid = found["train"], found["valid"]
        return cls.read(
            str(train), str(valid), found["test"], vocabulary=vocabulary, min_count=min_count, name=place.name
        )

    def digest(self) -> str:
        """Hash of the words and of all three parts."""
        hasher = hashlib.sha256("\n".join(self.vocabulary.words).encode())
        for split in SPLITS:
            hasher.update(split.encode() + np.ascontiguousarray(getattr(self, split)).tobytes())
        return hasher.hexdigest()

    def describe(self) -> dict[str, object]:
        """What a record keeps of it."""
        tokens = {split: len(getattr(self, split)) for split in SPLITS}
        words = {"words": len(self.vocabulary), "vocabulary_from": self.counted}
        return {"name": self.name, "tokens": tokens, **words, "sha256": self.digest()}


def _only(folder: Path, split: str) -> Path | None:
    found = sorted(path for path in folder.iterdir() if split in path.name.lower() and path.is_file())
    if len(found) > 1:
        raise FormatError(
            f"{folder}: {len(found)} files have {split!r} in their name ({found[0].name}, {found[1].name})",
            hint="name the three files one by one",
        )
    return found[0] if found else None
