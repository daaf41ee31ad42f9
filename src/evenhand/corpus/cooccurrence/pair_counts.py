"""Counting pairs of words by their distance: the streaming part of a co-occurrence matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows, Vector64
from evenhand.corpus.counting.accumulators import SparseSum, Sums
from evenhand.corpus.counting.count import Plan, Progress, watched, word_numbers
from evenhand.corpus.counting.text_stream import END
from evenhand.corpus.counting.vocabulary import Vocabulary
from evenhand.corpus.readers.read_log import Account
from evenhand.corpus.readers.source import Shard, Source
from evenhand.engines import Engine
from evenhand.errors import UsageError

Weighting = Literal["flat", "harmonic", "dynamic"]
# Weight of a pair at distance d in a window of k. GloVe weighs 1/d; word2vec draws the reach of each window uniformly
# from 1 ... k, which keeps a pair at distance d with probability (k - d + 1) / k.
WEIGHTS: dict[str, Callable[[Vector64, int], Vector64]] = {
    "flat": lambda d, k: np.ones_like(d),
    "harmonic": lambda d, k: 1 / d,
    "dynamic": lambda d, k: (k - d + 1) / k,
}


def weights(weighting: str, window: int) -> Vector64:
    """The weights of the distances 1 ... window."""
    if weighting not in WEIGHTS:
        raise UsageError(f"unknown weighting {weighting!r}", hint=f"use {', '.join(get_args(Weighting))}")
    if window < 1:
        raise UsageError(f"a window reaches at least 1 word, got {window}")
    return WEIGHTS[weighting](np.arange(1.0, window + 1), window)


@dataclass(frozen=True)
class PairCounts:
    """Weighted counts of unordered pairs, the smaller number first, and of the words themselves; word 0 ends documents.

    `upper` is a sparse matrix with nothing below its diagonal.
    """

    words: Any
    occurrences: NDArray[np.int64]
    upper: Any
    account: Account


def pair_counts(
    source: Source,
    plan: Plan,
    by_distance: Vector64,
    known: tuple[str, ...] | None,
    *,
    engine: Engine,
    progress: Progress = None,
) -> PairCounts:
    """Every shard counted by itself and added in order; `known` are the words that count, unless all do."""
    shards = source.shards()
    vocabulary, seen, total = Vocabulary(()), Sums(1, 1, np.int64), SparseSum()
    account = Account(source.skip_bad)
    parts = engine.map(partial(_shard_pairs, source, plan, by_distance, known), shards)
    for part in watched(parts, len(shards), "counting pairs", progress):
        place = vocabulary.ids(part.words)
        seen.make_room(int(place.max()) + 1)
        seen.values[0, 0, place] += part.occurrences
        table = part.upper.tocoo()
        first, second = place[table.row], place[table.col]
        total.add(np.minimum(first, second), np.maximum(first, second), table.data)
        account.add(part.account)
    words = vocabulary.words
    return PairCounts(words, seen.values[0, 0, : len(words)], total.total(len(words)), account)


def _shard_pairs(
    source: Source, plan: Plan, by_distance: Vector64, known: tuple[str, ...] | None, shard: Shard
) -> PairCounts:
    vocabulary, account = Vocabulary((END, *(known or ()))), Account(source.skip_bad)
    last = np.inf if known is None else len(known)
    seen, total = Sums(1, 1, np.int64), SparseSum()
    tail = np.empty(0, dtype=np.intp)
    for numbers in word_numbers(source, shard, plan, vocabulary, account):
        block = numbers[numbers <= last]
        seen.make_room(int(block.max(initial=0)) + 1)
        seen.add(0, 0, block, np.ones(len(block), dtype=np.int64))
        ids = np.concatenate([tail, block])
        total.add(*_pairs(ids, len(tail), by_distance))
        closed = np.flatnonzero(ids == 0)
        tail = ids[max(len(ids) - len(by_distance), int(closed[-1]) + 1 if len(closed) else 0) :]
    words = vocabulary.words[: 1 + len(known)] if known is not None else vocabulary.words
    seen.make_room(len(words))
    return PairCounts(words, seen.values[0, 0, : len(words)], total.total(len(words)), account)


def _pairs(ids: Rows, old: int, by_distance: Vector64) -> tuple[Rows, Rows, Any]:
    """Every pair whose second word is new; the first `old` words were counted among themselves before."""
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
