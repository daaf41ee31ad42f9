"""The words a geometry measure works on, with their rows in the measured vectors and in the reference."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, as_float64
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.call import ListCoverage
from evenhand.measures.geometry.bias_score import Poles, Score, bias_scores, most_biased
from evenhand.models.vectors import Coverage, Vectors
from evenhand.words import Concept, WordSet, as_wordset, wordset

VOCABULARY = "vocabulary"  # as a query: the restricted vocabulary of the measured vectors instead of a list
NOT_PLAIN = frozenset("NPSZC")  # first letters of Unicode categories: numbers, punctuation, symbols, blanks, controls
GENDER_SPECIFIC = "bolukbasi2016-gender-specific"
BOTH_GENDER_SPECIFIC = "dawkins2021-gender-specific"  # the list above together with that of Zhao et al.
NOTHING = ""  # as `exclude`: leave no word out
FEWEST = 2  # words a side: one word has no cluster and leaves nothing to test a classifier on
Words = WordSet | str | Iterable[str]


@dataclass(frozen=True)
class Restriction:
    """How a vocabulary is cut down: Gonen & Goldberg 2019, followed by Wang 2020, Ravfogel 2020 and Dawkins 2021.

    Args:
        first: number of rows to consider; files are in order of frequency.
        longest: most characters of a word. Words are lower-case, without digits and punctuation (`_` may join parts).
        exclude: id or file of a word set to leave out, "" for none. By default the concept's `specific` list, or the
            words of its groups, pairs and names where it has none. The `specific` list of the shipped concept gender
            is extended to the union of both published lists (1,622 words, the V_s of Dawkins 2021).
    """

    first: int = 50_000
    longest: int = 19
    exclude: str | None = None

    def __post_init__(self) -> None:
        if self.first < 1 or self.longest < 1:
            raise UsageError(f"a restriction must keep at least one word of one letter, got {self}")

    def excluded(self, concept: Concept) -> WordSet:
        """Return the words to leave out because they are about the concept by their meaning."""
        if self.exclude is not None:
            return wordset(self.exclude) if self.exclude else WordSet("none", ())
        if concept.specific.words == wordset(GENDER_SPECIFIC).words:
            return wordset(BOTH_GENDER_SPECIFIC)
        return concept.specific if len(concept.specific) else concept_words(concept)

    def to_dict(self, concept: Concept) -> dict[str, int | str]:
        """Return plain data for the parameters of a measurement."""
        return {"first": self.first, "longest": self.longest, "exclude": self.excluded(concept).name}


def concept_words(concept: Concept) -> WordSet:
    """Return every word of the concept's groups, pairs and names, once."""
    words = [word for group in (*concept.groups.values(), *concept.names.values()) for word in group]
    return WordSet(f"{concept.name} words", tuple(dict.fromkeys([*words, *concept.pairs.first, *concept.pairs.second])))


@dataclass(frozen=True)
class RestrictedVocabulary:
    """The words that remain, in the order of the file, and how many remained after each step."""

    words: tuple[str, ...]
    sizes: Mapping[str, int]


def restrict_vocabulary(vectors: Vectors, concept: Concept, restriction: Restriction) -> RestrictedVocabulary:
    """Return the restricted vocabulary V_t of these vectors."""
    considered = vectors.words[: restriction.first]
    plain = _plain_words(tuple(considered), restriction.longest)
    # A specific list matches by its own case; the words of a concept's groups are looked up like any others.
    own_case = restriction.exclude is not None or len(concept.specific) > 0
    rows, _ = vectors.locate(restriction.excluded(concept), own_case=own_case)
    excluded = frozenset(vectors.words[row] for row in rows.tolist())
    remaining = tuple(word for word in plain if word not in excluded)
    sizes = {"considered": len(considered), "plain": len(plain), "kept": len(remaining)}
    return RestrictedVocabulary(remaining, sizes)


@lru_cache(maxsize=4)
def _plain_words(words: tuple[str, ...], longest: int) -> tuple[str, ...]:
    """Return the plain words of a vocabulary; every measure and every stage of an audit asks for those of the same."""
    return tuple(word for word in words if len(word) <= longest and is_plain(word))


def is_plain(word: str) -> bool:
    """Return True for lower-case letters only, or such parts joined by `_`."""
    if word != word.lower():
        return False
    return all(part.isalpha() or _has_only_letters(part) for part in word.split("_"))


def _has_only_letters(part: str) -> bool:
    """Accept letters with combining marks, which many scripts need and `isalpha` rejects."""
    return bool(part) and all(unicodedata.category(character)[0] not in NOT_PLAIN for character in part)


@dataclass(frozen=True, eq=False)
class WordSelection:
    """Words that both tables have. `rows` are of the measured vectors, `reference_rows` of those before mitigation."""

    name: str
    words: tuple[str, ...]
    rows: Rows
    reference_rows: Rows
    coverage: Coverage
    sizes: Mapping[str, int] = field(default_factory=dict)
    restriction: Mapping[str, object] = field(default_factory=dict)
    """How the vocabulary was restricted; empty for a list."""

    def __len__(self) -> int:
        return len(self.words)

    def lists(self) -> tuple[ListCoverage, ...]:
        """Return the selection as a list under the coverage rule; a vocabulary counts as covered by itself."""
        total = len(self) if self.name == VOCABULARY else self.coverage.asked
        return (ListCoverage(self.name, len(self), total),)

    def sample(self, n: int | None, *, seed: int) -> WordSelection:
        """Draw n words with the seed, in their own order, or return all; the coverage stays that of the whole list."""
        if n is None or n >= len(self):
            return self
        if n < 1:
            raise UsageError(f"a sample must have at least one word, got {n}")
        return self.pick(np.sort(np.random.default_rng(seed).choice(len(self), size=n, replace=False)))

    def pick(self, indices: Rows) -> WordSelection:
        """Return only the words at these indices, in that order."""
        words = tuple(self.words[index] for index in indices)
        return replace(self, words=words, rows=self.rows[indices], reference_rows=self.reference_rows[indices])

    def matrix(self, vectors: Vectors) -> Matrix64:
        """Return their rows of the measured vectors, in double precision."""
        return as_float64(vectors.matrix[self.rows])


def select_words(
    vectors: Vectors,
    words: Words = VOCABULARY,
    *,
    concept: Concept,
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
) -> WordSelection:
    """Return the words of a list, or the restricted vocabulary; a word that the reference lacks counts as missing."""
    original = reference or vectors
    if isinstance(words, str) and words == VOCABULARY:
        rules = restriction or Restriction()
        vocabulary = restrict_vocabulary(vectors, concept, rules)
        name, sizes, recorded = VOCABULARY, vocabulary.sizes, rules.to_dict(concept)
        rows, coverage = vectors.locate(vocabulary.words, case="exact")
        reference_rows, both = original.locate(vocabulary.words, case="exact")
    else:
        listed = as_wordset(words)
        name, sizes, recorded = listed.name, {"asked": len(listed)}, {}
        rows, coverage = vectors.locate(listed)
        reference_rows, both = original.locate(coverage.found)
    in_both = np.isin(coverage.found, both.found) if both.missing else np.ones(len(rows), dtype=bool)
    combined = Coverage(both.found, coverage.missing + both.missing, {**coverage.respelt, **both.respelt})
    sizes = {**sizes, "used": len(both.found)}
    return WordSelection(name, both.found, rows[in_both], reference_rows, combined, sizes, recorded)


@dataclass(frozen=True, eq=False)
class BiasedWords:
    """The most biased words, positive side first, with `labels` 0 and 1 and the `scores` of the reference."""

    selection: WordSelection
    labels: Rows
    scores: Vector64

    @property
    def per_side(self) -> int:
        """Number of words on each side: as requested, or half of the selection."""
        return len(self.selection) // 2

    def to_dict(self) -> dict[str, object]:
        """Return the sizes, and the scores of the least biased words chosen: near 0, these are not extreme."""
        last = [float(self.scores[self.per_side - 1]), float(self.scores[-1])]
        return {"per_side": self.per_side, "least_biased": last, "sizes": dict(self.selection.sizes)}


def select_most_biased(
    selection: WordSelection, reference: Vectors, poles: Poles, *, score: Score, per_side: int
) -> BiasedWords:
    """Return the n words nearest to each pole, by their bias score in the reference."""
    scores = bias_scores(reference, selection.reference_rows, poles, score=score)
    positive, negative = most_biased(scores, per_side)
    if len(positive) < FEWEST:
        raise DegenerateError(f"{selection.name} has {len(selection)} words, not enough for two sides")
    both = np.concatenate([positive, negative])
    return BiasedWords(selection.pick(both), np.repeat([0, 1], len(positive)), scores[both])
