"""One pass over a corpus: how often each word occurs, and how much it keeps company with each group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np

from evenhand.arrays import Rows
from evenhand.corpus.blocks import Labels, blocks
from evenhand.corpus.decay import Decay
from evenhand.corpus.parts import PartSums
from evenhand.corpus.pieces import END, PIECE, cut
from evenhand.corpus.readers.account import Account
from evenhand.corpus.readers.source import Shard, Source
from evenhand.corpus.sums import Sums
from evenhand.corpus.tokenise import Tokeniser
from evenhand.corpus.totals import Counts, added
from evenhand.corpus.vocabulary import Vocabulary
from evenhand.corpus.window import FixedWindow
from evenhand.engines import Engine, LocalEngine

Progress: TypeAlias = Callable[[int, int, str], None] | None
T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """What is counted: the groups, the reach of their company (a window or a decay), and how text becomes words."""

    groups: Mapping[str, tuple[str, ...]]
    window: int | None
    decay: float | None
    tokeniser: Tokeniser
    piece: int = PIECE
    parts: int = 0

    @property
    def group_words(self) -> tuple[str, ...]:
        """The words of all groups in order: in every vocabulary they have the numbers 1, 2, ..."""
        return tuple(word for words in self.groups.values() for word in words)

    @property
    def labels(self) -> Labels:
        """The group of each group word."""
        return np.repeat(np.arange(len(self.groups)), [len(words) for words in self.groups.values()]).astype(np.int8)

    def kernel(self, labellings: int = 1) -> FixedWindow | Decay:
        """The weighting that was asked for."""
        if self.decay is not None:
            return Decay(self.decay, len(self.groups), labellings)
        return FixedWindow(self.window or 0, len(self.groups), labellings)


def word_numbers(source: Source, shard: Shard, plan: Plan, vocabulary: Vocabulary, account: Account) -> Iterator[Rows]:
    """A part of the corpus as arrays of word numbers."""
    for piece in cut(source.fragments(shard, account), plan.piece):
        yield vocabulary.ids(plan.tokeniser(piece))


def count_shard(source: Source, shard: Shard, plan: Plan, *, first_part: int = 0) -> Counts:
    """Count one part of a corpus by itself: what a worker does."""
    vocabulary, kernel = Vocabulary((END, *plan.group_words)), plan.kernel()
    account, groups = Account(source.skip_bad), len(plan.groups)
    sums = PartSums(groups, kernel.dtype, plan.parts, first_part) if plan.parts else Sums(1, groups, kernel.dtype)
    occurrences = Sums(1, 1, np.int64)
    empty, after_end = 0, True
    for block in blocks(word_numbers(source, shard, plan, vocabulary, account), plan.labels):
        if not len(block.ids):
            continue
        largest = int(block.ids.max()) + 1
        sums.make_room(largest)
        occurrences.make_room(largest)
        occurrences.add(0, 0, block.ids, np.ones(len(block.ids), dtype=np.int64))
        kernel.feed(block, sums)
        if isinstance(sums, PartSums):
            sums.add_hits(block)
        empty += int(np.count_nonzero(np.diff(block.ends) == 1)) + int(after_end and block.ids[0] == 0)
        after_end = bool(block.ids[-1] == 0)
    words = vocabulary.words
    size = len(words)
    for table in (sums, occurrences):
        table.make_room(size)
    seen = occurrences.values[0, 0, :size]
    parts = sums.by_part(size) if isinstance(sums, PartSums) else None
    hits = int(seen[1 : 1 + len(plan.group_words)].sum())
    return Counts(words, seen, sums.values[0, :, :size], int(seen[0]), empty, account, parts, (hits,))


def count(source: Source, plan: Plan, *, engine: Engine | None = None, progress: Progress = None) -> Counts:
    """Count every part and merge in order.

    Each part is counted by itself even on one machine, so that sums are added in the same order everywhere.
    """
    shards = source.shards()
    parts = (engine or LocalEngine()).map(partial(_numbered, source, plan), enumerate(shards))
    return added(watched(parts, len(shards), "counting", progress)) or count_shard(source, (), plan)


def watched(parts: Iterator[T], total: int, what: str, progress: Progress) -> Iterator[T]:
    """The parts as they come, each told of."""
    for done in range(total):
        if progress:
            progress(done, total, what)
        yield next(parts)


def _numbered(source: Source, plan: Plan, job: tuple[int, Shard]) -> Counts:
    return count_shard(source, job[1], plan, first_part=job[0])
