"""GloVe from co-occurrence counts, trained in mini-batches, with optional further terms in its loss.

The released program takes one step per non-zero count. Here a step uses a random block of thousands of counts:
predictions are dot products of gathered rows, and the gradients of all words and contexts of a block are two products
of a sparse with a dense matrix. It is the mini-batch form of the same descent: the gradient of a block is the sum of
the gradients of its counts at the values before the block.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from evenhand.arrays import Floats, Matrix, Rows
from evenhand.errors import DegenerateError, EvenhandWarning, FormatError, UsageError
from evenhand.models.vectors import Vectors

if TYPE_CHECKING:
    from evenhand.corpus import Cooccurrence


# Counts per step. With AdaGrad smaller blocks are slower and reach the same loss (benchmarks/gn_glove.py); plain
# gradient descent oscillates and diverges with large ones, where a frequent word sums hundreds of steps.
BLOCKS = {"adagrad": 65536, "sgd": 4096}
Optimiser = Literal["adagrad", "sgd"]
Progress: TypeAlias = Callable[[int, int, str], None] | None
Term: TypeAlias = Callable[[Rows, Matrix, Rows, Matrix], float]
"""Rows, their vectors, entries of each in the block, the gradient to add to -> what is added to the loss."""
TermFrom: TypeAlias = Callable[[Matrix], Term] | None
"""Makes the term of an epoch from the word vectors at its start."""


@dataclass(frozen=True)
class GloveSettings:
    """Settings of the training; the defaults are those of the released program."""

    dim: int = 100
    epochs: int = 25
    x_max: float = 100.0
    alpha: float = 0.75
    rate: float = 0.05
    optimiser: Optimiser = "adagrad"
    clip: float | None = None
    """Largest absolute value of a coordinate (not of biases); None: unlimited."""
    block: int | None = None
    """Counts per step, fewer for a small vocabulary; None: a size that suits the optimiser."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.optimiser not in get_args(Optimiser):
            raise UsageError(f"unknown optimiser {self.optimiser!r}", hint=f"use {' or '.join(get_args(Optimiser))}")
        for name in ("dim", "epochs", "block"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, got {value}")
        for name in ("x_max", "alpha", "rate", "clip"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise UsageError(f"{name} must be a number above 0, got {value}")


@dataclass(frozen=True, eq=False)
class GloveSide:
    """The vectors of all words or of all contexts, with the bias in the last column; updated in place."""

    values: Matrix
    squares: Matrix
    """The sums of squared gradients of AdaGrad."""

    @classmethod
    def start(cls, n: int, settings: GloveSettings, rng: np.random.Generator) -> GloveSide:
        """Return initial values: uniform within 1 / (2 dim), squares 1, as released."""
        values = ((rng.random((n, settings.dim + 1)) - 0.5) / settings.dim).astype(np.float32)
        return cls(values, np.ones_like(values))

    def step(self, rows: Rows, gradient: Matrix, settings: GloveSettings) -> None:
        """Take a descent step in these rows; the array of the gradient is overwritten.

        AdaGrad as released: the step rate * g is divided by the root of 1 + the sum of (rate * g)^2, so the rate also
        decides how early the steps shrink. Here the sum includes the current gradient, so a single block can change
        a value by at most 1.
        """
        gradient *= settings.rate
        if settings.optimiser == "adagrad":
            squares = self.squares[rows]
            squares += gradient * gradient
            self.squares[rows] = squares
            gradient /= np.sqrt(squares, out=squares)
        values = self.values[rows]
        values -= gradient
        if settings.clip is not None:
            biases = values[:, -1].copy()  # clipping all columns and restoring one is faster than clipping the others
            np.clip(values, -settings.clip, settings.clip, out=values)
            values[:, -1] = biases
        self.values[rows] = values


@dataclass(frozen=True, eq=False)
class TrainedGlove:
    """The result of training: both sides, and the mean loss per entry of each epoch."""

    word: GloveSide
    context: GloveSide
    losses: list[float]

    @property
    def matrix(self) -> Matrix:
        """Return word plus context vectors, without biases."""
        return self.word.values[:, :-1] + self.context.values[:, :-1]


def glove(
    counts: Cooccurrence,
    dim: int = 100,
    *,
    epochs: int = 25,
    x_max: float = 100.0,
    alpha: float = 0.75,
    rate: float = 0.05,
    optimiser: Optimiser = "adagrad",
    block: int | None = None,
    seed: int = 0,
    progress: Progress = None,
) -> Vectors:
    """Train GloVe vectors (word + context) on co-occurrence counts (Pennington, Socher & Manning 2014).

    Minimises the sum over non-zero counts X_ij of f(X_ij) (w_i.c_j + b_i + b'_j - log X_ij)^2 / 2, with
    f(x) = min(1, x / x_max)^alpha; the published vectors use counts with window 10 and weighting="harmonic".

    A small corpus gives vectors whose similarities are mostly noise for rare words.
    """
    settings = GloveSettings(dim, epochs, x_max, alpha, rate, optimiser, None, block, seed)
    rng = np.random.default_rng(seed)
    n = len(counts.words)
    trained = train(
        counts, settings, rng, GloveSide.start(n, settings, rng), GloveSide.start(n, settings, rng), progress=progress
    )
    return as_vectors(counts, trained, {"method": "glove", "params": asdict(settings)})


def train(
    counts: Cooccurrence,
    settings: GloveSettings,
    rng: np.random.Generator,
    word: GloveSide,
    context: GloveSide,
    *,
    term: TermFrom = None,
    progress: Progress = None,
) -> TrainedGlove:
    """Run all epochs over the blocks, in a new random order each time."""
    parts = blocks(
        counts, rng, size=settings.block or BLOCKS[settings.optimiser], x_max=settings.x_max, alpha=settings.alpha
    )
    entries = sum(map(len, parts))
    losses: list[float] = []
    for epoch in range(settings.epochs):
        if progress:
            progress(epoch, settings.epochs, "training")
        added = term(word.values) if term else None
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            total = _epoch([parts[index] for index in rng.permutation(len(parts))], settings, word, context, added)
        losses.append(total / entries)
        _require_finite(losses)
    _warn_of_rise(losses)
    return TrainedGlove(word, context, losses)


def _epoch(
    parts: list[CountBlock], settings: GloveSettings, word: GloveSide, context: GloveSide, term: Term | None
) -> float:
    total = 0.0
    for block in parts:
        words, contexts = word.values[block.words], context.values[block.contexts]
        loss, slope, context_slope = gradients(block, words, contexts, term)
        word.step(block.words, slope, settings)
        context.step(block.contexts, context_slope, settings)
        total += loss
    return total


def gradients(
    block: CountBlock, words: Matrix, contexts: Matrix, term: Term | None = None
) -> tuple[float, Matrix, Matrix]:
    """Return the loss of a block at these vectors of its words and contexts, and its gradient for both."""
    from scipy.sparse import csr_array

    with_one, context_with_one = _bias_one(words), _bias_one(contexts)
    errors = np.einsum("ij,ij->i", words[block.word_of], context_with_one[block.context_of])
    errors += contexts[block.context_of, -1]
    errors -= block.log_counts
    weighted = block.weights * errors
    loss = 0.5 * float((weighted * errors).sum())
    table = csr_array((weighted, block.context_of, block.starts), shape=(len(words), len(contexts)))
    slope, context_slope = table @ context_with_one, table.T @ with_one
    if term:
        loss += term(block.words, words, block.word_hits, slope)
        loss += term(block.contexts, contexts, block.context_hits, context_slope)
    return loss, slope, context_slope


def as_vectors(counts: Cooccurrence, trained: TrainedGlove, step: Mapping[str, object]) -> Vectors:
    """Return the trained vectors of the words of the counts, with the training step as their history."""
    about = {"corpus": dict(counts.params), "words": len(counts.words)}
    history = ({**step, "losses": trained.losses},)
    return Vectors(counts.words, trained.matrix, name=str(step["method"]), source=about, history=history)


def _bias_one(values: Matrix) -> Matrix:
    """Return the vectors with 1 in place of the bias, the factor of the other side's bias."""
    changed = values.copy()
    changed[:, -1] = 1
    return changed


def _require_finite(losses: list[float]) -> None:
    if not np.isfinite(losses[-1]):
        raise DegenerateError(
            f"training diverged in epoch {len(losses)}: the loss is not finite",
            hint="lower rate or block, or use optimiser='adagrad'",
        )


def _warn_of_rise(losses: list[float]) -> None:
    """Warn if the loss rose: clipped vectors stay finite even when training diverges."""
    if losses[-1] > losses[0]:
        warnings.warn(
            f"the loss rose from {losses[0]:.4g} to {losses[-1]:.4g} per count: the vectors are not usable; "
            "lower rate or block",
            EvenhandWarning,
            stacklevel=4,
        )


MIN_BLOCK = 64
PER_WORD = 4  # entries per word of the vocabulary: larger blocks of a small vocabulary update a row too often at once


@dataclass(frozen=True, eq=False)
class CountBlock:
    """A block of entries, sorted by word: its words and contexts, and the index of each entry among these."""

    words: Rows
    contexts: Rows
    word_of: NDArray[np.int32]
    context_of: NDArray[np.int32]
    starts: NDArray[np.int32]
    """The start of each word's entries, and the end: the row pointer of a CSR matrix."""
    log_counts: Floats
    weights: Floats
    """f(X) = min(1, X / x_max) ** alpha."""

    def __len__(self) -> int:
        return len(self.log_counts)

    @property
    def word_hits(self) -> Rows:
        """Return the number of entries of each word."""
        return np.diff(self.starts)

    @property
    def context_hits(self) -> Rows:
        """Return the number of entries of each context."""
        return np.bincount(self.context_of, minlength=len(self.contexts))


def blocks(
    counts: Cooccurrence,
    rng: np.random.Generator,
    *,
    size: int,
    x_max: float,
    alpha: float,
    dtype: DTypeLike = np.float32,
) -> list[CountBlock]:
    """Distribute all non-zero counts over blocks at random."""
    table = counts.matrix.tocsr().tocoo()  # row by row
    values = np.asarray(table.data, dtype=np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise FormatError("the co-occurrence counts contain a value that is negative or not finite", hint="count again")
    nonzero = np.flatnonzero(values)
    if not len(nonzero):
        raise DegenerateError(
            f"the co-occurrence counts of {len(counts.words):,} words are all zero",
            hint="use more text, a wider window or a lower min_count",
        )
    entries = _random_blocks(len(nonzero), min(size, max(MIN_BLOCK, PER_WORD * len(counts.words))), rng)
    words, contexts, values = table.row[nonzero], table.col[nonzero], values[nonzero]
    logs, weights = np.log(values).astype(dtype), (np.minimum(values / x_max, 1) ** alpha).astype(dtype)
    buffer = np.zeros(len(counts.words), dtype=np.int32)
    return [_block(words[some], contexts[some], logs[some], weights[some], buffer) for some in entries]


def _random_blocks(n: int, size: int, rng: np.random.Generator) -> list[Rows]:
    """Return the entries of each block in ascending order, so sorted by word; sizes differ by at most 1."""
    number = -(-n // size)
    assignment = (np.arange(n) % number).astype(np.min_scalar_type(number))
    rng.shuffle(assignment)
    return np.array_split(np.argsort(assignment, kind="stable"), np.cumsum(np.bincount(assignment))[:-1])


def _block(words: Rows, contexts: Rows, logs: Floats, weights: Floats, buffer: NDArray[np.int32]) -> CountBlock:
    """Return the block of these entries; `buffer` has a 0 for each word of the vocabulary, and is reset to 0."""
    starts = np.flatnonzero(np.diff(words, prepend=-1))
    ends = np.append(starts, len(words)).astype(np.int32)
    word_of = np.repeat(np.arange(len(starts), dtype=np.int32), np.diff(ends))
    buffer[contexts] = 1
    unique = np.flatnonzero(buffer)
    buffer[unique] = np.arange(len(unique), dtype=np.int32)
    context_of = buffer[contexts]
    buffer[unique] = 0
    return CountBlock(words[starts], unique, word_of, context_of, ends, logs, weights)
