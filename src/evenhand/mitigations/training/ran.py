"""RAN: move each word away from the neighbours that the concept brought near, and keep it near itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Floats, Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.mitigations.labelled_words import plain_rows
from evenhand.mitigations.maps import Chain, RowNormalise, WordTable
from evenhand.mitigations.maps.vectormap import plain_words
from evenhand.mitigations.method import Mitigation
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.requirements import require_single_direction
from evenhand.mitigations.selection import Selector
from evenhand.models.vectors import Coverage, Vectors
from evenhand.models.vectors.neighbours import nearest, unit_float32
from evenhand.subspaces import Subspace, learn, pairs

if TYPE_CHECKING:
    from evenhand.words import Concept


PAPER = (1 / 8, 6 / 8, 1 / 8)
RELEASED = (1 / 8, 6 / 8, 6 / 8)  # the released objective uses the second weight twice
CELLS_AT_ONCE = 1 << 18  # of neighbours in one block: 2 MB of double precision stay in a core's cache for all steps
WORDS_AT_ONCE = 64
SMALLEST = 1e-6  # below this a similarity is rounding, and a share of it means nothing


@MITIGATIONS.register("ran")
@dataclass(frozen=True)
class RAN(Mitigation):
    """For each word w the x that minimises l1 mean_R |cos(x, n)| + l2 |cos(x, w) - 1| / 2 + l3 |<x, g>|, unit length.

    Kumar, Bhotia, Kumar & Chakraborty 2020: R are the neighbours (of the 200 nearest, 100 at most) whose similarity
    to w is due to the direction g by 0.05 or more (indirect bias); they repel, w itself attracts, g is neutralised.
    Adam from w, 300 steps of 0.01. Neighbours and g come from the vectors before; every word is independent of all
    others, so that all of them are stepped together, with the gradient written out. All vectors are made unit length.

    The paper debiases the words that a dictionary calls free of gender; that list was not released. Here: the words
    without digits or punctuation among the most frequent, less those that the concept lists. g is the first principal
    direction of the concept's pairs (unit vectors); where it has none, its published direction.

    What it does not do: words not in the table, and new ones, stay as they were; there is no map for a model's
    layers. The two words of a pair are left apart.
    """

    id: ClassVar[str] = "ran"
    title: ClassVar[str] = "Repulsion, attraction, neutralisation (RAN)"
    citation: ClassVar[str] = "Kumar, Bhotia, Kumar & Chakraborty 2020, TACL"
    limits: ClassVar[str] = (
        "Changes listed words only, one by one: unseen words and arrays without words cannot be mapped. Neighbours are "
        "those along one direction. All vectors come out at unit length."
    )

    change: Iterable[str] | None = None
    """The words to change; None: ordinary words that the concept does not list."""
    words: Selector | None = None
    """Further words that stay as they are (see `selection`)."""
    vocabulary: int = 50_000
    """Only the first so many words are changed or repel."""
    theta: float = 0.05
    neighbours: int = 200
    most: int = 100
    weights: Weights | None = None
    """Of repulsion, attraction and neutralisation; None: as the variant says."""
    steps: int = 300
    rate: float = 0.01
    precision: Literal["double", "single"] = "double"
    variant: Literal["paper", "released"] = "paper"
    """Released: weights 1/8, 6/8, 6/8, as the released script has them."""

    def __post_init__(self) -> None:
        if self.change is not None:
            object.__setattr__(self, "change", plain_words(self.change, what="RAN"))

    def _fit(self, v: Vectors, concept: Concept) -> Chain:
        """Find each word's repelling neighbours, minimise, and return the table of new vectors."""
        weights = self._weights()
        along = _direction(v, concept)
        pool = unit_float32(v.head(self.vocabulary)).astype(np.float64)
        rows, coverage = self._rows(v, concept)
        g = along.basis[0]
        hits = self._hits(pool, rows, g)
        moved = self._minimise(pool, rows, hits, g, weights)
        vm = Chain((RowNormalise(v.dim), WordTable({v.words[int(row)]: x for row, x in zip(rows, moved, strict=True)})))
        details = {"concept": concept.name, "subspace": along.to_dict(basis=False), "weights": list(weights)}
        return self._reported(vm, v, coverage, {**details, **_account(pool[rows], moved, hits, g)})

    def _check(self, concept: Concept) -> None:
        self._weights()
        require_single_direction(concept, "RAN", "pairs" if len(concept.pairs) else None)

    def _weights(self) -> Weights:
        if self.variant not in ("paper", "released"):
            raise UsageError(f"unknown variant {self.variant!r}", hint="use paper or released")
        if self.precision not in ("double", "single"):
            raise UsageError(f"unknown precision {self.precision!r}", hint="use double or single")
        if min(self.vocabulary, self.neighbours - 1, self.most, self.steps) < 1 or self.rate <= 0:
            raise UsageError("vocabulary, most, steps and rate must be positive, neighbours (with the word) at least 2")
        weights = self.weights or (PAPER if self.variant == "paper" else RELEASED)
        if len(weights) != 3 or min(weights) < 0:
            raise UsageError(
                f"three weights of at least 0, got {weights}", hint="repulsion, attraction, neutralisation"
            )
        return weights

    def _rows(self, v: Vectors, concept: Concept) -> tuple[Rows, Coverage]:
        if self.change is None:
            rows = np.setdiff1d(plain_rows(v, self.vocabulary), v.locate(listed_words(concept))[0])
            coverage = Coverage(tuple(v.words[int(row)] for row in rows))
        else:
            found, coverage = v.locate(self.change)
            rows = np.unique(found)
            if len(rows) and rows[-1] >= self.vocabulary:
                raise UsageError(
                    f"{v.words[int(rows[-1])]!r} is not among the first {self.vocabulary:,} words",
                    hint=f"vocabulary={rows[-1] + 1} or more",
                )
        stay = self.words(v, concept) if self.words else frozenset()
        rows = np.array([row for row in rows.tolist() if v.words[row] not in stay], dtype=np.int64)
        if not len(rows):
            raise VocabularyError(f"{v.name} has none of the words to change", hint="give change=[...]")
        return rows, coverage

    def _hits(self, pool: Matrix64, rows: Rows, g: Vector64) -> list[Rows]:
        """Of each word, the neighbours near it because of g: indirect bias of `theta` or more."""
        if len(pool) < 2:
            raise DegenerateError("a single word has no neighbours")
        narrow = pool.astype(np.float32)
        found, _ = nearest(narrow[rows], narrow, min(self.neighbours, len(pool)) - 1, exclude=rows)
        part = pool @ g
        hits = []
        for start in range(0, len(rows), WORDS_AT_ONCE):
            some, near = rows[start : start + WORDS_AT_ONCE], found[start : start + WORDS_AT_ONCE]
            dots = np.matmul(pool[near], pool[some][:, :, None])[:, :, 0]
            due = indirect(dots, part[some][:, None], part[near]) >= self.theta
            hits += [line[chosen][: self.most] for line, chosen in zip(near, due, strict=True)]
        return hits

    def _minimise(self, pool: Matrix64, rows: Rows, hits: list[Rows], g: Vector64, weights: Weights) -> Matrix64:
        kind: Any = np.float64 if self.precision == "double" else np.float32
        moved = np.empty((len(rows), pool.shape[1]))
        narrow, along = pool.astype(kind), g.astype(kind)

        def solve(some: Rows) -> None:
            block = block_of(narrow[rows[some]], [narrow[hits[word]] for word in some], along, weights)
            moved[some] = unit_rows(descend(block, weights, steps=self.steps, rate=self.rate))

        with ThreadPoolExecutor() as threads:  # numpy lets go of the interpreter while it computes
            for _ in threads.map(solve, _alike(hits, pool.shape[1])):
                pass
        return moved


def listed_words(concept: Concept) -> tuple[str, ...]:
    """Every word that the concept lists: groups, names, pairs, pairs to equalise, and those rightly about it."""
    groups = [word for lists in (concept.groups, concept.names) for words in lists.values() for word in words]
    twos = [word for some in (concept.pairs, concept.equalize) for two in some for word in two]
    return tuple(dict.fromkeys([*groups, *twos, *concept.specific]))


def indirect(dots: Floats, first: Floats, second: Floats) -> Matrix64:
    """(w.n - cos(w', n')) / w.n for unit words, from w.n and their parts along g; 0 where it is undefined."""
    left = (1 - np.square(first, dtype=np.float64)) * (1 - np.square(second, dtype=np.float64))
    without = (dots - first * second) / np.sqrt(np.maximum(left, SMALLEST**2))
    defined = (np.abs(dots) > SMALLEST) & (left > SMALLEST**2)
    return np.asarray(np.divide(dots - without, dots, out=np.zeros(dots.shape), where=defined))


def _alike(hits: list[Rows], dim: int) -> Iterator[Rows]:
    """Words in blocks of about as many neighbours each, so that little of a block is padding."""
    sizes = np.array([len(some) for some in hits])
    order = np.argsort(-sizes, kind="stable")
    start = 0
    while start < len(order):
        n = int(np.clip(CELLS_AT_ONCE // (dim * (2 + sizes[order[start]])), 1, WORDS_AT_ONCE))
        yield order[start : start + n]
        start += n


def _direction(v: Vectors, concept: Concept) -> Subspace:
    return pairs(v, concept.pairs, k=1, normalise=True) if len(concept.pairs) else learn(v, concept).first(1)


def _account(before: Matrix64, after: Matrix64, hits: list[Rows], g: Vector64) -> dict[str, Any]:
    sizes: NDArray[np.int64] = np.array([len(some) for some in hits])
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


Weights = tuple[float, float, float]  # of repulsion, attraction and neutralisation
DECAY = (0.9, 0.999)  # Adam's usual constants
EPSILON = 1e-8


class Block(NamedTuple):
    """Some words, each with as many rows as the others; where it has fewer repelling neighbours the rest are zero."""

    rows: Floats
    """(n, r + 2, d): the repelling neighbours, the word itself, and g; unit or zero."""
    weights: Floats
    """(n, r): weight of repulsion over the number of neighbours that are there."""

    @property
    def words(self) -> Floats:
        """(n, d): where each word starts, and what attracts it."""
        return self.rows[:, -2]


def block_of(words: Floats, repel: Sequence[Floats], g: Floats, weights: Weights) -> Block:
    """Words (n, d) with the neighbours that repel each, as one array."""
    sizes = [len(some) for some in repel]
    rows = np.zeros((len(words), max(sizes) + 2, words.shape[1]), dtype=words.dtype)
    share = np.zeros((len(words), max(sizes)), dtype=words.dtype)
    for place, some in enumerate(repel):
        rows[place, : len(some)] = some
        share[place, : len(some)] = weights[0] / max(1, len(some))
    rows[:, -2], rows[:, -1] = words, g
    return Block(rows, share)


def objective(x: Floats, block: Block, weights: Weights) -> Floats:
    """What is minimised, one number for each word."""
    _, attract, neutral = weights
    dots = np.matmul(block.rows, x[:, :, None])[:, :, 0]
    cosines = dots[:, :-1] / np.linalg.norm(x, axis=1)[:, None]
    away = (block.weights * np.abs(cosines[:, :-1])).sum(axis=1)
    return np.asarray(away + attract * np.abs(cosines[:, -1] - 1) / 2 + neutral * np.abs(dots[:, -1]))


def gradient(x: Floats, block: Block, weights: Weights) -> Floats:
    """Of the objective, for every word of the block at once; |.| has slope 0 at 0, and |cos - 1| is 1 - cos.

    With c = <x, n> / |x| the slope of cos is n / |x| - c x / |x|^2: one weight for each row of the block, and one
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


def descend(block: Block, weights: Weights, *, steps: int, rate: float) -> Floats:
    """Adam (Kingma & Ba 2015) from the words themselves, in place: its cost is that of passes over memory."""
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
