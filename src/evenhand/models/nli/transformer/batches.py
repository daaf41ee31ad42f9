"""Some phrases of a probe as arrays: each sentence once, the pairs in batches of equal length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.nli.transformer.token_ids import Frame, Ids
from evenhand.words.probes import Probe
from evenhand.words.probes.probe import Side

MOST_ROWS = 65_535  # the attention kernels of CUDA count the rows of a batch in 16 bits


@dataclass(frozen=True)
class Ragged:
    """Rows of ids of different lengths, end to end."""

    ids: Rows
    lengths: Rows

    @classmethod
    def of(cls, rows: list[Ids]) -> Ragged:
        """The rows in their order."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum())), lengths)

    @property
    def starts(self) -> Rows:
        """Where each row begins."""
        return np.cumsum(self.lengths) - self.lengths


@dataclass(frozen=True)
class Batch:
    """Places in the order by length, from one up to another, and the length that all of them have."""

    start: int
    stop: int
    length: int


@dataclass(frozen=True)
class Batches:
    """Everything sorted by length and cut into batches of one length each: nothing is padded, nothing masked."""

    order: Rows
    cuts: tuple[Batch, ...]

    @classmethod
    def of(cls, lengths: Rows, tokens: int) -> Batches:
        """Batches of about equal size within a length, each of at most so many tokens, at least one row."""
        order = np.argsort(lengths, kind="stable")
        values, counts = np.unique(lengths, return_counts=True)
        ends = np.cumsum(counts)
        cuts: list[Batch] = []
        for length, count, end in zip(values.tolist(), counts.tolist(), ends.tolist(), strict=True):
            parts = -(-count // max(1, min(MOST_ROWS, tokens // max(1, length))))
            edges = [end - count + count * part // parts for part in range(parts + 1)]
            cuts += [Batch(*pair, length) for pair in pairwise(edges)]
        return cls(order, tuple(cuts))

    @property
    def longest(self) -> int:
        """The greatest length."""
        return self.cuts[-1].length if self.cuts else 0


@dataclass(frozen=True)
class Block:
    """The pairs of some phrases; pair (t, p, h) joins row t P + p of `first` with row t H + h of `second`."""

    phrases: Rows
    first: Ragged
    second: Ragged
    batches: Batches


def blocks(probe: Probe, pieces: Any, frame: Frame, *, tokens: int) -> Iterator[Block]:
    """All phrases, so many at a time that the common lengths fill their batches."""
    each = probe.shape[1] * probe.shape[2]
    step = max(1, 2 * tokens // each)
    for start in range(0, probe.shape[0], step):
        phrases = np.arange(start, min(start + step, probe.shape[0]))
        first = Ragged.of([frame.first(ids) for ids in pieces(sentences(probe, "premise", phrases))])
        second = Ragged.of([frame.second(ids) for ids in pieces(sentences(probe, "hypothesis", phrases))])
        lengths = first.lengths.reshape(len(phrases), -1, 1) + second.lengths.reshape(len(phrases), 1, -1)
        yield Block(phrases, first, second, Batches.of(lengths.ravel(), tokens))


def sentences(probe: Probe, side: Side, phrases: Rows) -> list[str]:
    """Every sentence of one side, phrase by phrase."""
    asked = (probe.phrases.all[phrase] for phrase in phrases.tolist())
    return [x.before + subject + x.after for x in asked for subject in probe.subjects(side, x.determiner)]
