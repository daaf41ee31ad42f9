"""GloVe from co-occurrence counts, in blocks of entries, with room for further terms in its loss.

The released program takes one step for each non-zero count. Here a step is taken for a block of thousands of counts,
dealt at random: predictions are dot products of gathered rows, and the gradients of all words and contexts of a block
are two products of a sparse with a dense matrix. It is the mini-batch form of the same descent: the gradient of a block
is the sum of what its single steps would use, all at the block's first values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix, Rows, Vector64
from evenhand.errors import DegenerateError, EvenhandWarning, FormatError, UsageError
from evenhand.models.vectors import Vectors

if TYPE_CHECKING:
    from evenhand.corpus import Cooccurrence


# Counts in a step. With AdaGrad smaller blocks are slower and end at the same loss (benchmarks/gn_glove.py); plain
# descent swings and runs away in large ones, where a frequent word adds up hundreds of steps.
BLOCKS = {"adagrad": 65536, "sgd": 4096}
Optimiser = Literal["adagrad", "sgd"]
Progress: TypeAlias = Callable[[int, int, str], None] | None
Term: TypeAlias = Callable[[Rows, Matrix, Rows, Matrix], float]
"""Rows, their vectors, how many entries of the block each has, the gradient to add to -> what is added to the loss."""
TermFrom: TypeAlias = Callable[[Matrix], Term] | None
"""The term of an epoch, from the word vectors at its beginning."""


@dataclass(frozen=True)
class Plan:
    """How to train; the numbers are those of the released program."""

    dim: int = 100
    epochs: int = 25
    x_max: float = 100.0
    alpha: float = 0.75
    rate: float = 0.05
    optimiser: Optimiser = "adagrad"
    clip: float | None = None
    """Largest size of a coordinate (biases are free); None: any."""
    block: int | None = None
    """Counts in a step, fewer where the vocabulary is small; None: what suits the optimiser."""
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
class Side:
    """The vectors of all words, or of all contexts, the bias in the last column; changed in place by training."""

    values: Matrix
    squares: Matrix
    """AdaGrad's sums of squared gradients."""

    @classmethod
    def start(cls, n: int, plan: Plan, rng: np.random.Generator) -> Side:
        """Uniform within 1 / (2 dim), sums of 1, as released."""
        values = ((rng.random((n, plan.dim + 1)) - 0.5) / plan.dim).astype(np.float32)
        return cls(values, np.ones_like(values))

    def step(self, rows: Rows, gradient: Matrix, plan: Plan) -> None:
        """Go against the gradient in these rows; the array of the gradient is used up.

        AdaGrad as released: the step rate * g is divided by the root of 1 + the sum of (rate * g)^2, so the rate also
        says how early the steps shrink. Here the sum includes the present gradient, so that no single block can carry
        a value further than 1.
        """
        gradient *= plan.rate
        if plan.optimiser == "adagrad":
            squares = self.squares[rows]
            squares += gradient * gradient
            self.squares[rows] = squares
            gradient /= np.sqrt(squares, out=squares)
        values = self.values[rows]
        values -= gradient
        if plan.clip is not None:
            biases = values[:, -1].copy()  # all and then back: faster than a clip of the other columns
            np.clip(values, -plan.clip, plan.clip, out=values)
            values[:, -1] = biases
        self.values[rows] = values


@dataclass(frozen=True, eq=False)
class Trained:
    """What training leaves: both sides, and the mean loss of an entry in each epoch."""

    word: Side
    context: Side
    losses: list[float]

    @property
    def matrix(self) -> Matrix:
        """Word plus context vectors, without biases."""
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

    What it does not tell you: a small corpus gives vectors whose similarities are mostly noise for rare words.
    """
    plan = Plan(dim, epochs, x_max, alpha, rate, optimiser, None, block, seed)
    rng = np.random.default_rng(seed)
    n = len(counts.words)
    trained = train(counts, plan, rng, Side.start(n, plan, rng), Side.start(n, plan, rng), progress=progress)
    return as_vectors(counts, trained, {"method": "glove", "params": asdict(plan)})


def train(
    counts: Cooccurrence,
    plan: Plan,
    rng: np.random.Generator,
    word: Side,
    context: Side,
    *,
    term: TermFrom = None,
    progress: Progress = None,
) -> Trained:
    """Run all epochs over the blocks, in a new random order each time."""
    parts = blocks(counts, rng, size=plan.block or BLOCKS[plan.optimiser], x_max=plan.x_max, alpha=plan.alpha)
    entries = sum(map(len, parts))
    losses: list[float] = []
    for epoch in range(plan.epochs):
        if progress:
            progress(epoch, plan.epochs, "training")
        added = term(word.values) if term else None
        with np.errstate(over="ignore", invalid="ignore"):  # a loss that is not finite is an error of ours
            total = _epoch([parts[place] for place in rng.permutation(len(parts))], plan, word, context, added)
        losses.append(total / entries)
        _refuse_runaway(losses)
    _warn_of_rise(losses)
    return Trained(word, context, losses)


def _epoch(parts: list[Block], plan: Plan, word: Side, context: Side, term: Term | None) -> float:
    total = 0.0
    for block in parts:
        here, there = word.values[block.words], context.values[block.contexts]
        loss, slope, context_slope = gradients(block, here, there, term)
        word.step(block.words, slope, plan)
        context.step(block.contexts, context_slope, plan)
        total += loss
    return total


def gradients(block: Block, words: Matrix, contexts: Matrix, term: Term | None = None) -> tuple[float, Matrix, Matrix]:
    """The loss of a block at these rows of its words and contexts, and its gradient for both."""
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


def as_vectors(counts: Cooccurrence, trained: Trained, step: Mapping[str, Any]) -> Vectors:
    """The trained vectors under the words of the counts, with what was done as their history."""
    about = {"corpus": dict(counts.params), "words": len(counts.words)}
    history = ({**step, "losses": trained.losses},)
    return Vectors(counts.words, trained.matrix, name=str(step["method"]), source=about, history=history)


def _bias_one(values: Matrix) -> Matrix:
    """The vectors with 1 in place of the bias: what the other side's bias is multiplied with."""
    changed = values.copy()
    changed[:, -1] = 1
    return changed


def _refuse_runaway(losses: list[float]) -> None:
    if not np.isfinite(losses[-1]):
        raise DegenerateError(
            f"training ran away in epoch {len(losses)}: the loss is no longer finite",
            hint="lower rate= or block=, or use optimiser='adagrad'",
        )


def _warn_of_rise(losses: list[float]) -> None:
    """Clipped vectors stay finite however badly they swing."""
    if losses[-1] > losses[0]:
        warnings.warn(
            f"the loss rose from {losses[0]:.4g} to {losses[-1]:.4g} per count: the vectors are not usable; "
            "lower rate= or block=",
            EvenhandWarning,
            stacklevel=4,
        )


FEW = 64
PER_WORD = 4  # entries for each word of the vocabulary: in a small one, larger blocks would hit a row too often at once


@dataclass(frozen=True, eq=False)
class Block:
    """Some entries, sorted by word: their words and contexts, and each entry's place among these."""

    words: Rows
    contexts: Rows
    word_of: NDArray[np.int32]
    context_of: NDArray[np.int32]
    starts: NDArray[np.int32]
    """Where the entries of each word begin, and the end: the row pointer of a CSR matrix."""
    log_counts: Vector64 | NDArray[np.float32]
    weights: Vector64 | NDArray[np.float32]
    """f(X) = min(1, X / x_max) ** alpha."""

    def __len__(self) -> int:
        return len(self.log_counts)

    @property
    def word_hits(self) -> Rows:
        """How many entries each word has here."""
        return np.diff(self.starts)

    @property
    def context_hits(self) -> Rows:
        """How many entries each context has here."""
        return np.bincount(self.context_of, minlength=len(self.contexts))


def blocks(
    counts: Cooccurrence, rng: np.random.Generator, *, size: int, x_max: float, alpha: float, dtype: Any = np.float32
) -> list[Block]:
    """All non-zero counts, each in one block."""
    table = counts.matrix.tocsr().tocoo()  # row by row
    values = np.asarray(table.data, dtype=np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise FormatError("the co-occurrence counts hold a value that is negative or not finite", hint="count again")
    kept = np.flatnonzero(values)
    if not len(kept):
        raise DegenerateError(
            f"the co-occurrence counts of {len(counts.words):,} words are all zero, so there is nothing to learn from",
            hint="use more text, a wider window or a lower min_count",
        )
    dealt = _dealt(len(kept), min(size, max(FEW, PER_WORD * len(counts.words))), rng)
    words, contexts, values = table.row[kept], table.col[kept], values[kept]
    logs, weights = np.log(values).astype(dtype), (np.minimum(values / x_max, 1) ** alpha).astype(dtype)
    place = np.zeros(len(counts.words), dtype=np.int32)
    return [_block(words[some], contexts[some], logs[some], weights[some], place) for some in dealt]


def _dealt(n: int, size: int, rng: np.random.Generator) -> list[Rows]:
    """The entries of each block in rising order, and so sorted by word; sizes differ by 1 at most."""
    number = -(-n // size)
    hands = (np.arange(n) % number).astype(np.min_scalar_type(number))
    rng.shuffle(hands)
    return np.array_split(np.argsort(hands, kind="stable"), np.cumsum(np.bincount(hands))[:-1])


def _block(words: Rows, contexts: Rows, logs: Any, weights: Any, place: NDArray[np.int32]) -> Block:
    """`place` is room for one number for each word of the vocabulary, all 0, and is left so."""
    starts = np.flatnonzero(np.diff(words, prepend=-1))
    ends = np.append(starts, len(words)).astype(np.int32)
    word_of = np.repeat(np.arange(len(starts), dtype=np.int32), np.diff(ends))
    place[contexts] = 1
    there = np.flatnonzero(place)
    place[there] = np.arange(len(there), dtype=np.int32)
    context_of = place[contexts]
    place[there] = 0
    return Block(words[starts], there, word_of, context_of, ends, logs, weights)
