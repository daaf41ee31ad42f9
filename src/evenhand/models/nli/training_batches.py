"""Batches of pairs of similar length, assembled on the device, so steps do not wait for the host."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from evenhand.arrays import Matrix, Rows, Vector64
from evenhand.errors import UsageError
from evenhand.models.nli.labelled_pairs import LabelledPairs, Labels
from evenhand.models.nli.over_vectors import Lookup
from evenhand.models.vectors import Vectors

JITTER = 0.25  # lengths grow by up to this share before sorting: batches are mixed, padding hardly increases


class TrainingBatch(NamedTuple):
    """Inputs of a network, (members, pairs, length, ...), and labels (members, pairs)."""

    premise: Tensor
    hypothesis: Tensor
    in_premise: Tensor
    in_hypothesis: Tensor
    labels: Tensor


class BatchRange(NamedTuple):
    """The range of a batch in the order of the pairs."""

    start: int
    stop: int


class TrainingBatches:
    """All pairs on a device, for a stack whose member i reads its words in `table` from row `offsets[i]` on."""

    def __init__(self, pairs: EncodedPairs, table: Tensor, offsets: Tensor, *, batch: int) -> None:
        self.table, self.offsets = table, offsets
        self.sides = [_DeviceSentences(side, table.device) for side in pairs.sides]
        self.labels = torch.as_tensor(pairs.labels.astype(np.int64), device=table.device)
        edges = np.linspace(0, len(pairs), max(1, round((len(pairs) / batch) ** 0.5)) + 1).round().astype(int)
        self.group = torch.as_tensor(np.repeat(np.arange(len(edges) - 1), np.diff(edges)), device=table.device)
        self.cuts = [cut for group in pairwise(edges) for cut in _cuts(*group, batch)]

    def __len__(self) -> int:
        return len(self.cuts)

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return len(self.labels)

    def in_order(self) -> Iterator[TrainingBatch]:
        """Yield every pair once, in the same order for all members."""
        order = self._by_length(np.zeros((1, 2, self.pairs)))
        yield from self._batches(order.expand(len(self.offsets), -1), range(len(self.cuts)))

    def shuffled(self, seeds: Sequence[int], epoch: int) -> Iterator[TrainingBatch]:
        """Yield every pair once; a member's seed decides which pairs share a batch, not the order of lengths."""
        distinct = list(dict.fromkeys(seeds))
        draws = [np.random.default_rng([seed, epoch]).random((2, self.pairs)) for seed in distinct]
        order = self._by_length(np.stack(draws))[[distinct.index(seed) for seed in seeds]]
        yield from self._batches(order, np.random.default_rng(epoch).permutation(len(self.cuts)).tolist())

    def _by_length(self, draws: Vector64) -> Tensor:
        """Return the (members, pairs) order: groups by premise length, within them by hypothesis length, jittered."""
        factors = 1 + JITTER * torch.as_tensor(draws, device=self.labels.device)
        premise, hypothesis = (side.lengths for side in self.sides)
        first = torch.argsort(premise * factors[:, 0], dim=1, stable=True)
        inside = (hypothesis * factors[:, 1]).gather(1, first)
        second = torch.argsort(self.group * (2 * hypothesis.max()) + inside, dim=1, stable=True)
        return first.gather(1, second)

    def _batches(self, order: Tensor, indices: Iterable[int]) -> Iterator[TrainingBatch]:
        # The host waits only here in an epoch: it must know how far to pad each batch.
        starts = [cut.start for cut in self.cuts]
        longest = [np.maximum.reduceat(side.lengths[order].amax(0).cpu().numpy(), starts) for side in self.sides]
        for index in indices:
            yield self._batch(order, self.cuts[index], [int(lengths[index]) for lengths in longest])

    def _batch(self, order: Tensor, cut: BatchRange, longest: Sequence[int]) -> TrainingBatch:
        pairs = order[:, cut.start : cut.stop]
        (premise, in_premise), (hypothesis, in_hypothesis) = (
            side.rows(pairs, length) for side, length in zip(self.sides, longest, strict=True)
        )
        return TrainingBatch(
            self._vectors(premise), self._vectors(hypothesis), in_premise, in_hypothesis, self.labels[pairs]
        )

    def _vectors(self, words: Tensor) -> Tensor:
        return torch.nn.functional.embedding(words + self.offsets, self.table)


class _DeviceSentences:
    """Sentences on a device."""

    def __init__(self, sentences: SentenceRows, device: torch.device) -> None:
        parts = (sentences.words, sentences.starts, sentences.lengths)
        self.words, self.starts, self.lengths = (torch.as_tensor(part, device=device) for part in parts)

    def rows(self, pairs: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """Return (members, pairs, longest) word indices, 0 for padding, and a mask of the words."""
        positions = torch.arange(longest, device=pairs.device)
        mask = positions < self.lengths[pairs][..., None]
        indices = torch.where(mask, self.starts[pairs][..., None] + positions, 0)
        return torch.where(mask, self.words[indices], 0), mask


def _cuts(begin: int, end: int, batch: int) -> Iterator[BatchRange]:
    """Yield batches of nearly equal size, without a small remainder."""
    edges = np.linspace(begin, end, -(-(end - begin) // batch) + 1).round().astype(int)
    yield from (BatchRange(int(a), int(b)) for a, b in pairwise(edges))


SPARE_SEED = 0  # the same vectors for out-of-vocabulary words in every run


@dataclass(frozen=True)
class SentenceRows:
    """Sentences of any length as one array of word indices; sentence i has `lengths[i]` words from `starts[i]` on."""

    words: Rows
    starts: Rows
    lengths: Rows

    @classmethod
    def of(cls, texts: Sequence[str], lookup: Lookup) -> SentenceRows:
        """Look up the tokens of sentences in a table of vectors followed by spare rows."""
        rows = [lookup.sentence(text) for text in texts]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        words = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
        return cls(words, np.cumsum(lengths) - lengths, lengths)


@dataclass(frozen=True)
class EncodedPairs:
    """Premise, hypothesis and label of every pair."""

    premise: SentenceRows
    hypothesis: SentenceRows
    labels: Labels

    @classmethod
    def of(cls, pairs: LabelledPairs, lookup: Lookup) -> EncodedPairs:
        """Look up the words of labelled pairs."""
        return cls(SentenceRows.of(pairs.premises, lookup), SentenceRows.of(pairs.hypotheses, lookup), pairs.labels)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def sides(self) -> tuple[SentenceRows, SentenceRows]:
        """Premises, then hypotheses."""
        return self.premise, self.hypothesis


def compact(*data: EncodedPairs) -> tuple[Rows, tuple[EncodedPairs, ...]]:
    """Return the rows that occur anywhere, and the pairs with words numbered among them, for the smallest table."""
    rows, numbers = np.unique(np.concatenate([side.words for d in data for side in d.sides]), return_inverse=True)
    ends = np.cumsum([len(side.words) for d in data for side in d.sides])[:-1]
    parts = iter(np.split(numbers, ends))

    def renumber(side: SentenceRows) -> SentenceRows:
        return SentenceRows(next(parts), side.starts, side.lengths)

    smaller = tuple(EncodedPairs(renumber(d.premise), renumber(d.hypothesis), d.labels) for d in data)
    return np.asarray(rows, dtype=np.int64), smaller


def spare_vectors(vectors: Vectors, rows: Rows, count: int) -> Matrix:
    """Return random vectors for out-of-vocabulary words, with the standard deviation of the vectors that occur."""
    present = rows[rows < len(vectors)]
    if not len(present):
        raise UsageError(
            f"{vectors.name} has no vector for any word of the training pairs",
            hint="check the language of the vectors, and lower=False if they are cased",
        )
    sd = float(vectors.matrix[present].std(dtype=np.float64))
    sample = np.random.default_rng(SPARE_SEED).normal(0, sd, (count, vectors.dim))
    return sample.astype(np.float32)


def digest(matrix: Matrix) -> str:
    """Return the SHA-256 of the vectors that a member reads."""
    return hashlib.sha256(np.ascontiguousarray(matrix).data).hexdigest()
