"""Sentences as word ids, and batches of them on a device, for training a biLM."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
import torch

from evenhand.arrays import Rows
from evenhand.errors import FormatError
from evenhand.files import MAX_RECORD, limited_lines, open_bytes, record_too_long
from evenhand.models.encoders.elmo.options import SENTENCE_END, SENTENCE_START

UNKNOWN = "<unk>"
SPECIAL = (SENTENCE_START, SENTENCE_END, UNKNOWN)  # the first word ids
START, END, OTHER = range(3)
JITTER = 0.2  # lengths grow by up to this share before sorting: batches are mixed, padding hardly increases


@dataclass(frozen=True, eq=False)
class SentenceCorpus:
    """Sentences as one array of word ids; sentence i has `lengths[i]` words from `starts[i]` on.

    `words` begins with the boundaries of sentences and `<unk>`; the others follow by falling frequency.
    """

    words: tuple[str, ...]
    ids: Rows
    starts: Rows
    lengths: Rows
    name: str = "sentences"
    sha256: str = ""

    @classmethod
    def of(
        cls, sentences: Iterable[Sequence[str]], *, words: Sequence[str] | None = None, name: str = "sentences"
    ) -> SentenceCorpus:
        """Number the words of sentences; words that are not in a given list become `<unk>`."""
        rows = [tuple(sentence) for sentence in sentences if sentence]
        if not rows:
            raise FormatError(f"{name}: no sentences", hint="write one sentence per line, words separated by spaces")
        if words is None:
            counts = Counter(chain.from_iterable(rows))
            for word in SPECIAL:
                counts.pop(word, None)
            words = (*SPECIAL, *(word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))))
        index = {word: number for number, word in enumerate(words)}
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter((index.get(word, OTHER) for row in rows for word in row), np.int64, int(lengths.sum()))
        digest = hashlib.sha256(np.concatenate([ids, lengths]).tobytes()).hexdigest()
        return cls(tuple(words), ids, np.cumsum(lengths) - lengths, lengths, name, digest)

    @classmethod
    def read(cls, path: Path, *, words: Sequence[str] | None = None, most: int | None = None) -> SentenceCorpus:
        """Read a text file, compressed or not, with a sentence of space-separated words in each line.

        Args:
            path: the file.
            words: number the words by this list.
            most: read at most this many sentences.
        """
        with open_bytes(path, kept=True) as stream:
            kept = islice(limited_lines(stream, MAX_RECORD), most or None)
            lines = (_words_of(line, f"{path}, line {number}") for number, line in enumerate(kept, start=1))
            return cls.of(lines, words=words, name=path.name)

    def __len__(self) -> int:
        return len(self.lengths)

    def sentence(self, number: int) -> list[str]:
        """Return the words of a sentence."""
        start = self.starts[number]
        return [self.words[word] for word in self.ids[start : start + self.lengths[number]]]

    def to_dict(self) -> dict[str, object]:
        """Return name, counts and digest."""
        return {
            "name": self.name,
            "sentences": len(self),
            "tokens": len(self.ids),
            "words": len(self.words),
            "sha256": self.sha256,
        }


def _words_of(line: bytes | None, where: str) -> list[str]:
    if line is None:
        raise record_too_long(where, MAX_RECORD)
    try:
        return line.decode().split()
    except UnicodeDecodeError as error:
        raise FormatError(f"{where}: not UTF-8 text", hint="convert the file first") from error


class SentenceBatches:
    """The sentences of a corpus on a device, in batches of similar length with at most `tokens` tokens."""

    def __init__(self, corpus: SentenceCorpus, *, tokens: int, device: torch.device) -> None:
        self.corpus, self.tokens, self.device = corpus, tokens, device
        self.ids, self.starts, self.lengths = (
            torch.as_tensor(array, device=device) for array in (corpus.ids, corpus.starts, corpus.lengths)
        )

    def order(self, seed: int, epoch: int) -> list[Rows]:
        """Return the sentences of each batch of an epoch."""
        rng = np.random.default_rng([seed, epoch])
        lengths = self.corpus.lengths
        order = np.argsort(lengths * (1 + JITTER * rng.random(len(lengths))), kind="stable")
        batches = list(self._cut(order))
        return [batches[number] for number in rng.permutation(len(batches))]

    def in_order(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield all sentences, shortest first."""
        for batch in self._cut(np.argsort(self.corpus.lengths, kind="stable")):
            yield self.batch(batch)

    def _cut(self, order: Rows) -> Iterator[Rows]:
        """Yield batches; jitter leaves sentences a little longer than those after them."""
        longest, start = np.maximum.accumulate(self.corpus.lengths[order]) + 2, 0
        while start < len(order):
            stop = start + max(
                1, int(self.tokens // longest[min(start + self.tokens // longest[start], len(order)) - 1])
            )
            yield order[start:stop]
            start = stop

    def batch(self, sentences: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (sentences, longest + 2) word ids with boundaries and END as padding, and lengths with boundaries."""
        rows = torch.as_tensor(sentences, device=self.device)
        lengths = self.lengths[rows]
        positions = torch.arange(int(self.corpus.lengths[sentences].max()), device=self.device)
        inside = positions < lengths[:, None]
        words = torch.where(inside, self.ids[torch.where(inside, self.starts[rows][:, None] + positions, 0)], END)
        edge = words.new_full((len(words), 1), END)
        return torch.cat([torch.full_like(edge, START), words, edge], 1), lengths + 2
