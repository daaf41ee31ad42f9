"""GN-GloVe: GloVe trained with gender confined to one coordinate, which can then be dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix, Rows
from evenhand.errors import UsageError, VocabularyError
from evenhand.mitigations.maps import DropCoordinates
from evenhand.mitigations.method import Mitigation, Target, Variant, require_pairs, require_two_groups
from evenhand.mitigations.parameters import check_choices
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.training.glove import GloveSettings, GloveSide, Progress, Term, as_vectors, train
from evenhand.models.vectors import Coverage, Vectors
from evenhand.models.vectors.lookup import find, locate
from evenhand.subspaces.differences import as_pairs
from evenhand.words import as_concept
from evenhand.words import pairs as published_pairs

if TYPE_CHECKING:
    from evenhand.corpus import Cooccurrence
    from evenhand.subjects import Subject
    from evenhand.words import Concept


PUBLISHED_PAIRS = "gn-glove-pairs"
Per = Literal["entry", "word"]
Form = Literal["l1", "l2"]
HOW = (
    "GNGloVe(dim=100).train(counts, concept) gives new vectors, "
    "with counts = evenhand.corpus.cooccurrence(paths, 10, weighting='harmonic', min_count=5)"
)


@MITIGATIONS.register("gn-glove")
@dataclass(frozen=True)
class GNGloVe(Mitigation):
    """Train GloVe from co-occurrence counts with gender confined to one coordinate.

    Zhao et al. (2018). J_D moves the last coordinate of listed words to their sides (male +, female -; in general the
    first word of a pair -, the second +). J_E = (v_g . w_a)^2 makes the other coordinates w_a of all other words
    orthogonal to v_g, the mean difference second - first of the pairs' word vectors, computed before each epoch and
    fixed during it. Coordinates are clipped to [-1, 1]; the word vectors of listed words start at the ends. The result
    is word + context, so the coordinate reaches 2. The lists for gender are the published ones (222 pairs); other
    concepts of two groups use their pairs.

    The default departs from the released program, which `variant="released"` follows, in two points: it uses AdaGrad
    as the baseline `glove` does (the authors switched it off, so their comparison mixes optimisers), and v_g is a mean
    over the pairs present (they divide by all 222, and read uninitialised rows for missing words, which neither variant
    does). Both take a step per block of counts, not per count, and give the same bytes for a seed.

    What it does not do: remove gender from the other coordinates. Without the last one ("wa", `without_gender`) the
    words that were biased still cluster by their original bias almost perfectly (Gonen & Goldberg 2019). With it,
    listed and unlisted words are separated by construction, which SemBias rewards.

    Args:
        dim: Number of coordinates; the last one is for gender.
        epochs: Epochs over all counts.
        pairs: Counterparts (first, second); None: the published pairs for gender, else the concept's.
        apart: Weight of J_D (lambda_d).
        neutral: Weight of J_E (lambda_e).
        form: Form of J_D: `l1` has a constant gradient (up to the clip), `l2` pulls to -1 and 1. The released program
            has l1 only.
        per: What the two terms sum over: every non-zero count of a word, as released (`entry`), or each word once, as
            printed (`word`), which makes them much weaker, especially for frequent words.
        x_max: Count from which the weight of an entry is 1.
        alpha: Exponent of the weight of an entry.
        rate: Learning rate.
        clip: Largest absolute value of a coordinate.
        block: Counts per step; None: a size that suits the optimiser.
        variant: `paper`, or `released` for the behaviour of the released program.
        seed: Seed of initialisation and order.
    """

    id: ClassVar[str] = "gn-glove"
    title: ClassVar[str] = "Gender-neutral GloVe (GN-GloVe)"
    formula: ClassVar[str] = "minimise J_GloVe + apart * J_D + neutral * J_E"
    cites: ClassVar[tuple[str, ...]] = ("zhao2018learning",)
    limits: ClassVar[str] = (
        "Trains new vectors from co-occurrence counts with train(); it cannot change given vectors. Two groups with "
        "pairs only. Bias outside the lists stays in the other coordinates."
    )
    works_on: ClassVar[tuple[Target, ...]] = (Target("co-occurrence counts of a text", "counts"),)
    elsewhere: ClassVar[str] = HOW

    dim: int = 100
    epochs: int = 25
    pairs: Iterable[Sequence[str]] | None = None
    apart: float = 0.8
    neutral: float = 0.8
    form: Form = "l1"
    per: Per = "entry"
    x_max: float = 100.0
    alpha: float = 0.75
    rate: float = 0.05
    clip: float = 1.0
    block: int | None = None
    variant: Variant = "paper"
    seed: int = 0

    def __post_init__(self) -> None:
        check_choices(self)
        if self.dim < 2 or not (0 <= self.apart < np.inf and 0 <= self.neutral < np.inf):
            raise UsageError(
                f"dim must be at least 2, and apart and neutral at least 0; "
                f"got {self.dim}, {self.apart} and {self.neutral}"
            )
        if self.pairs is not None:
            object.__setattr__(self, "pairs", given_pairs(self.pairs))
        self._settings()

    def _check(self, concept: Concept) -> None:
        require_two_groups(
            concept, "GN-GloVe", hint="use inlp or leace on trained vectors, which take any number of groups"
        )
        pairs_for(concept, self.pairs, "GN-GloVe", hint="GNGloVe(pairs=[(a, b), ...])")

    def _fit_subject(self, subject: Subject, concept: Concept) -> NoReturn:
        raise UsageError(f"{self.id} has no map for {subject.name}", hint=HOW)  # no subject has counts: see works_on

    def train(self, counts: Cooccurrence, concept: Concept | str, *, progress: Progress = None) -> Vectors:
        """Train vectors for the words of the counts; parameters and missing list words are in their history."""
        about, settings = as_concept(concept), self._settings()
        self.check_concept(about)
        pairs, poles = pairs_for(about, self.pairs, "GN-GloVe"), _poles(about)
        lists = listed(counts, pairs, poles=poles, by_listed=self.variant == "released")
        rng = np.random.default_rng(self.seed)
        word, context = (GloveSide.start(len(counts.words), settings, rng) for _ in range(2))
        gender = word.values[:, -2]
        gender[:] = np.where(lists.side == 0, gender, self.clip * lists.side)
        weight = self._weight(counts)

        def term(vectors: Matrix) -> Term:
            direction = lists.direction(vectors)
            direction[-2:] = 0
            return Coordinate(lists.side, direction, weight, self.apart, self.neutral, self.form)

        trained = train(counts, settings, rng, word, context, term=term, progress=progress)
        return as_vectors(counts, trained, self._summary(about, lists, poles))

    def without_gender(self) -> DropCoordinates:
        """Return the map to w_a, published as "(wa)": it drops the last coordinate."""
        return DropCoordinates([self.dim - 1], self.dim).with_report(method="gn-glove-wa")

    def _settings(self) -> GloveSettings:
        optimiser: Literal["adagrad", "sgd"] = "sgd" if self.variant == "released" else "adagrad"
        numbers = self.dim, self.epochs, self.x_max, self.alpha, self.rate
        return GloveSettings(*numbers, optimiser=optimiser, clip=self.clip, block=self.block, seed=self.seed)

    def _weight(self, counts: Cooccurrence) -> Single:
        entries = np.bincount(counts.matrix.nonzero()[0], minlength=len(counts.words))
        weight = np.ones(len(entries)) if self.per == "entry" else 1 / np.maximum(entries, 1)
        return np.asarray(weight, dtype=np.float32)

    def _summary(self, concept: Concept, lists: ListedWords, poles: tuple[str, str]) -> dict[str, object]:
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


def given_pairs(pairs: Iterable[Sequence[str]]) -> WordPairs:
    """Return the pairs that a method was given; raise `UsageError` if there are none."""
    found = as_pairs(pairs)
    if not found:
        raise UsageError("pairs is empty", hint="give pairs=[(a, b), ...], or leave it out")
    return found


def pairs_for(concept: Concept, given: Iterable[Sequence[str]] | None, method: str, *, hint: str = "") -> WordPairs:
    """Return the pairs that were given, the published ones for gender, or those of the concept."""
    if given is not None:
        return as_pairs(given)
    if concept.name == "gender":
        return tuple(published_pairs(PUBLISHED_PAIRS))
    require_pairs(concept, method, hint=hint)
    return tuple(concept.pairs)


def _poles(concept: Concept) -> tuple[str, str]:
    """Return the group of the first words of the pairs, and that of the second."""
    return concept.positive, next(name for name in concept.groups if name != concept.positive)


WordPairs = tuple[tuple[str, str], ...]
Single = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ListedWords:
    """The listed words in the vocabulary of the counts."""

    side: Single
    """The side of every word: -1 in the first list, 1 in the second, 0 in neither."""
    first: Rows
    second: Rows
    """Rows of counterparts whose words both occur."""
    divisor: int
    """Divisor of the sum of differences: the number of pairs present, or of all listed pairs."""
    coverage: Coverage

    def direction(self, vectors: Matrix) -> Matrix:
        """Return v_g, the mean difference of the second and the first words of the pairs."""
        return np.asarray((vectors[self.second] - vectors[self.first]).sum(axis=0) / self.divisor)


def listed(counts: Cooccurrence, pairs: WordPairs, *, poles: tuple[str, str], by_listed: bool = False) -> ListedWords:
    """Locate both lists in the vocabulary of the counts. Repeated pairs count once, unless `by_listed`."""
    used = pairs if by_listed else tuple(dict.fromkeys(pairs))
    sides = [locate(words, counts.index) for words in zip(*pairs, strict=True)]
    for (rows, side_coverage), pole in zip(sides, poles, strict=True):
        if not len(rows):
            raise VocabularyError(
                f"the co-occurrence counts have none of the {side_coverage.asked} {pole!r} words of the pairs, "
                f"such as {side_coverage.missing[0]!r}",
                hint="lower min_count, use more text, or set pairs to words that the text has",
            )
    (first, coverage), (second, second_coverage) = sides
    _require_one_side(counts, np.intersect1d(first, second))
    spellings = [(find(a, counts.index), find(b, counts.index)) for a, b in used]
    complete = [(counts.index[a], counts.index[b]) for a, b in spellings if a is not None and b is not None]
    if not complete:
        raise VocabularyError(
            f"the co-occurrence counts have both words of no pair, such as {'-'.join(pairs[0])}",
            hint="lower min_count, use more text, or set pairs to words that the text has",
        )
    side = np.zeros(len(counts.words), dtype=np.float32)
    side[first], side[second] = -1, 1
    rows_of_pairs = np.array(complete, dtype=np.int64)
    divisor = len(used) if by_listed else len(complete)
    return ListedWords(side, rows_of_pairs[:, 0], rows_of_pairs[:, 1], divisor, coverage + second_coverage)


def _require_one_side(counts: Cooccurrence, rows: Rows) -> None:
    if len(rows):
        raise UsageError(
            f"{counts.words[rows[0]]!r} is on both sides of the pairs", hint="a word can be on one side only"
        )


@dataclass(frozen=True, eq=False)
class Coordinate:
    """The additional loss of one epoch; the last column of vectors is the bias, the one before it the coordinate.

    apart * J_D: l1: - s w_g, l2: (w_g - s)^2 for a listed word with side s; neutral * J_E: (v_g . w_a)^2 for the other
    words, w_a being the coordinates before w_g. Both are weighted by `weight` times the number of entries of the
    word in the block. The paper's l1 form is the absolute value of the sum over all words, which is the same as long
    as the sides stay apart.
    """

    side: Single
    direction: Matrix
    """v_g, fixed; it is 0 at the coordinate and at the bias."""
    weight: Single
    apart: float
    neutral: float
    form: str

    def __call__(self, rows: Rows, vectors: Matrix, hits: Rows, slope: Matrix) -> float:
        """Return the loss of these rows and add its gradient to `slope`."""
        side, weight = self.side[rows], self.weight[rows] * hits.astype(np.float32)
        # Without BLAS, whose sums may depend on the number of threads.
        along = np.einsum("ij,j->i", vectors, self.direction)
        neutral = np.where(side == 0, self.neutral * weight, 0)
        slope += (2 * neutral * along)[:, None] * self.direction
        pull, gender = self.apart * weight, vectors[:, -2]
        if self.form == "l2":
            off = np.where(side == 0, 0, gender - side)
            slope[:, -2] += 2 * pull * off
            return float((neutral * along**2 + pull * off**2).sum())
        slope[:, -2] -= pull * side
        return float((neutral * along**2 - pull * side * gender).sum())
