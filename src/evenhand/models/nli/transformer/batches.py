"""Phrases of a probe as token arrays: each sentence once, pairs in batches of equal length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.nli.transformer.token_ids import Ids, PairFormat, Tokenize
from evenhand.words.probes import Probe
from evenhand.words.probes.probe import Side

MOST_ROWS = 65_535  # the attention kernels of CUDA count the rows of a batch in 16 bits


@dataclass(frozen=True)
class Ragged:
    """Rows of ids of different lengths, concatenated."""

    ids: Rows
    lengths: Rows

    @classmethod
    def of(cls, rows: list[Ids]) -> Ragged:
        """Concatenate rows."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum())), lengths)

    @property
    def starts(self) -> Rows:
        """Start of each row."""
        return np.cumsum(self.lengths) - self.lengths


@dataclass(frozen=True)
class LengthBatch:
    """A range in the order by length, and the length that all its rows have."""

    start: int
    stop: int
    length: int


@dataclass(frozen=True)
class LengthBatches:
    """Rows sorted by length, in batches of one length each: no padding and no mask."""

    order: Rows
    cuts: tuple[LengthBatch, ...]

    @classmethod
    def of(cls, lengths: Rows, tokens: int) -> LengthBatches:
        """Return batches of similar size within a length, each of at least one row and at most `tokens` tokens."""
        order = np.argsort(lengths, kind="stable")
        values, counts = np.unique(lengths, return_counts=True)
        ends = np.cumsum(counts)
        cuts: list[LengthBatch] = []
        for length, count, end in zip(values.tolist(), counts.tolist(), ends.tolist(), strict=True):
            parts = -(-count // max(1, min(MOST_ROWS, tokens // max(1, length))))
            edges = [end - count + count * part // parts for part in range(parts + 1)]
            cuts += [LengthBatch(*pair, length) for pair in pairwise(edges)]
        return cls(order, tuple(cuts))

    @property
    def longest(self) -> int:
        """The largest length."""
        return self.cuts[-1].length if self.cuts else 0


@dataclass(frozen=True)
class PhraseBlock:
    """The pairs of some phrases; pair (t, p, h) joins row t P + p of `first` with row t H + h of `second`."""

    phrases: Rows
    first: Ragged
    second: Ragged
    batches: LengthBatches


def phrase_blocks(probe: Probe, tokenize: Tokenize, layout: PairFormat, *, tokens: int) -> Iterator[PhraseBlock]:
    """Yield all phrases in blocks large enough for the common lengths to fill their batches."""
    each = probe.shape[1] * probe.shape[2]
    step = max(1, 2 * tokens // each)
    for start in range(0, probe.shape[0], step):
        phrases = np.arange(start, min(start + step, probe.shape[0]))
        first = Ragged.of([layout.first(ids) for ids in tokenize(sentences(probe, "premise", phrases))])
        second = Ragged.of([layout.second(ids) for ids in tokenize(sentences(probe, "hypothesis", phrases))])
        lengths = first.lengths.reshape(len(phrases), -1, 1) + second.lengths.reshape(len(phrases), 1, -1)
        yield PhraseBlock(phrases, first, second, LengthBatches.of(lengths.ravel(), tokens))


def sentences(probe: Probe, side: Side, phrases: Rows) -> list[str]:
    """Return every sentence of one side, phrase by phrase."""
    selected = (probe.phrases.all[phrase] for phrase in phrases.tolist())
    return [x.before + subject + x.after for x in selected for subject in probe.subjects(side, x.determiner)]
