"""Compare genderedness in a text with genderedness in vectors trained on it (Ethayarajh et al. 2019, section 6.2)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np

from evenhand.arrays import Matrix64, Vector64, unit_rows
from evenhand.corpus import Cooccurrence, genderedness
from evenhand.corpus.genderedness import Constants, by_chance, fit_constants
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.models.vectors import Vectors
from evenhand.stats import percentile_interval
from evenhand.words import Pairs
from evenhand.words import pairs as named_pairs

MIN_DISTANCE = 1e-3  # of a pair, relative to the vector length; below it the pair defines no direction


@dataclass(frozen=True)
class GenderednessSettings:
    """Settings of the comparison; the lists are those named in the paper, or substitutes."""

    pairs: Pairs | str = "ethayarajh2019-pairs"
    appropriate: Pairs | str = "ethayarajh2019-appropriate-standin"
    biased: Pairs | str = "ethayarajh2019-biased-standin"
    alpha: float | None = None
    """None: fitted to the pairs, as in the paper for its own vectors (-1)."""
    lambda_: float | None = 1.0
    """None: fitted together with alpha."""
    neutral: int = 200
    """Number of words in the third group, drawn at random from those with a value."""
    frequent: int = 100
    """Minimum occurrences of a neutral word; 10,000 in the paper, whose text is some hundred times larger."""
    min_pairs: int = 3
    """Minimum number of pairs that are defined for a word in the text."""
    least: float = 0.0
    """Minimum co-occurrence of a word with both words of a pair."""
    defining: bool = False
    """Include the words of the pairs in the appropriate group, although they lie on the axis by construction."""
    same_pairs: bool = True
    """Average the vectors' values over the pairs defined in the text; otherwise over all pairs."""

    def __post_init__(self) -> None:
        if self.neutral < 1 or self.min_pairs < 1:
            raise UsageError(f"neutral and min_pairs must be at least 1, got {self.neutral} and {self.min_pairs}")


class GroupSummary(TypedDict):
    """Means over the words of a group; None if it has fewer than two words."""

    corpus: float | None
    embedding: float | None
    change: float | None
    interval: tuple[float, float] | None
    t_test: float | None
    wilcoxon: float | None
    correlation: float | None


@dataclass(frozen=True, eq=False)
class GenderednessGroup:
    """Words of one group with both values; male is above 0, as in the table. `lost` gives the reason for the others."""

    name: str
    words: tuple[str, ...]
    corpus: Vector64
    embedding: Vector64
    lost: Mapping[str, str] = field(default_factory=dict)
    chance: float | None = None

    @property
    def change(self) -> Vector64:
        """Return |embedding| - |corpus| of each word."""
        return np.abs(self.embedding) - np.abs(self.corpus)

    def summary(self, seed: int = 0) -> GroupSummary:
        """Return the means of the absolute values, the mean change with its interval over words, and two tests."""
        if len(self.words) < 2:
            return GroupSummary(
                corpus=None,
                embedding=None,
                change=None,
                interval=None,
                t_test=None,
                wilcoxon=None,
                correlation=None,
            )
        change = self.change
        from scipy.stats import ttest_1samp, wilcoxon

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # scipy 1.13 warns of ten values or fewer with ties
            signed_rank_p = float(wilcoxon(change).pvalue)
        return {
            "corpus": float(np.abs(self.corpus).mean()),
            "embedding": float(np.abs(self.embedding).mean()),
            "change": float(change.mean()),
            "interval": percentile_interval(lambda rows: change[rows].mean(axis=1), len(change), seed=seed),
            "t_test": float(ttest_1samp(change, 0.0).pvalue),
            "wilcoxon": signed_rank_p,
            "correlation": float(np.corrcoef(self.corpus, self.embedding)[0, 1]),
        }

    def values(self, word: str) -> tuple[float, float, float] | None:
        """Return text, vectors and change of one word, or None if it has no value."""
        if word not in self.words:
            return None
        row = self.words.index(word)
        return float(self.corpus[row]), float(self.embedding[row]), float(self.change[row])


@dataclass(frozen=True, eq=False)
class GenderednessComparison:
    """The groups, the constants, and the pairs found in the text and in the vectors."""

    groups: Mapping[str, GenderednessGroup]
    constants: Constants
    pairs: tuple[tuple[str, str], ...]


def compare(
    counts: Cooccurrence,
    vectors: Vectors,
    *,
    settings: GenderednessSettings | None = None,
    extra: Mapping[str, tuple[str, ...]] | None = None,
    seed: int = 0,
) -> GenderednessComparison:
    """Return both values of every word of the three groups, and of `extra` groups.

    g = <w, x - y> / |x - y| in the vectors and equation 7 in the text, averaged over the pairs, male word first.
    """
    settings = settings or GenderednessSettings()
    pairs = usable_pairs(counts, vectors, named_pairs(settings.pairs))
    constants = estimate_constants(counts, vectors, pairs, alpha=settings.alpha, lambda_=settings.lambda_)
    both = _Both(counts, vectors, pairs, constants, settings)
    groups = {
        name: both.group(name, words, seed) for name, words in {**listed_words(settings), **(extra or {})}.items()
    }
    neutral = neutral_words(counts, vectors, pairs, settings, constants, seed)
    groups["neutral"] = both.group("neutral", neutral, seed)
    return GenderednessComparison(groups, constants, pairs.pairs)


def usable_pairs(counts: Cooccurrence, vectors: Vectors, pairs: Pairs) -> Pairs:
    """Return the pairs, male first, that co-occur in the text and are distinct in the vectors."""
    usable = []
    for male, female in dict.fromkeys(pairs.flipped()):
        known = all(word in counts.index and word in vectors for word in (male, female))
        if known and counts.count(male, female) > 0 and _distance(vectors, male, female) > 0:
            usable.append((male, female))
    if not usable:
        raise VocabularyError(f"no pair of {pairs.name} is in the counts and in {vectors.name}", hint="give more text")
    return Pairs(pairs.name, usable, pairs.flipped().poles)


def estimate_constants(
    counts: Cooccurrence, vectors: Vectors, pairs: Pairs, *, alpha: float | None = None, lambda_: float | None = 1.0
) -> Constants:
    """Return alpha and lambda as passed, or fitted to the pairs where None."""
    cspmi = np.array([counts.cspmi(*two) for two in pairs])
    distances = np.array([_distance(vectors, *two) for two in pairs])
    if alpha is None:
        return fit_constants(cspmi, distances, lambda_=lambda_)
    room = np.maximum(alpha - cspmi, 0)
    slope = 1 / np.sqrt(lambda_) if lambda_ else (distances @ np.sqrt(room)) / room.sum()
    error = np.sqrt(((distances - slope * np.sqrt(room)) ** 2).mean())
    return Constants(float(alpha), float(slope**-2), float(error), len(cspmi))


def listed_words(settings: GenderednessSettings) -> dict[str, tuple[str, ...]]:
    """Return the words of the two lists; a word of both counts as appropriate."""
    appropriate, biased = (_words(pairs) for pairs in (settings.appropriate, settings.biased))
    excluded = () if settings.defining else _words(settings.pairs)
    return {
        "appropriate": tuple(word for word in appropriate if word not in excluded),
        "biased": tuple(word for word in biased if word not in appropriate),
    }


def neutral_words(
    counts: Cooccurrence,
    vectors: Vectors,
    pairs: Pairs,
    settings: GenderednessSettings,
    constants: Constants,
    seed: int,
) -> tuple[str, ...]:
    """Return random frequent alphabetic words that are on no list and have enough defined pairs."""
    excluded = {*_words(settings.pairs), *_words(settings.appropriate), *_words(settings.biased)}
    frequent = [word for word, n in zip(counts.words, counts.occurrences, strict=True) if n >= settings.frequent]
    pool = [word for word in frequent if word not in excluded and word in vectors and word.isalpha()]
    if not pool:
        raise DegenerateError(f"no neutral word occurs {settings.frequent} times in the text", hint="lower frequent")
    neutral: list[str] = []
    for row in np.random.default_rng(seed).permutation(len(pool)):
        (one,) = genderedness(
            counts,
            pool[row],
            pairs=pairs,
            alpha=constants.alpha,
            lambda_=constants.lambda_,
            min_pairs=settings.min_pairs,
            least=settings.least,
        )
        neutral += [one.word] if one.value is not None else []
        if len(neutral) == settings.neutral:
            break
    return tuple(neutral)


@dataclass(frozen=True, eq=False)
class _Both:
    """The text, the vectors, and the settings of their comparison."""

    counts: Cooccurrence
    vectors: Vectors
    pairs: Pairs
    constants: Constants
    settings: GenderednessSettings

    def group(self, name: str, words: tuple[str, ...], seed: int) -> GenderednessGroup:
        """Return both values of each word that has them."""
        known = [word for word in words if word in self.counts.index and word in self.vectors]
        constants, settings = self.constants, self.settings
        scores = genderedness(
            self.counts,
            known,
            pairs=self.pairs,
            alpha=constants.alpha,
            lambda_=constants.lambda_,
            min_pairs=settings.min_pairs,
            least=settings.least,
        )
        defined = [one for one in scores if one.value is not None]
        lost = {word: "too rare" for word in words if word not in known}
        lost |= {one.word: f"{len(one.by_pair)} pairs defined" for one in scores if one.value is None}
        names = tuple(one.word for one in defined)
        if not defined:
            return GenderednessGroup(name, (), np.empty(0), np.empty(0), lost)
        used = np.array([[two in one.by_pair or not settings.same_pairs for two in self.pairs] for one in defined])
        values = projections(self.vectors, names, self.pairs)
        embedding = (values * used).sum(axis=1) / used.sum(axis=1)
        corpus = np.array([one.value for one in defined], dtype=np.float64)
        chance = by_chance(
            self.counts,
            names,
            pairs=self.pairs,
            alpha=constants.alpha,
            lambda_=constants.lambda_,
            least=settings.least,
            seed=seed,
        )
        return GenderednessGroup(name, names, corpus, embedding, lost, chance)


def projections(vectors: Vectors, words: Iterable[str], pairs: Pairs) -> Matrix64:
    """Return <w, x - y> / |x - y| for each word and pair: (words, pairs)."""
    first, second = (vectors.take(side, case="exact")[0] for side in (pairs.first, pairs.second))
    rows, _ = vectors.take(words, case="exact")
    return np.asarray(rows @ unit_rows(first - second).T)


def _distance(vectors: Vectors, one: str, other: str) -> float:
    a, b = (vectors[word].astype(np.float64) for word in (one, other))
    distance = float(np.linalg.norm(a - b))
    return distance if distance > MIN_DISTANCE * float(np.linalg.norm(b)) else 0.0


def _words(pairs: Pairs | str) -> dict[str, None]:
    return dict.fromkeys(word for two in named_pairs(pairs) for word in two)
