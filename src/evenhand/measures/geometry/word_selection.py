"""The words a measure works on, with their rows both in the measured vectors and in the reference."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, as_float64
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.geometry.bias_score import Pair, Score, leaning, most_biased
from evenhand.models.vectors import Coverage, Vectors
from evenhand.words import Concept, WordSet, as_wordset, wordset

VOCABULARY = "vocabulary"  # as a query: the restricted vocabulary of the measured vectors instead of a list


@dataclass(frozen=True, eq=False)
class Pool:
    """Words that both tables have. `rows` are of the measured vectors, `reference_rows` of those before mitigation."""

    name: str
    words: tuple[str, ...]
    rows: Rows
    reference_rows: Rows
    coverage: Coverage
    sizes: Mapping[str, int] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)
    """How the vocabulary was restricted; empty for a list."""

    def __len__(self) -> int:
        return len(self.words)

    def sample(self, n: int | None, *, seed: int) -> Pool:
        """A seeded draw of n words in their own order, or all; the account of what was asked stays."""
        if n is None or n >= len(self):
            return self
        if n < 1:
            raise UsageError(f"a sample has at least one word, got {n}")
        return self.pick(np.sort(np.random.default_rng(seed).choice(len(self), size=n, replace=False)))

    def pick(self, chosen: Rows) -> Pool:
        """Only the chosen words, in that order."""
        words = tuple(self.words[row] for row in chosen)
        return replace(self, words=words, rows=self.rows[chosen], reference_rows=self.reference_rows[chosen])

    def matrix(self, vectors: Vectors) -> Matrix64:
        """Their rows of the measured vectors, in double precision."""
        return as_float64(vectors.matrix[self.rows])


def pool(
    vectors: Vectors,
    words: WordSet | str | Iterable[str] = VOCABULARY,
    *,
    concept: Concept,
    restriction: Restriction,
    reference: Vectors | None = None,
) -> Pool:
    """The words of a list, or the restricted vocabulary; a word that the reference lacks counts as missing."""
    before = reference or vectors
    if isinstance(words, str) and words == VOCABULARY:
        kept = restricted(vectors, concept, restriction)
        name, sizes, rules = VOCABULARY, kept.sizes, restriction.to_dict(concept)
        rows, coverage = vectors.locate(kept.words, case="exact")
        reference_rows, both = before.locate(kept.words, case="exact")
    else:
        asked = as_wordset(words)
        name, sizes, rules = asked.name, {"asked": len(asked)}, {}
        rows, coverage = vectors.locate(asked)
        reference_rows, both = before.locate(coverage.found)
    there = np.isin(coverage.found, both.found) if both.missing else np.ones(len(rows), dtype=bool)
    account = Coverage(both.found, coverage.missing + both.missing, {**coverage.respelt, **both.respelt})
    return Pool(name, both.found, rows[there], reference_rows, account, {**sizes, "used": len(both.found)}, rules)


NOT_PLAIN = frozenset("NPSZC")  # first letters of Unicode categories: numbers, punctuation, signs, blanks, controls
GENDER_SPECIFIC = "dawkins2021-gender-specific"


@dataclass(frozen=True)
class Restriction:
    """How a vocabulary is cut down: Gonen & Goldberg 2019, as Wang 2020, Ravfogel 2020 and Dawkins 2021 also do it.

    The `first` rows (files are in order of frequency), lower-case, at most `longest` characters, no digits and no
    punctuation (but `_` between plain parts), without the words of `exclude`. That list is by default the union of the
    published gender-specific lists for gender (1,622 words, Dawkins' V_s), and the concept's own for any other.
    """

    first: int = 50_000
    longest: int = 19
    exclude: str | None = None

    def __post_init__(self) -> None:
        if self.first < 1 or self.longest < 1:
            raise UsageError(f"a restriction keeps at least one word of one letter, got {self}")

    def excluded(self, concept: Concept) -> WordSet:
        """The words that are left out because they are rightly about the concept."""
        if self.exclude is not None:
            return wordset(self.exclude)
        return wordset(GENDER_SPECIFIC) if concept.name == "gender" else concept.specific

    def to_dict(self, concept: Concept) -> dict[str, Any]:
        """Plain data for the parameters of a measurement."""
        return {"first": self.first, "longest": self.longest, "exclude": self.excluded(concept).name}


@dataclass(frozen=True)
class Vocabulary:
    """The words that passed, in the order of the file, and how many were left after each step."""

    words: tuple[str, ...]
    sizes: Mapping[str, int]


def restricted(vectors: Vectors, concept: Concept, restriction: Restriction) -> Vocabulary:
    """The restricted vocabulary V_t of these vectors."""
    considered = vectors.words[: restriction.first]
    plain = [word for word in considered if len(word) <= restriction.longest and is_plain(word)]
    about = frozenset(restriction.excluded(concept))
    kept = tuple(word for word in plain if word not in about)
    return Vocabulary(kept, {"considered": len(considered), "plain": len(plain), "kept": len(kept)})


def is_plain(word: str) -> bool:
    """Lower-case letters only, or such parts joined by `_`."""
    if word != word.lower():
        return False
    return all(part.isalpha() or _of_letters(part) for part in word.split("_"))


def _of_letters(part: str) -> bool:
    """Letters with combining marks, which many scripts need and `isalpha` refuses."""
    return bool(part) and all(unicodedata.category(sign)[0] not in NOT_PLAIN for sign in part)


FEWEST = 2  # words a side: one has no cluster and nothing to train on


@dataclass(frozen=True, eq=False)
class Extremes:
    """The chosen words, positive side first; `labels` are 0 for it and 1 for the other; `scores` in the reference."""

    chosen: Pool
    labels: Rows
    scores: Vector64

    @property
    def per_side(self) -> int:
        """How many words each side has: as asked, or half of what there is."""
        return len(self.chosen) // 2

    def to_dict(self) -> dict[str, Any]:
        """How many, and the scores of the least biased words chosen: near 0, these are no extremes."""
        last = [float(self.scores[self.per_side - 1]), float(self.scores[-1])]
        return {"per_side": self.per_side, "least_biased": last, "sizes": dict(self.chosen.sizes)}


def extremes(pool: Pool, before: Vectors, pair: Pair, *, score: Score, per_side: int) -> Extremes:
    """The n words of the pool that lean most to each pole, by their score in the reference."""
    scores = leaning(before, pool.reference_rows, pair, score=score)
    positive, negative = most_biased(scores, per_side)
    if len(positive) < FEWEST:
        raise DegenerateError(f"{pool.name} has {len(pool)} words, which is not enough for two sides")
    both = np.concatenate([positive, negative])
    return Extremes(pool.pick(both), np.repeat([0, 1], len(positive)), scores[both])
