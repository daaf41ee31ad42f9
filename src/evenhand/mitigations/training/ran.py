"""RAN: repulsion from neighbours that the concept brought near, attraction to the word itself, neutralisation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Floats, Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.mitigations.labelled_words import plain_rows
from evenhand.mitigations.maps import Chain, RowNormalise, WordTable
from evenhand.mitigations.maps.vectormap import plain_words
from evenhand.mitigations.method import require_single_direction
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import Selector
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.models.vectors import Coverage, Vectors
from evenhand.models.vectors.neighbours import nearest, unit_float32
from evenhand.subspaces import Subspace, learn, pairs

if TYPE_CHECKING:
    from evenhand.words import Concept

LossWeights = tuple[float, float, float]  # of repulsion, attraction and neutralisation
PAPER = (1 / 8, 6 / 8, 1 / 8)
RELEASED = (1 / 8, 6 / 8, 6 / 8)  # the released objective uses the second weight twice
CELLS_AT_ONCE = 1 << 18  # of neighbours per block: 2 MB in double precision, which stay in a core's cache for all steps
WORDS_AT_ONCE = 64
SMALLEST = 1e-6  # below this a similarity is a rounding error and a share of it is meaningless
DECAY = (0.9, 0.999)  # Adam's usual constants
EPSILON = 1e-8


@MITIGATIONS.register("ran")
@dataclass(frozen=True)
class RAN(VectorMethod):
    """Move each word away from the neighbours that the concept brought near, keep it near itself, and neutralise it.

    Kumar et al. (2020): R are the neighbours (of the 200 nearest, at most 100) whose similarity to w is due to the
    direction g by 0.05 or more (indirect bias). They repel x, w attracts it, and its projection on g is penalised.
    Adam starts at w and takes 300 steps of 0.01. Neighbours and g come from the original vectors, so words are
    independent of each other and are optimised together, with an explicit gradient. All vectors get unit length.

    The paper debiases the words that a dictionary lists as gender-free; that list was not released. Here these are
    the frequent words without digits or punctuation that the concept does not list. g is the first principal
    direction of the concept's pairs (unit vectors); without pairs, its published direction.

    What it does not do: change words outside the table or new ones; there is no map for a model's layers. The two
    words of a pair stay apart.

    Args:
        change: The words to change; None: plain words that the concept does not list.
        words: Further words that stay unchanged.
        vocabulary: Only this many words from the start of the vocabulary are changed or repel.
        theta: Indirect bias from which a neighbour repels.
        neighbours: Number of nearest neighbours considered, including the word itself.
        most: Number of repelling neighbours, at most.
        weights: Weights of repulsion, attraction and neutralisation; None: those of the variant.
        steps: Steps of Adam.
        rate: Learning rate of Adam.
        precision: Floating-point precision of the optimisation.
        variant: `paper`, or `released` for the weights 1/8, 6/8, 6/8 of the released script.
    """

    id: ClassVar[str] = "ran"
    title: ClassVar[str] = "Repulsion, attraction, neutralisation (RAN)"
    formula: ClassVar[str] = (
        "argmin over x of l1 mean_R |cos(x, n)| + l2 |cos(x, w) - 1| / 2 + l3 |<x, g>|, at unit length"
    )
    cites: ClassVar[tuple[str, ...]] = ("kumar2020",)
    limits: ClassVar[str] = (
        "Changes listed words only, one by one: unseen words and arrays without words cannot be mapped. Uses one "
        "direction to find biased neighbours. All vectors are scaled to unit length."
    )
    takes: ClassVar[Literal["seconds", "a minute", "minutes"]] = "a minute"

    change: Iterable[str] | None = None
    words: Selector | None = None
    vocabulary: int = 50_000
    theta: float = 0.05
    neighbours: int = 200
    most: int = 100
    weights: LossWeights | None = None
    steps: int = 300
    rate: float = 0.01
    precision: Literal["double", "single"] = "double"
    variant: Literal["paper", "released"] = "paper"

    def __post_init__(self) -> None:
        if self.change is not None:
            object.__setattr__(self, "change", plain_words(self.change, what="RAN"))

    def _check(self, concept: Concept) -> None:
        self._weights()
        require_single_direction(concept, "RAN", "pairs" if len(concept.pairs) else None)

    def _fit(self, v: Vectors, concept: Concept) -> Chain:
        weights = self._weights()
        direction = _direction(v, concept)
        pool = unit_float32(v.head(self.vocabulary)).astype(np.float64)
        rows, coverage = self._rows(v, concept)
        g = direction.basis[0]
        repelling = self._repelling(pool, rows, g)
        result = self._minimise(pool, rows, repelling, g, weights)
        table = WordTable({v.words[int(row)]: x for row, x in zip(rows, result, strict=True)})
        vm = Chain((RowNormalise(v.dim), table))
        details = {"concept": concept.name, "subspace": direction.to_dict(basis=False), "weights": list(weights)}
        return self._reported(vm, v, coverage, {**details, **_summary(pool[rows], result, repelling, g)})

    def _weights(self) -> LossWeights:
        if min(self.vocabulary, self.neighbours - 1, self.most, self.steps) < 1 or self.rate <= 0:
            raise UsageError("vocabulary, most, steps and rate must be positive, and neighbours at least 2")
        weights = self.weights or (PAPER if self.variant == "paper" else RELEASED)
        if len(weights) != 3 or min(weights) < 0:
            raise UsageError(
                f"weights must be three numbers of at least 0, got {weights}",
                hint="repulsion, attraction, neutralisation",
            )
        return weights

    def _rows(self, v: Vectors, concept: Concept) -> tuple[Rows, Coverage]:
        if self.change is None:
            rows = np.setdiff1d(plain_rows(v, self.vocabulary), [v.index[word] for word in listed_words(v, concept)])
            coverage = Coverage(tuple(v.words[int(row)] for row in rows))
        else:
            located, coverage = v.locate(self.change)
            rows = np.unique(located)
            if len(rows) and rows[-1] >= self.vocabulary:
                raise UsageError(
                    f"{v.words[int(rows[-1])]!r} is not among the first {self.vocabulary:,} words",
                    hint=f"vocabulary={rows[-1] + 1} or more",
                )
        exempt = self.words(v, concept) if self.words else frozenset()
        # A vector of zeros has no neighbours and no side: it stays.
        rows = np.array([row for row in rows.tolist() if v.words[row] not in exempt and v.norms[row]], dtype=np.int64)
        if not len(rows):
            raise VocabularyError(f"{v.name} has none of the words to change", hint="name them with change=[...]")
        return rows, coverage

    def _repelling(self, pool: Matrix64, rows: Rows, g: Vector64) -> list[Rows]:
        """Return the repelling neighbours of each word: those with an indirect bias of `theta` or more."""
        if len(pool) < 2:
            raise DegenerateError("a single word has no neighbours")
        single = pool.astype(np.float32)
        neighbours, _ = nearest(single[rows], single, min(self.neighbours, len(pool)) - 1, exclude=rows)
        projections = pool @ g
        repelling = []
        for start in range(0, len(rows), WORDS_AT_ONCE):
            block, near = rows[start : start + WORDS_AT_ONCE], neighbours[start : start + WORDS_AT_ONCE]
            dots = np.matmul(pool[near], pool[block][:, :, None])[:, :, 0]
            biased = indirect(dots, projections[block][:, None], projections[near]) >= self.theta
            repelling += [candidates[mask][: self.most] for candidates, mask in zip(near, biased, strict=True)]
        return repelling

    def _minimise(
        self, pool: Matrix64, rows: Rows, repelling: list[Rows], g: Vector64, weights: LossWeights
    ) -> Matrix64:
        dtype = np.dtype(np.float64 if self.precision == "double" else np.float32)
        result = np.empty((len(rows), pool.shape[1]))
        vectors, direction = pool.astype(dtype), g.astype(dtype)

        def solve(words: Rows) -> None:
            block = block_of(vectors[rows[words]], [vectors[repelling[word]] for word in words], direction, weights)
            result[words] = unit_rows(descend(block, weights, steps=self.steps, rate=self.rate))

        with ThreadPoolExecutor() as threads:  # numpy releases the interpreter lock while it computes
            for _ in threads.map(solve, _similar_sizes(repelling, pool.shape[1])):
                pass
        return result


def listed_words(v: Vectors, concept: Concept) -> frozenset[str]:
    """Return the vocabulary words that the concept lists: groups, names, pairs, equalising pairs and specific words.

    Names and specific words match by their own case.
    """
    groups = [word for words in concept.groups.values() for word in words]
    paired = [word for pairs in (concept.pairs, concept.equalize) for pair in pairs for word in pair]
    rows, _ = v.locate([*groups, *paired])
    general = frozenset(v.words[row] for row in rows.tolist())
    return general.union(v.matching(concept.specific), *(v.matching(words) for words in concept.names.values()))


def indirect(dots: Floats, first: Floats, second: Floats) -> Matrix64:
    """Return (w.n - cos(w', n')) / w.n for unit vectors, from w.n and their projections on g; 0 where undefined."""
    left = (1 - np.square(first, dtype=np.float64)) * (1 - np.square(second, dtype=np.float64))
    without = (dots - first * second) / np.sqrt(np.maximum(left, SMALLEST**2))
    defined = (np.abs(dots) > SMALLEST) & (left > SMALLEST**2)
    return np.asarray(np.divide(dots - without, dots, out=np.zeros(dots.shape), where=defined))


def _similar_sizes(repelling: list[Rows], dim: int) -> Iterator[Rows]:
    """Yield blocks of words with similar numbers of neighbours, so that blocks need little padding."""
    sizes = np.array([len(rows) for rows in repelling])
    order = np.argsort(-sizes, kind="stable")
    start = 0
    while start < len(order):
        n = int(np.clip(CELLS_AT_ONCE // (dim * (2 + sizes[order[start]])), 1, WORDS_AT_ONCE))
        yield order[start : start + n]
        start += n


def _direction(v: Vectors, concept: Concept) -> Subspace:
    return pairs(v, concept.pairs, k=1, normalise=True) if len(concept.pairs) else learn(v, concept).first(1)


def _summary(before: Matrix64, after: Matrix64, repelling: list[Rows], g: Vector64) -> dict[str, object]:
    sizes: NDArray[np.int64] = np.array([len(rows) for rows in repelling])
    return {
        "words_in_table": len(after),
        "words_repelled": int(np.count_nonzero(sizes)),
        "mean_repelling_neighbours": float(sizes.mean()),
        "mean_abs_cos_direction": {
            "before": float(np.abs(before @ g).mean()),
            "after": float(np.abs(after @ g).mean()),
        },
        "mean_cos_with_original": float(np.einsum("ij,ij->i", before, after).mean()),
    }


class NeighbourBlock(NamedTuple):
    """Words with their repelling neighbours, padded with zero rows to the same number."""

    rows: Floats
    """(n, r + 2, d): the repelling neighbours, the word itself, and g; unit or zero."""
    weights: Floats
    """(n, r): weight of repulsion over the number of repelling neighbours; 0 for padding."""

    @property
    def words(self) -> Floats:
        """(n, d): the original words, where the optimisation starts and which attract it."""
        return self.rows[:, -2]


def block_of(words: Floats, repel: Sequence[Floats], g: Floats, weights: LossWeights) -> NeighbourBlock:
    """Combine words (n, d) and their repelling neighbours in one array."""
    sizes = [len(rows) for rows in repel]
    rows = np.zeros((len(words), max(sizes) + 2, words.shape[1]), dtype=words.dtype)
    share = np.zeros((len(words), max(sizes)), dtype=words.dtype)
    for index, neighbours in enumerate(repel):
        rows[index, : len(neighbours)] = neighbours
        share[index, : len(neighbours)] = weights[0] / max(1, len(neighbours))
    rows[:, -2], rows[:, -1] = words, g
    return NeighbourBlock(rows, share)


def objective(x: Floats, block: NeighbourBlock, weights: LossWeights) -> Floats:
    """Return the objective of each word."""
    _, attract, neutral = weights
    dots = np.matmul(block.rows, x[:, :, None])[:, :, 0]
    cosines = dots[:, :-1] / np.linalg.norm(x, axis=1)[:, None]
    repulsion = (block.weights * np.abs(cosines[:, :-1])).sum(axis=1)
    return np.asarray(repulsion + attract * np.abs(cosines[:, -1] - 1) / 2 + neutral * np.abs(dots[:, -1]))


def gradient(x: Floats, block: NeighbourBlock, weights: LossWeights) -> Floats:
    """Return the gradient of the objective for every word; |.| has derivative 0 at 0, and |cos - 1| is 1 - cos.

    With c = <x, n> / |x| the gradient of cos is n / |x| - c x / |x|^2: one weight for each row of the block, and one
    for x itself.
    """
    _, attract, neutral = weights
    squares = np.einsum("ij,ij->i", x, x)[:, None]
    dots = np.matmul(block.rows, x[:, :, None])[:, :, 0]
    signs = np.sign(dots)
    signs[:, :-2] *= block.weights
    signs[:, -2] = -attract / 2
    own = (signs[:, :-1] * dots[:, :-1]).sum(axis=1, keepdims=True) / (squares * np.sqrt(squares))
    signs[:, :-1] /= np.sqrt(squares)
    signs[:, -1] *= neutral
    slope: Floats = np.matmul(signs[:, None, :], block.rows)[:, 0]
    slope -= own * x
    return slope


def descend(block: NeighbourBlock, weights: LossWeights, *, steps: int, rate: float) -> Floats:
    """Minimise by Adam (Kingma & Ba 2015), starting at the words; in place, since memory access dominates its cost."""
    x = block.words.copy()
    mean, square = np.zeros_like(x), np.zeros_like(x)
    first, second = DECAY
    for step in range(1, steps + 1):
        slope = gradient(x, block, weights)
        mean *= first
        mean += (1 - first) * slope
        slope *= slope
        slope *= 1 - second
        square *= second
        square += slope
        larger = float(np.sqrt(1 - second**step))
        np.sqrt(square, out=slope)
        slope += EPSILON * larger
        np.divide(mean, slope, out=slope)
        slope *= rate * larger / (1 - first**step)
        x -= slope
    return x
