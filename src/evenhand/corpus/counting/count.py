"""One pass over a corpus: how often each word occurs, and how much it keeps company with each group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.counting.accumulators import Sums
from evenhand.corpus.counting.document_folds import Parts, PartSums, merged_parts
from evenhand.corpus.counting.text_stream import END, PIECE, cut
from evenhand.corpus.counting.token_block import Labels, blocks
from evenhand.corpus.counting.tokenise import Tokeniser
from evenhand.corpus.counting.vocabulary import Vocabulary
from evenhand.corpus.counting.windows import Decay, FixedWindow
from evenhand.corpus.readers.read_log import Account
from evenhand.corpus.readers.source import Shard, Source
from evenhand.engines import Engine, LocalEngine


@dataclass(frozen=True)
class Counts:
    """Words with how often they occur and their company: (words,) and (groups, words). Word 0 closes documents.

    `shard_hits` has the number of group words in each part that was counted by itself.
    """

    words: Any
    occurrences: NDArray[np.int64]
    company: NDArray[Any]
    documents: int
    empty_documents: int
    account: Account
    by_part: Parts | None = None
    shard_hits: tuple[int, ...] = ()


def merge(parts: Iterable[Counts]) -> Counts | None:
    """All counts together, added in the order in which they come; words keep the order of their first appearance.

    A part costs what it holds itself, however much is there already.
    """
    total: _Total | None = None
    for part in parts:
        total = total or _Total(part)
        total.add(part)
    return total.counts() if total else None


class _Total:
    def __init__(self, first: Counts) -> None:
        self._vocabulary = Vocabulary(())
        self._occurrences = Sums(1, 1, np.int64)
        self._company = Sums(1, len(first.company), first.company.dtype.type)
        self._account = Account(first.account.skip_bad)
        self._by_part: Parts | None = None
        self._documents = self._empty = 0
        self._hits: tuple[int, ...] = ()

    def add(self, part: Counts) -> None:
        place = self._vocabulary.ids(part.words)
        words = int(place.max()) + 1
        for sums in (self._occurrences, self._company):
            sums.make_room(words)
        self._occurrences.values[0, 0, place] += part.occurrences
        self._company.values[0][:, place] += part.company
        self._account.add(part.account)
        self._by_part = merged_parts(self._by_part, part.by_part, place)
        self._documents += part.documents
        self._empty += part.empty_documents
        self._hits += part.shard_hits

    def counts(self) -> Counts:
        words = self._vocabulary.words
        size = len(words)
        return Counts(
            words,
            self._occurrences.values[0, 0, :size],
            self._company.values[0, :, :size],
            self._documents,
            self._empty,
            self._account,
            self._by_part.widened(size) if self._by_part else None,
            self._hits,
        )


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
    return merge(watched(parts, len(shards), "counting", progress)) or count_shard(source, (), plan)


def watched(parts: Iterator[T], total: int, what: str, progress: Progress) -> Iterator[T]:
    """The parts as they come, each told of."""
    for done in range(total):
        if progress:
            progress(done, total, what)
        yield next(parts)


def _numbered(source: Source, plan: Plan, job: tuple[int, Shard]) -> Counts:
    return count_shard(source, job[1], plan, first_part=job[0])
