"""Genderedness of words in a text beside that in vectors trained on it (Ethayarajh et al. 2019, section 6.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Vector64, unit_rows
from evenhand.corpus import Cooccurrence, genderedness
from evenhand.corpus.cooccurrence.cspmi_fit import Constants, fit_constants
from evenhand.corpus.cooccurrence.genderedness import by_chance
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.models.vectors import Vectors
from evenhand.stats import percentile_interval
from evenhand.words import Pairs
from evenhand.words import pairs as named_pairs

APART = 1e-3  # of a pair, as a share of its length: below, there is no direction between the two


@dataclass(frozen=True)
class Setting:
    """The choices of the comparison; lists are those the paper names or stand-ins for them."""

    pairs: Pairs | str = "ethayarajh2019-pairs"
    appropriate: Pairs | str = "ethayarajh2019-appropriate-standin"
    biased: Pairs | str = "ethayarajh2019-biased-standin"
    alpha: float | None = None
    """None: fitted to the pairs, as the paper did for its own vectors (it found -1)."""
    lambda_: float | None = 1.0
    """None: fitted together with alpha."""
    neutral: int = 200
    """Words for the third group, drawn at random among those that have a value."""
    frequent: int = 100
    """Occurrences that a neutral word needs; the paper has 10,000 in a text some hundred times larger."""
    min_pairs: int = 3
    """Pairs that must be defined for a word in the text."""
    least: float = 0.0
    """Company that a word needs with both words of a pair."""
    defining: bool = False
    """Whether words of the pairs themselves are among the appropriate ones: they lie on the axis by construction."""
    same_pairs: bool = True
    """Average the vectors' values over the pairs that the text defines; otherwise over all pairs."""

    def __post_init__(self) -> None:
        if self.neutral < 1 or self.min_pairs < 1:
            raise UsageError(f"neutral and min_pairs start at 1, got {self.neutral} and {self.min_pairs}")


@dataclass(frozen=True, eq=False)
class Group:
    """Words of one kind with both values; male is above 0, as in the table. `lost` names the others and why."""

    name: str
    words: tuple[str, ...]
    corpus: Vector64
    embedding: Vector64
    lost: Mapping[str, str] = field(default_factory=dict)
    chance: float | None = None

    @property
    def change(self) -> Vector64:
        """|embedding| - |corpus| of each word."""
        return np.abs(self.embedding) - np.abs(self.corpus)

    def summary(self, seed: int = 0) -> dict[str, Any]:
        """Means of the absolute values, the mean change with its interval over words, and two tests of it."""
        if len(self.words) < 2:
            return dict.fromkeys(("corpus", "embedding", "change", "interval", "t_test", "wilcoxon", "correlation"))
        change = self.change
        from scipy.stats import ttest_1samp, wilcoxon

        return {
            "corpus": float(np.abs(self.corpus).mean()),
            "embedding": float(np.abs(self.embedding).mean()),
            "change": float(change.mean()),
            "interval": percentile_interval(lambda rows: change[rows].mean(axis=1), len(change), seed=seed),
            "t_test": float(ttest_1samp(change, 0.0).pvalue),
            "wilcoxon": float(wilcoxon(change).pvalue),
            "correlation": float(np.corrcoef(self.corpus, self.embedding)[0, 1]),
        }

    def values(self, word: str) -> tuple[float, float, float] | None:
        """Text, vectors and change of one word, or None where it has no value."""
        if word not in self.words:
            return None
        place = self.words.index(word)
        return float(self.corpus[place]), float(self.embedding[place]), float(self.change[place])


@dataclass(frozen=True, eq=False)
class Comparison:
    """The groups, the constants used, and the pairs that the text and the vectors have."""

    groups: Mapping[str, Group]
    constants: Constants
    pairs: tuple[tuple[str, str], ...]


def compare(
    counts: Cooccurrence,
    vectors: Vectors,
    *,
    setting: Setting | None = None,
    extra: Mapping[str, tuple[str, ...]] | None = None,
    seed: int = 0,
) -> Comparison:
    """Both values of every word of the three groups, and of `extra` groups.

    g = <w, x - y> / |x - y| in the vectors and equation 7 in the text, averaged over the pairs, male word first.
    """
    given = setting or Setting()
    pairs = usable_pairs(counts, vectors, named_pairs(given.pairs))
    constants = constants_of(counts, vectors, pairs, alpha=given.alpha, lambda_=given.lambda_)
    both = _Both(counts, vectors, pairs, constants, given)
    groups = {name: both.group(name, words, seed) for name, words in {**listed(given), **(extra or {})}.items()}
    groups["neutral"] = both.group("neutral", neutral_words(counts, vectors, pairs, given, constants, seed), seed)
    return Comparison(groups, constants, pairs.pairs)


def usable_pairs(counts: Cooccurrence, vectors: Vectors, pairs: Pairs) -> Pairs:
    """The pairs, male first, whose words both sides have, meet in the text and are apart in the vectors."""
    kept = []
    for male, female in dict.fromkeys(pairs.flipped()):
        here = all(word in counts.index and word in vectors for word in (male, female))
        if here and counts.count(male, female) > 0 and _apart(vectors, male, female) > 0:
            kept.append((male, female))
    if not kept:
        raise VocabularyError(f"no pair of {pairs.name} is in the counts and in {vectors.name}", hint="give more text")
    return Pairs(pairs.name, kept, pairs.flipped().poles)


def constants_of(
    counts: Cooccurrence, vectors: Vectors, pairs: Pairs, *, alpha: float | None = None, lambda_: float | None = 1.0
) -> Constants:
    """Alpha and lambda as given or, where None, as the pairs fit best."""
    cspmi = np.array([counts.cspmi(*two) for two in pairs])
    distances = np.array([_apart(vectors, *two) for two in pairs])
    if alpha is None:
        return fit_constants(cspmi, distances, lambda_=lambda_)
    room = np.maximum(alpha - cspmi, 0)
    slope = 1 / np.sqrt(lambda_) if lambda_ else (distances @ np.sqrt(room)) / room.sum()
    error = np.sqrt(((distances - slope * np.sqrt(room)) ** 2).mean())
    return Constants(float(alpha), float(slope**-2), float(error), len(cspmi))


def listed(given: Setting) -> dict[str, tuple[str, ...]]:
    """The words of the two lists; a word of both is appropriate."""
    appropriate, biased = (_words(pairs) for pairs in (given.appropriate, given.biased))
    spared = () if given.defining else _words(given.pairs)
    return {
        "appropriate": tuple(word for word in appropriate if word not in spared),
        "biased": tuple(word for word in biased if word not in appropriate),
    }


def neutral_words(
    counts: Cooccurrence, vectors: Vectors, pairs: Pairs, given: Setting, constants: Constants, seed: int
) -> tuple[str, ...]:
    """Frequent words of letters on no list, drawn at random, of which enough pairs are defined."""
    taken = {*_words(given.pairs), *_words(given.appropriate), *_words(given.biased)}
    often = [word for word, n in zip(counts.words, counts.occurrences, strict=True) if n >= given.frequent]
    pool = [word for word in often if word not in taken and word in vectors and word.isalpha()]
    if not pool:
        raise DegenerateError(f"no neutral word occurs {given.frequent} times in the text", hint="lower frequent")
    how: dict[str, Any] = {"alpha": constants.alpha, "lambda_": constants.lambda_, "least": given.least}
    drawn: list[str] = []
    for row in np.random.default_rng(seed).permutation(len(pool)):
        (one,) = genderedness(counts, pool[row], pairs=pairs, min_pairs=given.min_pairs, **how)
        drawn += [one.word] if one.value is not None else []
        if len(drawn) == given.neutral:
            break
    return tuple(drawn)


@dataclass(frozen=True, eq=False)
class _Both:
    """The two sides and how they are compared."""

    counts: Cooccurrence
    vectors: Vectors
    pairs: Pairs
    constants: Constants
    given: Setting

    def group(self, name: str, words: tuple[str, ...], seed: int) -> Group:
        """Both values of each word that has them."""
        here = [word for word in words if word in self.counts.index and word in self.vectors]
        c, given = self.constants, self.given
        how: dict[str, Any] = {"pairs": self.pairs, "alpha": c.alpha, "lambda_": c.lambda_, "least": given.least}
        found = genderedness(self.counts, here, min_pairs=given.min_pairs, **how)
        kept = [one for one in found if one.value is not None]
        lost = {word: "too rare" for word in words if word not in here}
        lost |= {one.word: f"{len(one.by_pair)} pairs defined" for one in found if one.value is None}
        names = tuple(one.word for one in kept)
        if not kept:
            return Group(name, (), np.empty(0), np.empty(0), lost)
        used = np.array([[two in one.by_pair or not given.same_pairs for two in self.pairs] for one in kept])
        values = projections(self.vectors, names, self.pairs)
        embedding = (values * used).sum(axis=1) / used.sum(axis=1)
        corpus = np.array([one.value for one in kept], dtype=np.float64)
        return Group(name, names, corpus, embedding, lost, by_chance(self.counts, names, seed=seed, **how))


def projections(vectors: Vectors, words: Iterable[str], pairs: Pairs) -> Matrix64:
    """<w, x - y> / |x - y| for each word and pair: (words, pairs)."""
    first, second = (vectors.take(side, case="exact")[0] for side in (pairs.first, pairs.second))
    rows, _ = vectors.take(words, case="exact")
    return np.asarray(rows @ unit_rows(first - second).T)


def _apart(vectors: Vectors, one: str, other: str) -> float:
    a, b = (vectors[word].astype(np.float64) for word in (one, other))
    distance = float(np.linalg.norm(a - b))
    return distance if distance > APART * float(np.linalg.norm(b)) else 0.0


def _words(pairs: Pairs | str) -> dict[str, None]:
    return dict.fromkeys(word for two in named_pairs(pairs) for word in two)
