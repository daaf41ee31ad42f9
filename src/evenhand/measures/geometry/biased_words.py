"""The words that a measure of geometry works on: a list or the vocabulary, bias scores, and the most biased words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from evenhand import subspaces
from evenhand.arrays import Matrix64, Rows, Vector64, as_float64, unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.call import Call, ListCoverage
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces import Subspace
from evenhand.words import Concept, WordSet, as_wordset, wordset

BiasScore = Literal["cosine", "projection"]
DirectionSource = Literal["own", "original"]
DirectionFrom = Literal["pairs", "pair"]
PolePair = tuple[str, str]
REST = "rest"


@dataclass(frozen=True)
class Poles:
    """The two ends that a bias score compares: two words, or the positive group against all other groups."""

    concept: str
    names: PolePair
    positive: tuple[str, ...]
    negative: tuple[str, ...]

    @property
    def is_pair(self) -> bool:
        """True when each end is one word."""
        return len(self.positive) == len(self.negative) == 1

    def axis(self, vectors: Vectors, *, normalise: bool) -> Subspace:
        """Return the direction from the negative to the positive end; raise `DegenerateError` where they coincide.

        Two ends that coincide at unit length count as the same even if their lengths differ: a projection that makes
        she and he equal at unit length leaves such a pair, and its difference is only the direction they share.
        """
        if not self.negative:
            raise DegenerateError(f"concept {self.concept!r} has only the group {self.names[0]!r}: nothing to compare")
        at_unit_length = self._learn(vectors, normalise=True)
        return at_unit_length if normalise else self._learn(vectors, normalise=False)

    def _learn(self, vectors: Vectors, *, normalise: bool) -> Subspace:
        if self.is_pair:
            return subspaces.pair(vectors, self.positive[0], self.negative[0], normalise=normalise)
        learned = subspaces.two_means(vectors, self.positive, self.negative, normalise=normalise)
        return replace(learned, poles=self.names)

    def lists(self, vectors: Vectors) -> tuple[ListCoverage, ...]:
        """Return the coverage of both groups; a pair has none, since it needs both of its words."""
        if self.is_pair or not self.negative:
            return ()
        sides = zip(self.names, (self.positive, self.negative), strict=True)
        return tuple(ListCoverage.of_words(f"{self.concept} {name}", vectors.locate(words)[1]) for name, words in sides)

    def to_dict(self) -> dict[str, list[str]]:
        """Return plain data for the parameters of a measurement."""
        return {"pair" if self.is_pair else "poles": list(self.names)}


def concept_poles(concept: Concept, pair: Sequence[str] | None = None) -> Poles:
    """Return the pair as given, or the concept's published pair, or else its positive group against the rest.

    The mean of the positive group is compared with the mean of the words of all other groups together, so that a
    concept may have any number of groups and needs no pairs.
    """
    if pair is not None:
        if isinstance(pair, str) or len(pair) != 2:
            raise UsageError(f"pair must be (positive, negative), got {pair!r}")
        return Poles(concept.name, (pair[0], pair[1]), (pair[0],), (pair[1],))
    if concept.direction is not None and concept.direction.how == "pair":
        first, second = concept.direction.words
        return Poles(concept.name, (first, second), (first,), (second,))
    others = [name for name in concept.groups if name != concept.positive]
    rest = tuple(dict.fromkeys(word for name in others for word in concept.groups[name]))
    names = (concept.positive, others[0] if len(others) == 1 else REST)
    return Poles(concept.name, names, tuple(concept.groups[concept.positive]), rest)


def bias_scores(vectors: Vectors, rows: Rows, poles: Poles, *, score: BiasScore = "cosine") -> Vector64:
    """Return the bias score of each row; above 0 is towards the positive pole.

    Args:
        vectors: the vectors that hold the rows and the poles.
        rows: row numbers.
        poles: the two ends; with groups instead of words, a and b below are the means of their words.
        score: `cosine`: cos(w, a) - cos(w, b), as Gonen & Goldberg 2019 and Wang 2020. `projection`:
            <w, a - b> / |a - b|, as Dawkins 2021. They differ mainly by the length of w: on raw GloVe about a third
            of the most biased words differ.

    Raises:
        DegenerateError: the two poles have the same vector.
        VocabularyError: a word of the pair is missing.
    """
    if score not in get_args(BiasScore):
        raise UsageError(f"unknown bias score {score!r}", hint="use cosine or projection")
    # With unit words, basis * strength is a - b itself, so that one product gives the difference of the two cosines.
    axis = poles.axis(vectors, normalise=score == "cosine")
    matrix = vectors.matrix[rows]
    if score == "projection":
        return np.asarray(as_float64(matrix) @ axis.basis[0])
    return np.asarray(unit_rows(matrix) @ axis.basis[0] * axis.strength[0])


def most_biased(scores: Vector64, per_side: int) -> tuple[Rows, Rows]:
    """Return the indices of the n highest and of the n lowest scores, most extreme first; n is at most half of all.

    Equal scores keep the order of the words, so that the choice does not depend on the sorting routine.
    """
    if per_side < 1:
        raise UsageError(f"per_side must be at least 1, got {per_side}")
    n = min(per_side, len(scores) // 2)
    return np.argsort(-scores, kind="stable")[:n], np.argsort(scores, kind="stable")[:n]


def concept_direction(vectors: Vectors, concept: Concept, *, how: DirectionFrom = "pairs") -> Subspace:
    """Return the direction of a concept: by default Bolukbasi's g, the first principal direction of its pairs.

    Words have unit length. `how="pair"` takes the one published pair instead. A concept without pairs gets the
    direction of its own recipe, or that between the means of its positive group and of the rest.
    """
    if how not in get_args(DirectionFrom):
        raise UsageError(f"unknown way to learn the direction {how!r}", hint="use pairs or pair")
    if how == "pair":
        poles = concept_poles(concept)
        axis = poles.axis(vectors, normalise=True)
        chosen = "published" if poles.is_pair else "no published pair: the positive group against the rest"
        return replace(axis, params={**axis.params, "concept": concept.name, "chosen": chosen})
    if len(concept.pairs):
        return subspaces.learn(vectors, concept, "pairs", k=1, normalise=True)
    if concept.direction is None and len(concept.groups) < 2:
        raise DegenerateError(f"concept {concept.name!r} has neither pairs nor a second group")
    return subspaces.learn(vectors, concept)


def direction_lists(vectors: Vectors, concept: Concept, *, how: DirectionFrom = "pairs") -> tuple[ListCoverage, ...]:
    """Return the coverage of the words that `concept_direction` learns from."""
    if how == "pair" or not len(concept.pairs):
        return concept_poles(concept).lists(vectors)
    return (ListCoverage.of_pairs(vectors, concept.pairs),)


def given_or_learned(
    call: Call,
    subspace: Subspace | None,
    source: Vectors,
    concept: Concept,
    *,
    how: DirectionFrom,
    lists: Iterable[ListCoverage],
    min_share: float,
) -> Subspace:
    """Return the given direction, or that of the concept, once these lists, and what it learns from, are covered."""
    call.require((*lists, *(() if subspace else direction_lists(source, concept, how=how))), min_share)
    return subspace or concept_direction(source, concept, how=how)


def direction_source(vectors: Vectors, reference: Vectors | None, direction: DirectionSource) -> Vectors:
    """Return the vectors that a direction is learned on: the measured ones, or those before mitigation."""
    if direction not in get_args(DirectionSource):
        raise UsageError(f"unknown direction {direction!r}", hint="use own or original")
    if direction == "own" or reference is None:
        return vectors
    if reference.dim != vectors.dim:
        raise UsageError(
            f"the original direction has {reference.dim} dimensions, {vectors.name} has {vectors.dim}",
            hint="use direction='own'",
        )
    return reference


def describe_direction(subspace: Subspace) -> dict[str, object]:
    """Return what a measurement records of the direction it used."""
    keys = ("normalise", "centre", "pairs_used", "positive", "negative", "chosen")
    recorded = {key: subspace.params[key] for key in keys if key in subspace.params}
    return {"learned": subspace.how, "dimensions": subspace.k, **recorded}


VOCABULARY = "vocabulary"  # as a query: the restricted vocabulary of the measured vectors instead of a list
NOT_PLAIN = frozenset("NPSZC")  # first letters of Unicode categories: numbers, punctuation, symbols, blanks, controls
GENDER_SPECIFIC = "bolukbasi2016-gender-specific"
BOTH_GENDER_SPECIFIC = "dawkins2021-gender-specific"  # the list above together with that of Zhao et al.
NOTHING = ""  # as `exclude`: leave no word out
FEWEST = 2  # words a side: one word has no cluster and leaves nothing to test a classifier on
WordSource = WordSet | str | Iterable[str]


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


@dataclass(frozen=True, eq=False)
class RestrictedVocabulary:
    """The words that remain, in the order of the file, with their rows, and how many remained after each step."""

    words: tuple[str, ...]
    rows: Rows
    sizes: Mapping[str, int]


def restrict_vocabulary(vectors: Vectors, concept: Concept, restriction: Restriction) -> RestrictedVocabulary:
    """Return the restricted vocabulary V_t of these vectors."""
    considered = vectors.words[: restriction.first]
    plain = _plain_rows(considered, restriction.longest)
    # A specific list matches by its own case; the words of a concept's groups are looked up like any others.
    own_case = restriction.exclude is not None or len(concept.specific) > 0
    excluded, _ = vectors.locate(restriction.excluded(concept), own_case=own_case)
    rows = plain[~np.isin(plain, excluded)]
    sizes = {"considered": len(considered), "plain": len(plain), "kept": len(rows)}
    return RestrictedVocabulary(tuple(considered[row] for row in rows.tolist()), rows, sizes)


@lru_cache(maxsize=4)
def _plain_rows(words: tuple[str, ...], longest: int) -> Rows:
    """Return the rows of plain words; every measure and every stage of an audit asks for those of one vocabulary."""
    plain = [row for row, word in enumerate(words) if len(word) <= longest and is_plain(word)]
    return np.array(plain, dtype=np.int64)


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
    words: WordSource = VOCABULARY,
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
        rows, coverage = vocabulary.rows, Coverage(vocabulary.words)
        same = original.words is vectors.words
        reference_rows, both = (rows, coverage) if same else original.locate(vocabulary.words, case="exact")
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
    selection: WordSelection, reference: Vectors, poles: Poles, *, score: BiasScore, per_side: int
) -> BiasedWords:
    """Return the n words nearest to each pole, by their bias score in the reference."""
    scores = bias_scores(reference, selection.reference_rows, poles, score=score)
    positive, negative = most_biased(scores, per_side)
    if len(positive) < FEWEST:
        raise DegenerateError(f"{selection.name} has {len(selection)} words, not enough for two sides")
    both = np.concatenate([positive, negative])
    return BiasedWords(selection.pick(both), np.repeat([0, 1], len(positive)), scores[both])
