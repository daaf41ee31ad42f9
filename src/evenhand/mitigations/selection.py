"""Rules for the words that a method leaves unchanged, accepted by most methods as `words=`.

Removing a concept from every word also removes it from mother and king. A selector is called with the vectors and the
concept and returns the exempt words, in the spelling of the vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Vector64, unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations.maps import ExceptWords, VectorMap
from evenhand.models.vectors import Vectors
from evenhand.subspaces import pairs as direction_of_pairs
from evenhand.words import Pairs, WordSet, wordset
from evenhand.words import pairs as find_pairs
from evenhand.words.wordset import checked_words

if TYPE_CHECKING:
    from evenhand.words import Concept


@dataclass(frozen=True)
class Selector(ABC):
    """A rule for the words that a method leaves unchanged."""

    rule: ClassVar[str]

    @abstractmethod
    def __call__(self, v: Vectors, concept: Concept | None) -> frozenset[str]:
        """Return the exempt words, in the spelling of the vocabulary."""

    def check_concept(self, concept: Concept | None) -> None:  # noqa: B027 (most rules take any concept)
        """Raise `UsageError` if the concept lacks the words that the rule needs."""

    def to_dict(self) -> dict[str, object]:
        """Return the rule and its parameters as plain data."""
        params = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        return {"rule": self.rule, **params}


@dataclass(frozen=True)
class EveryWord(Selector):
    """No word is exempt."""

    rule: ClassVar[str] = "every word"

    def __call__(self, v: Vectors, concept: Concept | None) -> frozenset[str]:
        """Return an empty set."""
        return frozenset()


@dataclass(frozen=True)
class ExceptSpecific(Selector):
    """The concept's specific words are exempt: for gender the 1,441 words of Bolukbasi et al. (2016).

    A classifier on GoogleNews selected that list: besides queen and godfather it contains wolf_cub and Au_Lait.
    """

    rule: ClassVar[str] = "all but the concept's specific words"

    def check_concept(self, concept: Concept | None) -> None:
        """Require a concept with specific words."""
        about = _needed(concept, self.rule)
        if not len(about.specific):
            raise UsageError(
                f"concept {about.name!r} lists no specific words", hint="give it specific=[...], or use ExceptListed"
            )

    def __call__(self, v: Vectors, concept: Concept | None) -> frozenset[str]:
        """Return the specific words that the vectors have."""
        self.check_concept(concept)
        return v.matching(_needed(concept, self.rule).specific)


@dataclass(frozen=True)
class ExceptListed(Selector):
    """The words of a list are exempt: words, or the id or file of a word set."""

    rule: ClassVar[str] = "all but a list"

    words: WordSet | str | Iterable[str]

    def __post_init__(self) -> None:
        if not isinstance(self.words, str | WordSet):
            object.__setattr__(self, "words", checked_words(self.words, what="ExceptListed"))

    def __call__(self, v: Vectors, concept: Concept | None) -> frozenset[str]:
        """Return the listed words that the vectors have."""
        return v.matching(wordset(self.words) if isinstance(self.words, str) else self.words)


@dataclass(frozen=True)
class ExceptLearned(Selector):
    """Words similar to seed words are exempt, by a linear classifier on unit vectors (Bolukbasi et al. 2016).

    `LinearSVC(C=1)` separates the seeds from all other words among the `first` most frequent. Every word of the
    vocabulary on the side of the seeds is exempt, and so are the seeds.
    """

    rule: ClassVar[str] = "all but words like the seeds"

    seeds: WordSet | str = "bolukbasi2016-gender-specific-seed"
    first: int = 50_000
    C: float = 1.0

    def __call__(self, v: Vectors, concept: Concept | None) -> frozenset[str]:
        """Return the seeds and the words that the classifier assigns to them."""
        from sklearn.svm import LinearSVC  # takes a second to import

        seeds = v.matching(wordset(self.seeds))
        rows = np.unique([*range(min(self.first, len(v))), *(v.index[word] for word in seeds)]).astype(np.int64)
        labels = np.array([v.words[row] in seeds for row in rows])
        if not labels.any() or labels.all():
            what = "no seed word" if not labels.any() else "seed words only"
            raise DegenerateError(f"{v.name} has {what}: a classifier needs both kinds of words")
        # With more rows than columns the primal problem is solved, which uses no random numbers.
        learned = LinearSVC(C=self.C, dual=False).fit(unit_rows(v.matrix[rows]), labels)
        scores = _project(v, learned.coef_[0]) + learned.intercept_[0] * v.norms  # the sign is that of unit vectors
        return seeds | _words(v, scores > 0)


@dataclass(frozen=True)
class ExceptDefined(Selector):
    """Words that align more with the concept's definition than with its stereotypes are exempt; no list is needed.

    Ethayarajh et al. (2019, section 6.3): b* is the first uncentred principal direction of defining pairs
    (man - woman), b' that of biased analogies (doctor - midwife); a word is debiased iff |<w, b*>| < |<w, b'>|.
    Vectors are not normalised; both directions are, so the rule does not depend on a word's length. The paper's
    biased analogies were not released: the default is the stereotypical pairs of SemBias.

    It does not show whether a word is rightly about the concept. For a word with almost no projection on either
    direction noise decides; exempting it changes little.
    """

    rule: ClassVar[str] = "all but words nearer to the definition than to the stereotype"

    biased: Pairs | str = "ethayarajh2019-biased-standin"
    defining: Pairs | str | None = None
    """None: the concept's own pairs."""

    def check_concept(self, concept: Concept | None) -> None:
        """Require defining pairs: the rule's own, or those of the concept."""
        if self.defining is None and not len(_needed(concept, self.rule).pairs):
            raise UsageError(
                f"the rule {self.rule!r} needs defining pairs", hint="ExceptDefined(defining=[(a, b), ...])"
            )

    def __call__(self, v: Vectors, concept: Concept | None) -> frozenset[str]:
        """Return the words w with |<w, b*>| >= |<w, b'>|."""
        defining = _needed(concept, self.rule).pairs if self.defining is None else find_pairs(self.defining)
        definition, stereotype = (_project(v, _direction(v, pairs)) for pairs in (defining, find_pairs(self.biased)))
        return _words(v, np.abs(definition) >= np.abs(stereotype))


SELECTORS: dict[str, type[Selector]] = {
    "every-word": EveryWord,
    "except-specific": ExceptSpecific,
    "except-listed": ExceptListed,
    "except-learned": ExceptLearned,
    "except-defined": ExceptDefined,
}


def sparing(vm: VectorMap, selector: Selector | None, v: Vectors, concept: Concept | None) -> VectorMap:
    """Return the map with the selected words exempt from it, or the map itself if no word is exempt."""
    exempt = selector(v, concept) if selector else frozenset()
    return ExceptWords(vm, sorted(exempt)) if exempt else vm


def _project(v: Vectors, direction: Vector64) -> Vector64:
    """Return the inner product of every word with a direction, in single precision to avoid copying the table."""
    return np.asarray(v.matrix @ direction.astype(np.float32), dtype=np.float64)


def _direction(v: Vectors, pairs: Pairs) -> Vector64:
    if not len(pairs):
        raise UsageError(f"{pairs.name!r} is empty and has no direction", hint="give pairs=[(a, b), ...]")
    return np.asarray(direction_of_pairs(v, pairs, k=1).basis[0])


def _needed(concept: Concept | None, rule: str) -> Concept:
    if concept is None:
        raise UsageError(f"the rule {rule!r} needs a concept", hint="fit(vectors, concept)")
    return concept


def _words(v: Vectors, mask: NDArray[np.bool_]) -> frozenset[str]:
    return frozenset(v.words[row] for row in np.flatnonzero(mask).tolist())


def _plain(value: object) -> object:
    if isinstance(value, WordSet | Pairs):
        return value.name
    return list(value) if isinstance(value, tuple) else value
