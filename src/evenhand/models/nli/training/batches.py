"""Batches of pairs of about equal lengths, cut on the device: nothing waits for the host between two steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from evenhand.models.nli.training.encoded_pairs import Numbered, Sentences
from evenhand.models.nli.training.networks.stacked import Tensor

JITTER = 0.25  # lengths grow by up to this share before they are sorted: who meets whom changes, padding hardly does


class Batch(NamedTuple):
    """What a network reads, (members, pairs, length, ...), and the labels (members, pairs)."""

    premise: Tensor
    hypothesis: Tensor
    in_premise: Tensor
    in_hypothesis: Tensor
    labels: Tensor


class Cut(NamedTuple):
    """A batch as places in the order of the pairs."""

    start: int
    stop: int


class Batches:
    """All pairs on a device, for a stack whose member i reads its words in `table` from row `offsets[i]` on."""

    def __init__(self, pairs: Numbered, table: Tensor, offsets: Tensor, *, batch: int) -> None:
        self.table, self.offsets = table, offsets
        self.sides = [_Side(side, table.device) for side in pairs.sides]
        self.labels = torch.as_tensor(pairs.labels.astype(np.int64), device=table.device)
        edges = np.linspace(0, len(pairs), max(1, round((len(pairs) / batch) ** 0.5)) + 1).round().astype(int)
        self.group = torch.as_tensor(np.repeat(np.arange(len(edges) - 1), np.diff(edges)), device=table.device)
        self.cuts = [cut for group in pairwise(edges) for cut in _cuts(*group, batch)]

    def __len__(self) -> int:
        return len(self.cuts)

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return len(self.labels)

    def in_order(self) -> Iterator[Batch]:
        """Every pair once, the same for all members."""
        order = self._by_length(np.zeros((1, 2, self.pairs)))
        yield from self._batches(order.expand(len(self.offsets), -1), range(len(self.cuts)))

    def shuffled(self, seeds: Sequence[int], epoch: int) -> Iterator[Batch]:
        """Every pair once: which pairs share a batch follows from a member's seed, which lengths come when does not."""
        different = list(dict.fromkeys(seeds))
        drawn = [np.random.default_rng([seed, epoch]).random((2, self.pairs)) for seed in different]
        order = self._by_length(np.stack(drawn))[[different.index(seed) for seed in seeds]]
        yield from self._batches(order, np.random.default_rng(epoch).permutation(len(self.cuts)).tolist())

    def _by_length(self, draws: np.ndarray) -> Tensor:
        """(members, pairs): groups by the length of the premise, in each by that of the hypothesis, both jittered."""
        grown = 1 + JITTER * torch.as_tensor(draws, device=self.labels.device)
        premise, hypothesis = (side.lengths for side in self.sides)
        first = torch.argsort(premise * grown[:, 0], dim=1, stable=True)
        inside = (hypothesis * grown[:, 1]).gather(1, first)
        second = torch.argsort(self.group * (2 * hypothesis.max()) + inside, dim=1, stable=True)
        return first.gather(1, second)

    def _batches(self, order: Tensor, places: Iterable[int]) -> Iterator[Batch]:
        # The one moment of an epoch at which the host waits: it must know how far to pad each batch.
        starts = [cut.start for cut in self.cuts]
        longest = [np.maximum.reduceat(side.lengths[order].amax(0).cpu().numpy(), starts) for side in self.sides]
        for place in places:
            yield self._batch(order, self.cuts[place], [int(lengths[place]) for lengths in longest])

    def _batch(self, order: Tensor, cut: Cut, longest: Sequence[int]) -> Batch:
        pairs = order[:, cut.start : cut.stop]
        (premise, in_premise), (hypothesis, in_hypothesis) = (
            side.rows(pairs, length) for side, length in zip(self.sides, longest, strict=True)
        )
        return Batch(self._vectors(premise), self._vectors(hypothesis), in_premise, in_hypothesis, self.labels[pairs])

    def _vectors(self, words: Tensor) -> Tensor:
        return torch.nn.functional.embedding(words + self.offsets, self.table)


class _Side:
    """Sentences on a device."""

    def __init__(self, sentences: Sentences, device: Any) -> None:
        parts = (sentences.words, sentences.starts, sentences.lengths)
        self.words, self.starts, self.lengths = (torch.as_tensor(part, device=device) for part in parts)

    def rows(self, pairs: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """(members, pairs, longest) word numbers, and where there is a word; padding has the number 0."""
        places = torch.arange(longest, device=pairs.device)
        there = places < self.lengths[pairs][..., None]
        at = torch.where(there, self.starts[pairs][..., None] + places, 0)
        return torch.where(there, self.words[at], 0), there


def _cuts(begin: int, end: int, batch: int) -> Iterator[Cut]:
    """Batches of nearly one size, none of them a small remainder."""
    edges = np.linspace(begin, end, -(-(end - begin) // batch) + 1).round().astype(int)
    yield from (Cut(int(a), int(b)) for a, b in pairwise(edges))
