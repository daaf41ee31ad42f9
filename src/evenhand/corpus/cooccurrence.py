"""Co-occurrence counts of all word pairs of a corpus: a sparse matrix that can be saved, with PMI and csPMI."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows, Vector64
from evenhand.corpus.counting.count import CountingPlan, count, token_ids, with_progress
from evenhand.corpus.counting.tokens import Tokenizer, Vocabulary, make_tokeniser
from evenhand.corpus.counting.windows import SparseMatrix, SparseSum, Sums
from evenhand.corpus.readers.paths import Paths
from evenhand.corpus.readers.source import ReadArguments, Shard, TextSource, as_source
from evenhand.corpus.readers.stream import END, ReadLog
from evenhand.engines import Engine, open_engine
from evenhand.errors import DegenerateError, FormatError, UsageError, VocabularyError, foreign_errors
from evenhand.files import existing, writing
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
        tail = ids[-len(by_distance) :]
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


LAYOUT = "evenhand-cooccurrence-1"
PIECE = 1 << 17  # characters at a time, because each word makes `window` pairs


@dataclass(frozen=True, eq=False)
class Cooccurrence:
    """A symmetric matrix X of weighted counts: X[a, b] sums the weights of all pairs of positions with a and b.

    Words are in order of frequency. Probabilities are those of pairs: p(x, y) = X[x, y] / sum X, and p(x) is the share
    of the row of x, as in Levy & Goldberg 2014 for the matrix that skip-gram factorises.
    """

    words: tuple[str, ...]
    matrix: SparseMatrix
    occurrences: NDArray[np.int64]
    params: Mapping[str, object] = field(default_factory=dict)

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Word to row."""
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def marginals(self) -> Vector64:
        """The sum of each row."""
        return np.asarray(self.matrix.sum(axis=1), dtype=np.float64).ravel()

    def count(self, x: str, y: str) -> float:
        """Return X[x, y]."""
        return float(self.matrix[self.row(x), self.row(y)])

    def pmi(self, x: str, y: str) -> float:
        """Return log p(x, y) / (p(x) p(y)); raises an error if the words never co-occur."""
        both, rows = self.count(x, y), [self.row(x), self.row(y)]
        if not both > 0:
            raise DegenerateError(f"{x!r} and {y!r} never co-occur, so their PMI is undefined")
        return float(np.log(both) + np.log(self.marginals.sum()) - np.log(self.marginals[rows]).sum())

    def cspmi(self, x: str, y: str) -> float:
        """Return PMI(x, y) + log p(x, y), the co-occurrence shifted PMI of Ethayarajh et al. 2019."""
        return self.pmi(x, y) + float(np.log(self.count(x, y)) - np.log(self.marginals.sum()))

    def pmi_matrix(self) -> SparseMatrix:
        """Return the PMI of every pair that co-occurs as a sparse matrix; other pairs have no entry."""
        table = self.matrix.tocoo(copy=True)
        logs = np.log(self.marginals, out=np.zeros_like(self.marginals), where=self.marginals > 0)
        table.data = np.log(table.data) + np.log(self.marginals.sum()) - logs[table.row] - logs[table.col]
        return table.tocsr()

    def row(self, word: str) -> int:
        """Return the row of a word, or raise an error that names it."""
        if word not in self.index:
            raise VocabularyError(f"{word!r} is not in the co-occurrence counts", hint="check spelling and min_count")
        return self.index[word]

    def save(self, path: str | Path) -> None:
        """Write matrix and vocabulary to one safetensors file, atomically."""
        from safetensors.numpy import save as to_bytes

        encoded = [word.encode() for word in self.words]
        tensors = {
            "data": np.asarray(self.matrix.data, dtype=np.float64),
            "indices": self.matrix.indices.astype(np.int64),
            "indptr": self.matrix.indptr.astype(np.int64),
            "occurrences": self.occurrences,
            "vocabulary": np.frombuffer(b"".join(encoded), dtype=np.uint8),
            "lengths": np.array([len(word) for word in encoded], dtype=np.int64),
        }
        with writing(Path(path)) as out:
            # One metadata entry: safetensors writes several in an order that differs between processes.
            out.write(to_bytes(tensors, metadata={LAYOUT: json.dumps(dict(self.params), sort_keys=True)}))

    @classmethod
    def load(cls, path: str | Path) -> Cooccurrence:
        """Read counts written by `save`."""
        from safetensors import safe_open

        with foreign_errors(f"{path}: damaged co-occurrence counts", hint="count again"):
            with safe_open(existing(Path(path)), framework="numpy") as file:
                metadata = dict(file.metadata() or {})
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            if LAYOUT not in metadata:
                raise FormatError(f"{path}: not a file of co-occurrence counts", hint="`save` writes such files")
            return _from_tensors(cls, tensors, json.loads(metadata[LAYOUT]))


def cooccurrence(
    paths: Paths | TextSource,
    window: int = 5,
    *,
    weighting: str = "flat",
    min_count: int = 1,
    tokenizer: Tokenizer = "words",
    lower: bool | None = None,
    piece: int = PIECE,
    engine: str | Engine = "local",
    progress: Progress | None = None,
    **reading: Unpack[ReadArguments],
) -> Cooccurrence:
    """Count how often words occur within `window` words of each other in the same document.

    `weighting` is `flat` (1), `harmonic` (1/d, as in GloVe) or `dynamic` ((k-d+1)/k, the average of word2vec). Words
    below `min_count` are removed before windows are applied, as in word2vec and GloVe; this takes a first pass over the
    text. The matrix must fit in memory, the text need not. `engine` is `local`, `ray` or an object of
    `evenhand.engines`.
    """
    by_distance = distance_weights(weighting, window)
    if min_count < 1 or piece < 1:
        raise UsageError(f"min_count and piece must be at least 1, got {min_count} and {piece}")
    source = as_source(paths, **reading)
    plan = CountingPlan({}, window, None, make_tokeniser(tokenizer, lower=lower), piece)
    with open_engine(engine) as workers:
        frequent = _frequent_words(source, plan, min_count, workers, progress) if min_count > 1 else None
        total = pair_counts(source, plan, by_distance, frequent, engine=workers, progress=progress)
    params: dict[str, object] = {
        "window": window,
        "weighting": weighting,
        "min_count": min_count,
        "tokenizer": plan.tokeniser.name,
        "lower": plan.tokeniser.lower,
        **source.to_dict(),
        **total.read_log.to_dict(),
    }
    return _by_frequency(total, params)


def _frequent_words(
    source: TextSource, plan: CountingPlan, min_count: int, engine: Engine, progress: Progress | None
) -> tuple[str, ...]:
    counts = count(source, plan, engine=engine, progress=progress)
    rows = np.flatnonzero(counts.occurrences >= min_count)
    return tuple(counts.words.gather(rows[rows > 0]).to_list())


def _by_frequency(total: PairCounts, params: Mapping[str, object]) -> Cooccurrence:
    """Return both halves of the matrix with words by frequency, without the token that closes documents."""
    order = np.argsort(-total.occurrences[1:], kind="stable") + 1
    matrix = (total.upper + total.upper.T).tocsr()[order][:, order].tocsr()
    matrix.sort_indices()
    words = tuple(total.words.gather(order).to_list())
    return Cooccurrence(words, matrix, total.occurrences[order], params)


def _from_tensors(
    cls: type[Cooccurrence], tensors: Mapping[str, NDArray[np.int64]], params: Mapping[str, object]
) -> Cooccurrence:
    from scipy.sparse import csr_array

    ends = np.cumsum(tensors["lengths"])
    blob = tensors["vocabulary"].tobytes()
    words = tuple(blob[end - size : end].decode() for end, size in zip(ends, tensors["lengths"], strict=True))
    parts = (tensors["data"], tensors["indices"], tensors["indptr"])
    matrix = csr_array(parts, shape=(len(words), len(words)))
    matrix.check_format(full_check=True)
    return cls(words, matrix, tensors["occurrences"], params)
