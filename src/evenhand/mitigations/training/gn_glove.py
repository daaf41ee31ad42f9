"""GN-GloVe: GloVe trained so that gender lies in one coordinate, which can then be left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix, Rows
from evenhand.errors import UsageError, VocabularyError
from evenhand.mitigations.maps import DropCoordinates
from evenhand.mitigations.method import Mitigation
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.requirements import require_pairs, require_two_groups
from evenhand.mitigations.training.glove import Plan, Progress, Side, Term, as_vectors, train
from evenhand.models.vectors import Coverage, Vectors
from evenhand.models.vectors.lookup import find, locate
from evenhand.subspaces.lookup import as_pairs
from evenhand.words import as_concept

if TYPE_CHECKING:
    from evenhand.corpus import Cooccurrence
    from evenhand.words import Concept


PUBLISHED_PAIRS = "gn-glove-pairs"
Variant = Literal["paper", "released"]
Per = Literal["entry", "word"]
Form = Literal["l1", "l2"]
HOW = (
    "GNGloVe(dim=100).train(counts, concept) gives new vectors, "
    "with counts = evenhand.corpus.cooccurrence.counts(paths, 10, weighting='harmonic', min_count=5)"
)


@MITIGATIONS.register("gn-glove")
@dataclass(frozen=True)
class GNGloVe(Mitigation):
    """GloVe + apart * J_D + neutral * J_E, trained from co-occurrence counts (Zhao et al. 2018).

    J_D drives the last coordinate of listed words to their sides (male +, female -; in general the first word of a
    pair -, the second +). J_E = (v_g . w_a)^2 makes the other coordinates w_a of all other words orthogonal to v_g, the
    mean difference second - first of the pairs' word vectors, taken anew for each epoch and held fixed in it. Every
    coordinate is clipped to [-1, 1]; word vectors of list words begin at the ends. The result is word + context, so
    that the coordinate reaches 2. Lists for gender as published (222 pairs); other concepts of two groups: their pairs.

    Departures of the default from the released program, which `variant="released"` follows: AdaGrad as in the baseline
    `glove` (they switched it off, so that their comparison mixes optimisers), v_g over the pairs found (they divide by
    all 222, and read rows that were never set for missing words, which neither variant does). Both take a step for a
    block of counts, not for each, and give the same bytes for a seed.

    What it does not do: remove gender from the other coordinates. Without the last one ("wa", `without_gender`) the
    words that were biased still cluster by their old bias almost perfectly (Gonen & Goldberg 2019). With it, listed and
    unlisted words are told apart by construction, which is what SemBias rewards.
    """

    id: ClassVar[str] = "gn-glove"
    title: ClassVar[str] = "Gender-neutral GloVe (GN-GloVe)"
    citation: ClassVar[str] = "Zhao et al. 2018, EMNLP"
    view: ClassVar[str] = "text"
    limits: ClassVar[str] = (
        "Trains new vectors from co-occurrence counts with train(); it cannot change given vectors. Two groups with "
        "pairs only. The bias that is not in the lists stays in the other coordinates."
    )

    dim: int = 100
    """Coordinates, the last one for gender."""
    epochs: int = 25
    pairs: Iterable[Sequence[str]] | None = None
    apart: float = 0.8
    """Weight of J_D (lambda_d)."""
    neutral: float = 0.8
    """Weight of J_E (lambda_e)."""
    form: Form = "l1"
    """Of J_D: l1 pushes without end (up to the clip), l2 pulls to -1 and 1. The released program has l1 only."""
    per: Per = "entry"
    """What the two terms are summed over: every non-zero count of a word, as released, or each word once, as printed.
    The terms are much weaker in the second form, and frequent words hardly feel them."""
    x_max: float = 100.0
    alpha: float = 0.75
    rate: float = 0.05
    clip: float = 1.0
    block: int | None = None
    """Counts in a step; None: what suits the optimiser."""
    variant: Variant = "paper"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (("variant", Variant), ("per", Per), ("form", Form)):
            if getattr(self, name) not in get_args(known):
                raise UsageError(
                    f"GN-GloVe has no {name}={getattr(self, name)!r}", hint=f"use {' or '.join(get_args(known))}"
                )
        if self.dim < 2 or not (0 <= self.apart < np.inf and 0 <= self.neutral < np.inf):
            raise UsageError("GN-GloVe needs a dim of at least 2 and weights apart and neutral of at least 0")
        if self.pairs is not None:
            object.__setattr__(self, "pairs", as_pairs(self.pairs))
            if not self.pairs:
                raise UsageError("pairs is empty", hint="give pairs=[(a, b), ...], or leave it out")
        self._plan()

    def _fit(self, v: Vectors, concept: Concept) -> NoReturn:
        """Raise an error: there is no map from given vectors to these."""
        raise UsageError(
            f"gn-glove learns vectors for {concept.name!r} from the co-occurrence counts of a text; "
            f"it has no map for given vectors ({v.name})",
            hint=HOW,
        )

    def train(self, counts: Cooccurrence, concept: Concept | str, *, progress: Progress = None) -> Vectors:
        """New vectors for the words of the counts; what was done and which list words were missing is their history."""
        about, plan = as_concept(concept), self._plan()
        self.check_concept(about)
        pairs, poles = self._pairs(about), _poles(about)
        lists = listed(counts, pairs, poles=poles, by_listed=self.variant == "released")
        rng = np.random.default_rng(self.seed)
        word, context = (Side.start(len(counts.words), plan, rng) for _ in range(2))
        gender = word.values[:, -2]
        gender[:] = np.where(lists.side == 0, gender, self.clip * lists.side)
        weight = self._weight(counts)

        def term(vectors: Matrix) -> Term:
            direction = lists.direction(vectors)
            direction[-2:] = 0
            return Coordinate(lists.side, direction, weight, self.apart, self.neutral, self.form)

        trained = train(counts, plan, rng, word, context, term=term, progress=progress)
        return as_vectors(counts, trained, self._account(about, lists, poles))

    def without_gender(self) -> DropCoordinates:
        """The map to w_a, published as "(wa)": the vectors without the last coordinate."""
        return DropCoordinates([self.dim - 1], self.dim).with_report(method="gn-glove-wa")

    def _plan(self) -> Plan:
        optimiser: Literal["adagrad", "sgd"] = "sgd" if self.variant == "released" else "adagrad"
        numbers = self.dim, self.epochs, self.x_max, self.alpha, self.rate
        return Plan(*numbers, optimiser=optimiser, clip=self.clip, block=self.block, seed=self.seed)

    def _check(self, concept: Concept) -> None:
        require_two_groups(
            concept, "GN-GloVe", hint="use inlp or leace on trained vectors, which take any number of groups"
        )
        if self.pairs is None and concept.name != "gender":
            require_pairs(concept, "GN-GloVe", hint="GNGloVe(pairs=[(a, b), ...])")

    def _pairs(self, concept: Concept) -> WordPairs:
        if self.pairs is None and concept.name == "gender":
            from evenhand.words import pairs

            return tuple(pairs(PUBLISHED_PAIRS))
        return tuple(concept.pairs) if self.pairs is None else as_pairs(self.pairs)

    def _weight(self, counts: Cooccurrence) -> Any:
        entries = np.bincount(counts.matrix.nonzero()[0], minlength=len(counts.words))
        weight = np.ones(len(entries)) if self.per == "entry" else 1 / np.maximum(entries, 1)
        return weight.astype(np.float32)

    def _account(self, concept: Concept, lists: Listed, poles: tuple[str, str]) -> dict[str, Any]:
        return {
            "method": self.id,
            "concept": concept.name,
            "params": self.params(),
            "poles": {poles[0]: -1, poles[1]: 1},
            "pairs_used": len(lists.first),
            "words_listed": {poles[0]: int((lists.side < 0).sum()), poles[1]: int((lists.side > 0).sum())},
            "words_missing": list(lists.coverage.missing),
            "coverage": lists.coverage.to_dict(),
        }


def _poles(concept: Concept) -> tuple[str, str]:
    """The group of the first words of pairs, and of the second; the other checks come later."""
    others = [name for name in concept.groups if name != concept.positive]
    return concept.positive, (others or [""])[0]


WordPairs = tuple[tuple[str, str], ...]
Single = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Listed:
    """The list words among the words of a corpus."""

    side: Single
    """Of every word: -1 in the first list, 1 in the second, 0 in neither."""
    first: Rows
    second: Rows
    """Counterparts, where the corpus has both."""
    divisor: int
    """Of the sum of differences: the number of pairs that were found, unless all that were listed are meant."""
    coverage: Coverage

    def direction(self, vectors: Matrix) -> Matrix:
        """v_g: the mean difference of the second and the first words of the pairs."""
        return np.asarray((vectors[self.second] - vectors[self.first]).sum(axis=0) / self.divisor)


def listed(counts: Cooccurrence, pairs: WordPairs, *, poles: tuple[str, str], by_listed: bool = False) -> Listed:
    """Find both lists among the words of the counts. A pair that is listed twice counts once, unless `by_listed`."""
    used = pairs if by_listed else tuple(dict.fromkeys(pairs))
    sides = [locate(words, counts.index) for words in zip(*pairs, strict=True)]
    for (rows, coverage), pole in zip(sides, poles, strict=True):
        if not len(rows):
            raise VocabularyError(
                f"the co-occurrence counts have none of the {coverage.asked} {pole!r} words of the pairs, "
                f"such as {coverage.missing[0]!r}",
                hint="lower min_count, use more text, or give pairs= that the text has",
            )
    (first, found), (second, also) = sides
    _refuse_both(counts, np.intersect1d(first, second))
    spelt = [(find(a, counts.index), find(b, counts.index)) for a, b in used]
    whole = [(counts.index[a], counts.index[b]) for a, b in spelt if a is not None and b is not None]
    if not whole:
        raise VocabularyError(
            f"the co-occurrence counts have no pair of which both words occur, such as {'-'.join(pairs[0])}",
            hint="lower min_count, use more text, or give pairs= that the text has",
        )
    side = np.zeros(len(counts.words), dtype=np.float32)
    side[first], side[second] = -1, 1
    twos = np.array(whole, dtype=np.int64)
    return Listed(side, twos[:, 0], twos[:, 1], len(used) if by_listed else len(whole), found + also)


def _refuse_both(counts: Cooccurrence, rows: Rows) -> None:
    if len(rows):
        raise UsageError(
            f"{counts.words[rows[0]]!r} stands on both sides of the pairs", hint="a word can be at one end only"
        )


@dataclass(frozen=True, eq=False)
class Coordinate:
    """What vectors of one epoch add to the loss; their last column is the bias, the one before it the coordinate.

    apart * J_D: l1: - s w_g, l2: (w_g - s)^2 for a listed word with side s; neutral * J_E: (v_g . w_a)^2 for the other
    words, w_a being the coordinates before w_g. Both are weighted by `weight` times the entries that the word has in
    the block. The paper's l1 form is the absolute value of the sum over all words, which is the same while the sides
    stay apart as they begin.
    """

    side: Single
    direction: Matrix
    """v_g, held fixed: it has a 0 for the coordinate and for the bias."""
    weight: Single
    apart: float
    neutral: float
    form: str

    def __call__(self, rows: Rows, vectors: Matrix, hits: Rows, slope: Matrix) -> float:
        """The loss of these rows; its gradient is added to `slope`."""
        side, weight = self.side[rows], self.weight[rows] * hits.astype(np.float32)
        along = np.einsum("ij,j->i", vectors, self.direction)  # not BLAS: its sums may depend on the threads it gets
        neutral = np.where(side == 0, self.neutral * weight, 0)
        slope += (2 * neutral * along)[:, None] * self.direction
        pull, gender = self.apart * weight, vectors[:, -2]
        if self.form == "l2":
            off = np.where(side == 0, 0, gender - side)
            slope[:, -2] += 2 * pull * off
            return float((neutral * along**2 + pull * off**2).sum())
        slope[:, -2] -= pull * side
        return float((neutral * along**2 - pull * side * gender).sum())
