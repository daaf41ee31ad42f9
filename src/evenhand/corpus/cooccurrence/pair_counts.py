"""Count pairs of words by their distance: the streaming part of a co-occurrence matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows, Vector64
from evenhand.corpus.counting.accumulators import SparseMatrix, SparseSum, Sums
from evenhand.corpus.counting.count import CountingPlan, token_ids, with_progress
from evenhand.corpus.counting.text_stream import END
from evenhand.corpus.counting.vocabulary import Vocabulary
from evenhand.corpus.readers.read_log import ReadLog
from evenhand.corpus.readers.source import Shard, TextSource
from evenhand.engines import Engine
from evenhand.errors import UsageError
from evenhand.progress import Progress

if TYPE_CHECKING:
    import polars as pl

Weighting = Literal["flat", "harmonic", "dynamic"]
# Weight of a pair at distance d in a window of k. GloVe weights by 1/d; word2vec draws the size of each window
# uniformly from 1 ... k, which includes a pair at distance d with probability (k - d + 1) / k.
WEIGHTS: dict[str, Callable[[Vector64, int], Vector64]] = {
    "flat": lambda d, k: np.ones_like(d),
    "harmonic": lambda d, k: 1 / d,
    "dynamic": lambda d, k: (k - d + 1) / k,
}


def distance_weights(weighting: str, window: int) -> Vector64:
    """Return the weights of the distances 1 ... window."""
    if weighting not in WEIGHTS:
        raise UsageError(f"unknown weighting {weighting!r}", hint=f"use {', '.join(get_args(Weighting))}")
    if window < 1:
        raise UsageError(f"window must be at least 1, got {window}")
    return WEIGHTS[weighting](np.arange(1.0, window + 1), window)


@dataclass(frozen=True)
class PairCounts:
    """Weighted counts of unordered pairs, the smaller id first, and occurrences of the words; word 0 ends documents.

    `upper` is an upper triangular sparse matrix.
    """

    words: pl.Series
    occurrences: NDArray[np.int64]
    upper: SparseMatrix
    read_log: ReadLog


def pair_counts(
    source: TextSource,
    plan: CountingPlan,
    by_distance: Vector64,
    frequent: tuple[str, ...] | None,
    *,
    engine: Engine,
    progress: Progress | None = None,
) -> PairCounts:
    """Count every shard and add the counts in order; `frequent` are the words to count, None for all."""
    shards = source.shards()
    vocabulary, seen, total = Vocabulary(()), Sums(1, 1, np.int64), SparseSum()
    read_log = ReadLog(source.skip_bad)
    parts = engine.map(partial(_shard_pairs, source, plan, by_distance, frequent), shards)
    for part in with_progress(parts, len(shards), "counting pairs", progress):
        ids = vocabulary.ids(part.words)
        seen.make_room(int(ids.max()) + 1)
        seen.values[0, 0, ids] += part.occurrences
        table = part.upper.tocoo()
        first, second = ids[table.row], ids[table.col]
        total.add(np.minimum(first, second), np.maximum(first, second), table.data)
        read_log.add(part.read_log)
    words = vocabulary.words
    occurrences = seen.values[0, 0, : len(words)].astype(np.int64, copy=False)
    return PairCounts(words, occurrences, total.total(len(words)), read_log)


def _shard_pairs(
    source: TextSource, plan: CountingPlan, by_distance: Vector64, frequent: tuple[str, ...] | None, shard: Shard
) -> PairCounts:
    vocabulary, read_log = Vocabulary((END, *(frequent or ()))), ReadLog(source.skip_bad)
    last = np.inf if frequent is None else len(frequent)
    seen, total = Sums(1, 1, np.int64), SparseSum()
    tail = np.empty(0, dtype=np.intp)
    for read in token_ids(source, shard, plan, vocabulary, read_log):
        block = read[read <= last]
        seen.make_room(int(block.max(initial=0)) + 1)
        seen.add(0, 0, block, np.ones(len(block), dtype=np.int64))
        ids = np.concatenate([tail, block])
        total.add(*_pairs(ids, len(tail), by_distance))
        closed = np.flatnonzero(ids == 0)
        tail = ids[max(len(ids) - len(by_distance), int(closed[-1]) + 1 if len(closed) else 0) :]
    words = vocabulary.words[: 1 + len(frequent)] if frequent is not None else vocabulary.words
    seen.make_room(len(words))
    occurrences = seen.values[0, 0, : len(words)].astype(np.int64, copy=False)
    return PairCounts(words, occurrences, total.total(len(words)), read_log)


def _pairs(ids: Rows, old: int, by_distance: Vector64) -> tuple[Rows, Rows, Vector64]:
    """Return every pair whose second word is new; pairs among the first `old` words were counted before."""
    document = np.cumsum(ids == 0)
    first, second, values = [], [], []
    for distance, weight in enumerate(by_distance, start=1):
        right = np.arange(max(old, distance), len(ids))
        left = right - distance
        together = (document[left] == document[right]) & (ids[left] > 0)
        a, b = ids[left[together]], ids[right[together]]
        first.append(np.minimum(a, b))
        second.append(np.maximum(a, b))
        values.append(np.full(len(a), weight))
    return np.concatenate(first), np.concatenate(second), np.concatenate(values)
