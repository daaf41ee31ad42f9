"""Labelled words for methods that learn from a classifier: the most biased of each side, or a concept's own lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows, as_float64, row_norms
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.erasure.linear_svm import train
from evenhand.mitigations.maps import VectorMap
from evenhand.mitigations.method import Mitigation
from evenhand.mitigations.requirements import require_direction, require_groups, require_names
from evenhand.mitigations.selection import Selector
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces import learn
from evenhand.subspaces.lookup import listed, word_rows

if TYPE_CHECKING:
    from evenhand.words import Concept, Recipe

NEUTRAL = "neutral"
SHARES = (0.49, 0.21, 0.30)  # training, development, test: Ravfogel et al. 2020
FEWEST_TO_SPLIT = 20  # words of a class; below, nothing is held out
FEWEST_NEUTRAL = 0.1  # of the size of the other classes: a class of a few words says nothing
PLAIN = re.compile(r"(?=.{1,19}$)[^\W\d_]+(_[^\W\d_]+)*")  # no digits, no punctuation, below 20 letters
ROWS_AT_ONCE = 50_000


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows of the vectors with a class each, in three parts: training, development and test."""

    rows: Rows
    y: Rows
    classes: tuple[str, ...]
    parts: tuple[Rows, Rows, Rows]
    """Indices into `rows`; all three are everything where a class is too small to hold words out."""
    coverage: Coverage
    params: Mapping[str, Any]

    @property
    def majority(self) -> float:
        """Share of the largest class in the test part: what guessing reaches."""
        counts = np.bincount(self.y[self.parts[2]])
        return float(counts.max() / counts.sum())

    def matrix(self, v: Vectors) -> Matrix64:
        """The vectors of these words."""
        return v.matrix[self.rows].astype(np.float64)

    def accuracy(self, x: Matrix) -> float:
        """Test accuracy of a linear classifier with intercept on these vectors: what can still be read off them."""
        fit, _, test = self.parts
        wide = as_float64(x)
        return train(wide[fit], self.y[fit], intercept=True).accuracy(wide[test], self.y[test])

    def report(self, x: Matrix64, vm: VectorMap) -> dict[str, Any]:
        """The labels used, and what a fresh linear classifier finds before and after the map."""
        sizes = dict(zip(self.classes, np.bincount(self.y).tolist(), strict=True))
        before, after = self.accuracy(x), self.accuracy(vm(x))
        held_out = len(self.parts[2]) < len(self.y)
        found = {"accuracy_before": before, "accuracy_after": after, "majority": self.majority, "held_out": held_out}
        return {"labels": {**self.params, "sizes": sizes}, **found}


@dataclass(frozen=True)
class FromLabels(Mitigation):
    """The options that choose the labelled words, common to INLP, LEACE and R-LACE."""

    labels: Literal["biased", "groups", "names"] = "biased"
    """The words most biased along the concept's direction and neutral ones, or the concept's own lists as classes."""
    per_class: int = 7500
    """Biased words of each class, at most; never more than an equal share of the words there are."""
    neutral: int = 7500
    """Neutral words, at most; 0 leaves that class out."""
    neutral_below: float = 0.03
    """A word is neutral when no |cosine| with a direction of the concept reaches this."""
    vocabulary: int = 150_000
    """Only the first so many words are looked at."""
    direction: Recipe | str | None = None
    """How the direction of a concept of two groups is learned; None: as published, from raw vectors."""
    words: Selector | None = None
    """Which words stay as they are (see `selection`); None: every word is mapped."""
    seed: int = 0

    def _check(self, concept: Concept) -> None:
        if self.labels not in ("biased", "groups", "names"):
            raise UsageError(f"unknown choice of labels {self.labels!r}", hint="use biased, groups or names")
        if self.labels == "names":
            require_names(concept, f"{self.id} with labels='names'")
            return
        require_groups(concept, self.id)
        if self.labels == "biased" and len(concept.groups) == 2:
            require_direction(concept, self.id, self.direction)
        elif self.labels == "biased" and self.direction is not None:
            raise UsageError(
                f"concept {concept.name!r} has {len(concept.groups)} groups: each takes its own direction",
                hint="leave direction out",
            )

    def _labelled(self, v: Vectors, concept: Concept) -> Labelled:
        if self.labels != "biased":
            return by_lists(v, getattr(concept, self.labels), what=f"{self.labels} of {concept.name!r}", seed=self.seed)
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
    spared: Iterable[str] = (),
    seed: int = 0,
) -> Labelled:
    """The ordinary words that lean most to each group of the concept, and some that lean to none.

    `spared` words are not chosen. A neutral class much smaller than the others is left out.
    """
    if per_class < 1 or neutral < 0 or vocabulary < 1:
        raise UsageError("per_class and vocabulary are at least 1, neutral at least 0")
    directions, names, coverage, how = poles(v, concept, direction)
    rows = np.setdiff1d(plain_rows(v, vocabulary), v.locate(spared)[0])
    cosines = _cosines(v, rows, directions)
    size = min(per_class, len(rows) // (len(names) + 1))
    chosen = [rows[some] for some in _most(cosines, size)]
    free = np.setdiff1d(rows[(np.abs(cosines) < neutral_below).all(axis=1)], np.concatenate(chosen))
    drawn = np.random.default_rng(seed).permutation(free)[: min(neutral, len(rows) // (len(names) + 1))]
    if len(drawn) > FEWEST_NEUTRAL * size:
        chosen, names = [*chosen, np.sort(drawn)], (*names, NEUTRAL)
    return _labelled(chosen, names, coverage, {"words": "biased", "direction": how}, seed)


def by_lists(v: Vectors, lists: Mapping[str, Sequence[str]], *, what: str, seed: int = 0) -> Labelled:
    """One class for each list; a word in two of them has no label, and is an error."""
    found = {name: v.locate(words) for name, words in lists.items()}
    coverage = sum((each for _, each in found.values()), Coverage(()))
    chosen = {name: np.unique(rows) for name, (rows, _) in found.items() if len(rows)}
    if len(chosen) < 2:
        lost = listed(coverage.missing) or "nothing is missing"
        raise DegenerateError(
            f"{what}: {len(chosen)} classes with words in {v.name}, and it takes two to tell apart",
            hint=f"missing: {lost}",
        )
    every = np.concatenate(list(chosen.values()))
    twice = [v.words[int(row)] for row, count in zip(*np.unique(every, return_counts=True), strict=True) if count > 1]
    if twice:
        raise UsageError(f"{what}: words in more than one class: {listed(twice)}", hint="take them out of one")
    params = {"words": what, "classes_lost": [name for name in lists if name not in chosen]}
    return _labelled(list(chosen.values()), tuple(chosen), coverage, params, seed)


def poles(
    v: Vectors, concept: Concept, recipe: Recipe | str | None
) -> tuple[Matrix64, tuple[str, ...], Coverage, dict[str, Any]]:
    """A direction for each group: both ends of the concept's own where there are two, mean less mean of means else."""
    others = tuple(name for name in concept.groups if name != concept.positive)
    if len(others) == 1:
        learned = learn(v, concept, recipe, k=1, normalise=False if recipe is None else None).first(1)
        ends = np.vstack([learned.basis, -learned.basis])
        return ends, (concept.positive, *others), learned.coverage, {"how": learned.how, **learned.params}
    if not others:
        raise UsageError(
            f"concept {concept.name!r} has one group, and it takes two to tell apart",
            hint='give it groups={"a": [...], "b": [...]}',
        )
    if recipe is not None:
        raise UsageError(f"concept {concept.name!r} has {len(others) + 1} groups: each takes its own direction")
    found = {name: word_rows(v, words, what=f"the group {name!r}") for name, words in concept.groups.items()}
    means = np.array([rows.mean(axis=0) for rows, _ in found.values()])
    coverage = sum((each for _, each in found.values()), Coverage(()))
    return means - means.mean(axis=0), tuple(found), coverage, {"how": "group means", "concept": concept.name}


def plain_rows(v: Vectors, first: int) -> Rows:
    """Rows of the ordinary words among the first so many: no digits, no punctuation, shorter than 20 letters."""
    return np.array([row for row, word in enumerate(v.words[:first]) if PLAIN.fullmatch(word)], dtype=np.int64)


def _cosines(v: Vectors, rows: Rows, directions: Matrix64) -> Matrix64:
    unit = directions / np.maximum(row_norms(directions), np.finfo(np.float64).tiny)[:, None]
    cosines = np.zeros((len(rows), len(unit)))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = v.matrix[rows[start : start + ROWS_AT_ONCE]].astype(np.float64)
        lengths = row_norms(some)[:, None]
        np.divide(some @ unit.T, lengths, out=cosines[start : start + len(some)], where=lengths > 0)
    return cosines


def _most(cosines: Matrix64, size: int) -> list[Rows]:
    """For each direction the words that lean to it most, among those that lean to it more than to any other."""
    nearest = np.where(cosines.max(axis=1) > 0, np.argmax(cosines, axis=1), -1)
    ranked = [np.argsort(-column, kind="stable") for column in cosines.T]
    return [np.sort(order[nearest[order] == pole][:size]) for pole, order in enumerate(ranked)]


def _labelled(
    chosen: list[Rows], names: tuple[str, ...], coverage: Coverage, params: Mapping[str, Any], seed: int
) -> Labelled:
    if min(len(some) for some in chosen) == 0:
        empty = [name for name, some in zip(names, chosen, strict=True) if not len(some)]
        raise DegenerateError(f"no word leans to {', '.join(empty)}", hint="more words, or labels='groups'")
    y = np.repeat(np.arange(len(chosen), dtype=np.int64), [len(some) for some in chosen])
    return Labelled(np.concatenate(chosen), y, names, _split(y, seed), coverage, params)


def _split(y: Rows, seed: int) -> tuple[Rows, Rows, Rows]:
    """Each class shuffled and cut alike, so that every part has the same mixture."""
    every, rng = np.arange(len(y)), np.random.default_rng(seed)
    if np.bincount(y).min() < FEWEST_TO_SPLIT:
        return every, every, every
    classes = [rng.permutation(np.flatnonzero(y == one)) for one in range(int(y.max()) + 1)]
    cuts = [np.split(some, np.round(np.cumsum(SHARES[:2]) * len(some)).astype(int)) for some in classes]
    train, dev, test = (np.sort(np.concatenate(part)) for part in zip(*cuts, strict=True))
    return train, dev, test
