"""Count in one pass over a corpus how often each word occurs, and how often near each group.

A `TokenFile` keeps the corpus as token ids: tokenised once, read many times.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.counting.token_reader import TokenReader
from evenhand.corpus.counting.tokens import Tokeniser, Vocabulary
from evenhand.corpus.counting.windows import (
    Decay,
    FixedWindow,
    FoldCounts,
    FoldSums,
    Labels,
    Sums,
    Table,
    TokenBlock,
    blocks,
    merge_folds,
)
from evenhand.corpus.readers.source import Shard, TextSource
from evenhand.corpus.readers.stream import END, PIECE, ReadLog, cut
from evenhand.engines import Engine, LocalEngine
from evenhand.errors import DegenerateError, UsageError
from evenhand.files import output_errors
from evenhand.progress import Progress

if TYPE_CHECKING:
    import polars as pl


T = TypeVar("T")
WHOLE_DOCUMENT = 1 << 62  # tokens of a resampling unit that no document exceeds


@dataclass(frozen=True)
class Counts:
    """Words, their occurrences (words,) and their co-occurrences with each group (groups, words).

    Word 0 closes documents. `shard_hits` has the number of group words in each shard.
    """

    words: pl.Series
    occurrences: NDArray[np.int64]
    cooccurrence: Table
    documents: int
    empty_documents: int
    read_log: ReadLog
    by_fold: FoldCounts | None = None
    shard_hits: tuple[int, ...] = ()
    label_log: LabelLog | None = None


def merge(parts: Iterable[Counts]) -> Counts | None:
    """Add up counts in their order; words keep the order of their first appearance.

    The cost of a part depends on its own size only, not on what was added before.
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
        self._cooccurrence = Sums(1, len(first.cooccurrence), first.cooccurrence.dtype.type)
        self._read_log = ReadLog(first.read_log.skip_bad)
        self._by_fold: FoldCounts | None = None
        self._documents = self._empty = 0
        self._hits: tuple[int, ...] = ()
        self._label_logs: list[LabelLog] = []

    def add(self, part: Counts) -> None:
        ids = self._vocabulary.ids(part.words)
        words = int(ids.max()) + 1
        for sums in (self._occurrences, self._cooccurrence):
            sums.make_room(words)
        self._occurrences.values[0, 0, ids] += part.occurrences
        self._cooccurrence.values[0][:, ids] += part.cooccurrence
        self._read_log.add(part.read_log)
        self._by_fold = merge_folds(self._by_fold, part.by_fold, ids)
        self._documents += part.documents
        self._empty += part.empty_documents
        self._hits += part.shard_hits
        self._label_logs += [part.label_log] if part.label_log else []

    def counts(self) -> Counts:
        words = self._vocabulary.words
        size = len(words)
        return Counts(
            words,
            self._occurrences.values[0, 0, :size].astype(np.int64, copy=False),
            self._cooccurrence.values[0, :, :size],
            self._documents,
            self._empty,
            self._read_log,
            self._by_fold.widened(size) if self._by_fold else None,
            self._hits,
            LabelLog.joined(self._label_logs) if self._label_logs else None,
        )


@dataclass(frozen=True)
class CountingPlan:
    """What to count: the groups, the window or decay, the tokeniser, and the folds of the text.

    With `folds` the counts are also kept for each fold. Documents are assigned to folds in turn; a document longer than
    `unit` tokens is assigned in stretches of that length. With `log_labels` the group of every hit is kept.
    """

    groups: Mapping[str, tuple[str, ...]]
    window: int | None
    decay: float | None
    tokeniser: Tokeniser
    piece: int = PIECE
    folds: int = 0
    unit: int | None = None
    log_labels: bool = False

    @property
    def group_words(self) -> tuple[str, ...]:
        """The words of all groups in order; in every vocabulary they have the ids 1, 2, ..."""
        return tuple(word for words in self.groups.values() for word in words)

    @property
    def labels(self) -> Labels:
        """The group of each group word."""
        return np.repeat(np.arange(len(self.groups)), [len(words) for words in self.groups.values()]).astype(np.int8)

    def kernel(self, labellings: int = 1) -> FixedWindow | Decay:
        """Return the weighting of distances."""
        if self.decay is not None:
            return Decay(self.decay, len(self.groups), labellings)
        return FixedWindow(cast(int, self.window), len(self.groups), labellings)


def token_ids(
    source: TextSource, shard: Shard, plan: CountingPlan, vocabulary: Vocabulary, read_log: ReadLog
) -> Iterator[Rows]:
    """Yield a shard of the corpus as arrays of token ids."""
    reader = TokenReader(plan.tokeniser, vocabulary)
    for piece in cut(source.fragments(shard, read_log), plan.piece):
        yield reader.ids(piece)


def count_shard(source: TextSource, shard: Shard, plan: CountingPlan, *, first_fold: int = 0) -> Counts:
    """Count one shard of a corpus; this is the job of a worker."""
    vocabulary, kernel = Vocabulary((END, *plan.group_words)), plan.kernel()
    read_log = ReadLog(source.skip_bad)
    sums = _sums(plan, kernel.dtype, first_fold)
    occurrences = Sums(1, 1, np.int64)
    logger = LabelLogger() if plan.log_labels else None
    empty, after_end = 0, True
    for block in blocks(token_ids(source, shard, plan, vocabulary, read_log), plan.labels):
        if not len(block.ids):
            continue
        largest = int(block.ids.max()) + 1
        sums.make_room(largest)
        occurrences.make_room(largest)
        occurrences.add(0, 0, block.ids, np.ones(len(block.ids), dtype=np.int64))
        kernel.feed(block, sums)
        if isinstance(sums, FoldSums):
            sums.add_hits(block)
        if logger:
            logger.add(block)
        empty += int(np.count_nonzero(np.diff(block.ends) == 1)) + int(after_end and block.ids[0] == 0)
        after_end = bool(block.ids[-1] == 0)
    words = vocabulary.words
    size = len(words)
    for table in (sums, occurrences):
        table.make_room(size)
    seen = occurrences.values[0, 0, :size].astype(np.int64, copy=False)
    by_fold = sums.by_fold(size) if isinstance(sums, FoldSums) else None
    hits = int(seen[1 : 1 + len(plan.group_words)].sum())
    log = logger.log() if logger else None
    return Counts(words, seen, sums.values[0, :, :size], int(seen[0]), empty, read_log, by_fold, (hits,), log)


def _sums(plan: CountingPlan, dtype: type[np.int64] | type[np.float64], first_fold: int) -> Sums:
    if not plan.folds:
        return Sums(1, len(plan.groups), dtype)
    unit = WHOLE_DOCUMENT if plan.unit is None else plan.unit
    return FoldSums(len(plan.groups), dtype, folds=plan.folds, first=first_fold, unit=unit)


def count(
    source: TextSource, plan: CountingPlan, *, engine: Engine | None = None, progress: Progress | None = None
) -> Counts:
    """Count every shard and merge the counts in order.

    Shards are counted separately even on one machine, so that sums are added in the same order everywhere.
    """
    shards = source.shards()
    parts = (engine or LocalEngine()).map(partial(_count_numbered, source, plan), enumerate(shards))
    return merge(with_progress(parts, len(shards), "counting", progress)) or count_shard(source, (), plan)


def with_progress(parts: Iterator[T], total: int, description: str, progress: Progress | None) -> Iterator[T]:
    """Yield parts, reporting progress."""
    for done in range(total):
        if progress:
            progress(done, total, description)
        yield next(parts)


def _count_numbered(source: TextSource, plan: CountingPlan, job: tuple[int, Shard]) -> Counts:
    return count_shard(source, job[1], plan, first_fold=job[0])


LabelSequence = NDArray[np.int8]  # (hits,)


@dataclass(frozen=True)
class LabelLog:
    """The label of every hit of a text in order, and the number of hits of each document that has any.

    Takes one byte for each hit.
    """

    labels: LabelSequence
    sizes: Rows

    @property
    def starts(self) -> Rows:
        """The index of the first hit of each document."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    @classmethod
    def joined(cls, logs: list[LabelLog]) -> LabelLog:
        """Join the logs of shards in their order; no document spans two shards."""
        return cls(np.concatenate([log.labels for log in logs]), np.concatenate([log.sizes for log in logs]))


class LabelLogger:
    """Collects a `LabelLog` from the blocks of one shard."""

    def __init__(self) -> None:
        self._labels: list[LabelSequence] = [np.empty(0, dtype=np.int8)]
        self._sizes: list[Rows] = []
        self._last = -1  # the document of the last hit

    def add(self, block: TokenBlock) -> None:
        """Add the labels of a block."""
        if not len(block.hits):
            return
        documents, sizes = np.unique(block.document + np.searchsorted(block.ends, block.hits), return_counts=True)
        sizes = sizes.astype(np.int64)
        if self._sizes and documents[0] == self._last:
            self._sizes[-1][-1] += sizes[0]
            sizes = sizes[1:]
        if len(sizes):
            self._sizes.append(sizes)
        self._labels.append(block.labels[0].astype(np.int8))
        self._last = int(documents[-1])

    def log(self) -> LabelLog:
        """Return the collected labels."""
        sizes = np.concatenate(self._sizes) if self._sizes else np.empty(0, dtype=np.int64)
        return LabelLog(np.concatenate(self._labels), sizes)


BLOCK = 1 << 20  # tokens
TOKEN_ID = np.dtype(np.uint32)


@dataclass(frozen=True, eq=False)
class TokenFile:
    """Words by frequency, their occurrences, and the text as their ids; the id `len(words)` closes a document.

    Words below `min_count` are removed from `words` and from the text; `tokens` still counts them.
    """

    words: tuple[str, ...]
    occurrences: NDArray[np.int64]
    tokens: int
    documents: int
    read_log: ReadLog
    _file: Path
    _rank: Rows

    @property
    def frequent_tokens(self) -> int:
        """Number of tokens of the text that are not removed."""
        return int(self.occurrences.sum())

    def blocks(self) -> Iterator[Rows]:
        """Yield the text from the start, a block at a time."""
        with self._file.open("rb") as file:
            while len(raw := np.fromfile(file, dtype=TOKEN_ID, count=BLOCK)):
                ranks = self._rank[raw]
                yield ranks[ranks >= 0]

    def stretches(self, longest: int) -> Iterator[Rows]:
        """Yield each document, in parts of at most `longest` words if it is longer."""
        rest = np.empty(0, dtype=np.intp)
        for block in self.blocks():
            ids = np.concatenate([rest, block])
            *documents, rest = np.split(ids, np.flatnonzero(ids == len(self.words)) + 1)
            for document in documents:
                yield from _parts(document[:-1], longest)
            room = len(rest) - len(rest) % longest
            yield from _parts(rest[:room], longest)
            rest = rest[room:]
        yield from _parts(rest, longest)


@contextmanager
def tokenise_to_file(
    source: TextSource, tokeniser: Tokeniser, *, min_count: int = 1, progress: Progress | None = None
) -> Iterator[TokenFile]:
    """Tokenise a corpus into a temporary file of four bytes per word, which is deleted at the end of the block."""
    if min_count < 1:
        raise UsageError(f"min_count must be at least 1, got {min_count}")
    with tempfile.TemporaryDirectory(prefix="evenhand-") as folder:
        path = Path(folder) / "token-ids"
        read_log = ReadLog(source.skip_bad)
        plan = CountingPlan({}, None, None, tokeniser)
        vocabulary = Vocabulary((END,))
        shards = source.shards()
        with output_errors(path), path.open("wb") as out:
            for number, shard in enumerate(shards):
                if progress:
                    progress(number, len(shards), "reading")
                for ids in token_ids(source, shard, plan, vocabulary, read_log):
                    out.write(ids.astype(TOKEN_ID).tobytes())
        yield _rank_words(path, vocabulary, read_log, min_count)


def _rank_words(path: Path, vocabulary: Vocabulary, read_log: ReadLog, min_count: int) -> TokenFile:
    words = vocabulary.words
    seen = np.zeros(len(words), dtype=np.int64)
    with path.open("rb") as file:
        while len(raw := np.fromfile(file, dtype=TOKEN_ID, count=BLOCK)):
            seen += np.bincount(raw, minlength=len(seen))
    order = np.argsort(-seen[1:], kind="stable") + 1
    order = order[seen[order] >= min_count]
    if not len(order):
        raise DegenerateError(
            f"no word of the text occurs {min_count} times ({int(seen[1:].sum()):,} words read)",
            hint="lower min_count, or give more text",
        )
    rank = np.full(len(words), -1, dtype=np.intp)
    rank[order] = np.arange(len(order))
    rank[0] = len(order)
    frequent = tuple(words.gather(order).to_list())
    return TokenFile(frequent, seen[order], int(seen[1:].sum()), int(seen[0]), read_log, path, rank)


def _parts(ids: Rows, longest: int) -> Iterator[Rows]:
    for start in range(0, len(ids), longest):
        yield ids[start : start + longest]
