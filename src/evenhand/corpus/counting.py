"""One pass over a corpus: how often each word occurs, and how much it keeps company with each group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.blocks import Labels, blocks
from evenhand.corpus.decay import Decay
from evenhand.corpus.parts import Parts, PartSums, merged_parts
from evenhand.corpus.pieces import END, PIECE, cut
from evenhand.corpus.readers.account import Account
from evenhand.corpus.readers.source import Source
from evenhand.corpus.sums import Sums
from evenhand.corpus.tokenise import Tokeniser
from evenhand.corpus.vocabulary import Vocabulary
from evenhand.corpus.window import FixedWindow

Progress: TypeAlias = Callable[[int, int, str], None] | None


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


@dataclass(frozen=True)
class Counts:
    """Words with how often they occur and their company: (words,) and (groups, words). Word 0 closes documents."""

    words: Any
    occurrences: NDArray[np.int64]
    company: NDArray[Any]
    documents: int
    empty_documents: int
    account: Account
    by_part: Parts | None = None


def word_numbers(
    source: Source, shard: tuple[str, ...], plan: Plan, vocabulary: Vocabulary, account: Account
) -> Iterator[Rows]:
    """A part of the corpus as arrays of word numbers."""
    for piece in cut(source.fragments(shard, account), plan.piece):
        yield vocabulary.ids(plan.tokeniser(piece))


def count_shard(source: Source, shard: tuple[str, ...], plan: Plan, *, first_part: int = 0) -> Counts:
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
    return Counts(words, seen, sums.values[0, :, :size], int(seen[0]), empty, account, parts)


def count(source: Source, plan: Plan, *, progress: Progress = None) -> Counts:
    """Count every part and merge in order.

    Each part is counted by itself even on one machine, so that sums are added in the same order everywhere.
    """
    shards = source.shards()
    total: Counts | None = None
    for number, shard in enumerate(shards):
        if progress:
            progress(number, len(shards), "counting")
        part = count_shard(source, shard, plan, first_part=number)
        total = part if total is None else merged(total, part)
    return total if total is not None else count_shard(source, (), plan)


def merged(total: Counts, part: Counts) -> Counts:
    """The counts of two parts together; words keep the order of their first appearance."""
    vocabulary = Vocabulary(total.words)
    place = vocabulary.ids(part.words)
    size = len(vocabulary.words)
    grown = size - len(total.occurrences)
    occurrences = np.pad(total.occurrences, (0, grown))
    company = np.pad(total.company, ((0, 0), (0, grown)))
    occurrences[place] += part.occurrences
    company[:, place] += part.company
    account = Account(total.account.skip_bad)
    account.add(total.account)
    account.add(part.account)
    return Counts(
        vocabulary.words,
        occurrences,
        company,
        total.documents + part.documents,
        total.empty_documents + part.empty_documents,
        account,
        merged_parts(total.by_part, part.by_part, place, size),
    )
