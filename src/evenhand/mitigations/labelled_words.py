"""Labelled words for erasure methods, and the linear classifier that tells how well their classes can be separated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64, as_float64, row_norms
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps import VectorMap
from evenhand.mitigations.method import require_direction, require_groups, require_names
from evenhand.mitigations.selection import Selector
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subjects import Subject
from evenhand.subspaces import learn
from evenhand.subspaces.differences import listed, word_rows

if TYPE_CHECKING:
    from evenhand.mitigations.maps.site_change import SiteChange
    from evenhand.words import Concept, Recipe


TOLERANCE = 1e-8  # of the gradient at zero; liblinear stops at 1e-4 of the same problem
STEPS = 100
ARMIJO = 1e-4  # the share of the predicted decrease that a step must achieve


@dataclass(frozen=True)
class LinearClassifier:
    """One row of weights for each class (a single row for two classes), the intercept last where there is one."""

    weights: Matrix64
    classes: Rows
    intercept: bool = False

    @property
    def directions(self) -> Matrix64:
        """Return the weights without the intercept."""
        return self.weights[:, :-1] if self.intercept else self.weights

    def scores(self, x: Matrix64) -> Matrix64:
        """Return decision values, one column per row of weights; the margin is at 1."""
        shift = self.weights[:, -1] if self.intercept else 0.0
        return np.asarray(x @ self.directions.T + shift, dtype=np.float64)

    def predict(self, x: Matrix64) -> Rows:
        """Return the class of each row."""
        scores = self.scores(x)
        best = (scores[:, 0] > 0).astype(np.int64) if len(self.weights) == 1 else np.argmax(scores, axis=1)
        return np.asarray(self.classes[best], dtype=np.int64)

    def accuracy(self, x: Matrix64, y: Rows) -> float:
        """Return the share of rows whose class is predicted correctly."""
        return float(np.mean(self.predict(x) == y))


def train(x: Matrix64, y: Rows, *, C: float = 1.0, intercept: bool = False) -> LinearClassifier:
    """Minimise |w|^2 / 2 + C sum_i max(0, 1 - t_i <w, x_i>)^2, t = +1 for the class and -1 for the rest.

    The intercept is an additional coordinate of value 1 and is regularised like the others, as in liblinear.
    """
    rows = np.hstack([x, np.ones((len(x), 1))]) if intercept else x
    classes = np.unique(y)
    gram = rows.T @ rows
    positive = classes[1:] if len(classes) == 2 else classes
    weights = [_newton(rows, np.where(y == one, 1.0, -1.0), gram, C) for one in positive]
    return LinearClassifier(np.array(weights), classes, intercept)


def _newton(x: Matrix64, t: Vector64, gram: Matrix64, C: float) -> Vector64:
    """Minimise by Newton's method; the Hessian is piecewise constant, so a few steps suffice."""
    w, scores, eye = np.zeros(x.shape[1]), np.zeros(len(x)), np.eye(x.shape[1])
    tolerance = TOLERANCE * float(np.linalg.norm(2 * C * x.T @ t))
    for _ in range(STEPS):
        inside = t * scores < 1
        gradient = w - 2 * C * x.T @ np.where(inside, t - scores, 0.0)
        if np.linalg.norm(gradient) <= tolerance:
            break
        step = as_float64(-np.linalg.solve(eye + 2 * C * _gram_of(x, inside, gram), gradient))
        along = x @ step
        length = _line_search(w, scores, step, along, t, C, float(gradient @ step))
        if length == 0:
            break  # no further decrease in double precision: this is the minimum
        w, scores = w + length * step, scores + length * along
    return w


def _gram_of(x: Matrix64, inside: NDArray[np.bool_], gram: Matrix64) -> Matrix64:
    """Return X_A'X_A, computed from the smaller of A and its complement."""
    if 2 * np.count_nonzero(inside) <= len(x):
        rows = x[inside]
        return np.asarray(rows.T @ rows, dtype=np.float64)
    rows = x[~inside]
    return np.asarray(gram - rows.T @ rows, dtype=np.float64)


def _line_search(
    w: Vector64, scores: Vector64, step: Vector64, along: Vector64, t: Vector64, C: float, slope: float
) -> float:
    loss, length = _loss(w, scores, t, C), 1.0
    while length > 1e-8:
        if _loss(w + length * step, scores + length * along, t, C) <= loss + ARMIJO * length * slope:
            return length
        length /= 2
    return 0.0


def _loss(w: Vector64, scores: Vector64, t: Vector64, C: float) -> float:
    hinge = np.maximum(0.0, 1 - t * scores)
    return float(w @ w / 2 + C * hinge @ hinge)


NEUTRAL = "neutral"
SHARES = (0.49, 0.21, 0.30)  # training, development, test, as in Ravfogel et al. 2020
MIN_TO_SPLIT = 20  # words per class; with fewer, nothing is held out
MIN_NEUTRAL = 0.1  # of the size of the other classes; a smaller neutral class is left out
PLAIN = re.compile(r"(?=.{1,19}$)[^\W\d_]+(_[^\W\d_]+)*")  # no digits, no punctuation, fewer than 20 letters
ROWS_AT_ONCE = 50_000


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows of the vectors with one class each, split into training, development and test parts."""

    rows: Rows
    y: Rows
    classes: tuple[str, ...]
    parts: tuple[Rows, Rows, Rows]
    """Indices into `rows`; each part is all of them if a class is too small to hold words out."""
    coverage: Coverage
    params: Mapping[str, object]

    @property
    def majority(self) -> float:
        """Return the share of the largest class in the test part: the accuracy of the best constant prediction."""
        counts = np.bincount(self.y[self.parts[2]])
        return float(counts.max() / counts.sum())

    def matrix(self, v: Vectors) -> Matrix64:
        """Return the vectors of the labelled words."""
        return v.matrix[self.rows].astype(np.float64)

    def accuracy(self, x: Matrix) -> float:
        """Return the test accuracy of a linear classifier with intercept trained on these vectors."""
        fit, _, test = self.parts
        wide = as_float64(x)
        return train(wide[fit], self.y[fit], intercept=True).accuracy(wide[test], self.y[test])

    def report(self, before: Matrix64, after: Matrix, **labels: object) -> dict[str, object]:
        """Return the labels used, and the accuracy of a linear classifier before and after an erasure."""
        sizes = dict(zip(self.classes, np.bincount(self.y).tolist(), strict=True))
        return {
            "labels": {**self.params, "sizes": sizes, **labels},
            "accuracy_before": self.accuracy(before),
            "accuracy_after": self.accuracy(after),
            "majority": self.majority,
            "held_out": len(self.parts[2]) < len(self.y),
        }


@dataclass(frozen=True)
class FromLabels(VectorMethod):
    """Base of INLP, LEACE and R-LACE: the parameters that choose the labelled words.

    Args:
        labels: `biased`: the words most biased along the concept's direction, and neutral ones; `groups` or `names`:
            the concept's own lists as classes.
        per_class: Biased words per class, at most; never more than an equal share of the eligible words.
        neutral: Neutral words, at most; 0 omits that class.
        neutral_below: A word is neutral if its |cosine| with every direction of the concept is below this.
        vocabulary: Only this many words from the start of the vocabulary are eligible.
        direction: How the direction of a concept of two groups is learned; None: as published, from raw vectors.
        words: Which words stay unchanged; None: every word is mapped.
        seed: Seed of the choice of neutral words and of the split into training, development and test words.
        examples: In a transformer, `words`: vectors of words at the site; `sentences`: mean vectors of sentences that
            mention a group, or none, with the group as label.
        sentences: A text file with a sentence in each line, for `examples="sentences"`; None: template sentences.
    """

    labels: Literal["biased", "groups", "names"] = "biased"
    per_class: int = 7500
    neutral: int = 7500
    neutral_below: float = 0.03
    vocabulary: int = 150_000
    direction: Recipe | str | None = None
    words: Selector | None = None
    seed: int = 0
    examples: Literal["words", "sentences"] = "words"
    sentences: str | None = None

    def _check(self, concept: Concept) -> None:
        if self.sentences is not None and self.examples == "words":
            raise UsageError(f"{self.id}: sentences={self.sentences!r} needs examples='sentences'")
        if self.labels == "names":
            require_names(concept, f"{self.id} with labels='names'")
            return
        require_groups(concept, self.id)
        if self.labels == "biased" and len(concept.groups) == 2:
            require_direction(concept, self.id, self.direction)
        elif self.labels == "biased" and self.direction is not None:
            raise UsageError(
                f"concept {concept.name!r} has {len(concept.groups)} groups, each with its own direction",
                hint="leave direction out",
            )

    def check_subject(self, subject: Vectors | Subject) -> None:
        """Raise `UsageError` if the method does not work on this kind of subject."""
        super().check_subject(subject)
        if self.examples == "sentences" and getattr(subject, "network", None) is None:
            raise UsageError(
                f"{self.id} with examples='sentences' learns from a transformer; {subject.name} is "
                f"{getattr(subject, 'title', 'word vectors')}",
                hint="leave examples out, or open a model: eh.open('hf:FOLDER')",
            )

    def _fit_subject(self, subject: Subject, concept: Concept) -> VectorMap | SiteChange:
        if self.examples == "words" or subject.network is None:
            return super()._fit_subject(subject, concept)
        from evenhand.mitigations.site_examples import labelled_sentences
        from evenhand.words import Concept

        network = subject.network
        site = self._site_in(network)
        chosen = labelled_sentences(concept, self.sentences, most=self.per_class, seed=self.seed)
        method = replace(self, labels="groups", examples="words", sentences=None, site=None)
        vm = method._fit(chosen.vectors(network.transformer, site), Concept(concept.name, groups=chosen.classes))
        report = {"params": self.params(), "examples": chosen.report()}
        return self._at_site(network, site, vm, report)

    def _labelled(self, v: Vectors, concept: Concept) -> Labelled:
        if self.labels != "biased":
            return by_lists(
                v,
                getattr(concept, self.labels),
                what=f"{self.labels} of {concept.name!r}",
                own_case=self.labels == "names",
                seed=self.seed,
            )
        return biased(
            v,
            concept,
            per_class=self.per_class,
            neutral=self.neutral,
            neutral_below=self.neutral_below,
            vocabulary=self.vocabulary,
            direction=self.direction,
            seed=self.seed,
        )


def biased(
    v: Vectors,
    concept: Concept,
    *,
    per_class: int,
    neutral: int,
    neutral_below: float = 0.03,
    vocabulary: int = 150_000,
    direction: Recipe | str | None = None,
    excluded: Iterable[str] = (),
    seed: int = 0,
) -> Labelled:
    """Label the plain words most biased to each group of the concept, and some that are neutral.

    Words in `excluded` are not chosen. A neutral class much smaller than the others is left out.
    """
    if per_class < 1 or neutral < 0 or vocabulary < 1:
        raise UsageError(
            f"per_class and vocabulary must be at least 1 and neutral at least 0, "
            f"got {per_class}, {vocabulary} and {neutral}"
        )
    directions, names, coverage, how = poles(v, concept, direction)
    rows = np.setdiff1d(plain_rows(v, vocabulary), v.locate(excluded)[0])
    cosines = _cosines(v, rows, directions)
    size = min(per_class, len(rows) // (len(names) + 1))
    class_rows = [rows[indices] for indices in _most_biased(cosines, size)]
    unbiased = np.setdiff1d(rows[(np.abs(cosines) < neutral_below).all(axis=1)], np.concatenate(class_rows))
    sample = np.random.default_rng(seed).permutation(unbiased)[: min(neutral, len(rows) // (len(names) + 1))]
    if len(sample) > MIN_NEUTRAL * size:
        class_rows, names = [*class_rows, np.sort(sample)], (*names, NEUTRAL)
    return _labelled(class_rows, names, coverage, {"words": "biased", "direction": how}, seed)


def by_lists(
    v: Vectors, lists: Mapping[str, Sequence[str]], *, what: str, own_case: bool = False, seed: int = 0
) -> Labelled:
    """Label words by list, one class per list; a word in two lists is an error."""
    located = {name: v.locate(words, own_case=own_case) for name, words in lists.items()}
    coverage = sum((each for _, each in located.values()), Coverage(()))
    class_rows = {name: np.unique(rows) for name, (rows, _) in located.items() if len(rows)}
    if len(class_rows) < 2:
        raise DegenerateError(
            f"{what}: {v.name} has words of {len(class_rows)} classes; a classifier needs two",
            hint=f"missing: {listed(coverage.missing) or 'nothing'}",
        )
    rows, counts = np.unique(np.concatenate(list(class_rows.values())), return_counts=True)
    repeated = [v.words[int(row)] for row in rows[counts > 1]]
    if repeated:
        raise UsageError(f"{what}: words in more than one class: {listed(repeated)}", hint="remove them from one")
    params = {"words": what, "classes_lost": [name for name in lists if name not in class_rows]}
    return _labelled(list(class_rows.values()), tuple(class_rows), coverage, params, seed)


def poles(
    v: Vectors, concept: Concept, recipe: Recipe | str | None
) -> tuple[Matrix64, tuple[str, ...], Coverage, dict[str, object]]:
    """Return one direction per group: both ends of the direction of two groups, else group mean less mean of means."""
    others = tuple(name for name in concept.groups if name != concept.positive)
    if len(others) == 1:
        learned = learn(v, concept, recipe, k=1, normalise=False if recipe is None else None).first(1)
        ends = np.vstack([learned.basis, -learned.basis])
        return ends, (concept.positive, *others), learned.coverage, {"how": learned.how, **learned.params}
    if not others:
        raise UsageError(
            f"concept {concept.name!r} has one group only; a classifier needs two",
            hint='add a second one: groups={"a": [...], "b": [...]}',
        )
    if recipe is not None:
        raise UsageError(f"concept {concept.name!r} has {len(others) + 1} groups, each with its own direction")
    located = {name: word_rows(v, words, what=f"the group {name!r}") for name, words in concept.groups.items()}
    means = np.array([rows.mean(axis=0) for rows, _ in located.values()])
    coverage = sum((each for _, each in located.values()), Coverage(()))
    return means - means.mean(axis=0), tuple(located), coverage, {"how": "group means", "concept": concept.name}


def rows_of_two_groups(v: Vectors, concept: Concept) -> tuple[Matrix64, Matrix64, Coverage]:
    """Return the vectors of the positive group of a concept, and those of the other one."""
    other = next(name for name in concept.groups if name != concept.positive)
    first, coverage = word_rows(v, concept.groups[concept.positive], what=f"group {concept.positive!r}")
    second, second_coverage = word_rows(v, concept.groups[other], what=f"group {other!r}")
    return first, second, coverage + second_coverage


def plain_rows(v: Vectors, first: int) -> Rows:
    """Return the rows of plain words among the first: no digits, no punctuation, fewer than 20 letters."""
    return np.array([row for row, word in enumerate(v.words[:first]) if PLAIN.fullmatch(word)], dtype=np.int64)


def _cosines(v: Vectors, rows: Rows, directions: Matrix64) -> Matrix64:
    unit = directions / np.maximum(row_norms(directions), np.finfo(np.float64).tiny)[:, None]
    cosines = np.zeros((len(rows), len(unit)))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        block = v.matrix[rows[start : start + ROWS_AT_ONCE]].astype(np.float64)
        lengths = row_norms(block)[:, None]
        np.divide(block @ unit.T, lengths, out=cosines[start : start + len(block)], where=lengths > 0)
    return cosines


def _most_biased(cosines: Matrix64, size: int) -> list[Rows]:
    """Return for each direction the words nearest to it, among those nearer to it than to any other."""
    nearest = np.where(cosines.max(axis=1) > 0, np.argmax(cosines, axis=1), -1)
    ranked = [np.argsort(-column, kind="stable") for column in cosines.T]
    return [np.sort(order[nearest[order] == pole][:size]) for pole, order in enumerate(ranked)]


def _labelled(
    class_rows: list[Rows], names: tuple[str, ...], coverage: Coverage, params: Mapping[str, object], seed: int
) -> Labelled:
    empty = [name for name, rows in zip(names, class_rows, strict=True) if not len(rows)]
    if empty:
        raise DegenerateError(
            f"no word is biased to {', '.join(empty)}", hint="use vectors with more words, or labels='groups'"
        )
    y = np.repeat(np.arange(len(class_rows), dtype=np.int64), [len(rows) for rows in class_rows])
    return Labelled(np.concatenate(class_rows), y, names, _split(y, seed), coverage, params)


def _split(y: Rows, seed: int) -> tuple[Rows, Rows, Rows]:
    """Split every class by the same shares, so that all parts have the same proportions of classes."""
    every, rng = np.arange(len(y)), np.random.default_rng(seed)
    if np.bincount(y).min() < MIN_TO_SPLIT:
        return every, every, every
    classes = [rng.permutation(np.flatnonzero(y == number)) for number in range(int(y.max()) + 1)]
    cuts = [np.split(rows, np.round(np.cumsum(SHARES[:2]) * len(rows)).astype(int)) for rows in classes]
    train, dev, test = (np.sort(np.concatenate(part)) for part in zip(*cuts, strict=True))
    return train, dev, test
