"""Which words a method should leave as they are: rules that any projection accepts as `words=`.

Removing a concept from every word also takes it from mother and king. A selector is called with the vectors and the
concept, and returns the words to exempt, in the spelling of the vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

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
    """A rule for the words that a method leaves as they are."""

    rule: ClassVar[str]

    @abstractmethod
    def __call__(self, v: Vectors, concept: Concept | None) -> frozenset[str]:
        """The exempt words, as the vocabulary spells them."""

    def check_concept(self, concept: Concept | None) -> None:  # noqa: B027 (most rules take any concept)
        """Raise `UsageError` if the concept lacks the words that the rule needs."""

    def to_dict(self) -> dict[str, Any]:
        """Rule and parameters as plain data."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"rule": self.rule} | {name: _plain(value) for name, value in given.items()}


@dataclass(frozen=True)
class EveryWord(Selector):
    """No word is exempt."""

    rule: ClassVar[str] = "every word"

    def __call__(self, v: Vectors, concept: Concept | None) -> frozenset[str]:
        """Nothing."""
        return frozenset()


@dataclass(frozen=True)
class ExceptSpecific(Selector):
    """The concept's own list is exempt: for gender the 1,441 words of Bolukbasi et al. 2016.

    That list was found by a classifier on GoogleNews: beside queen and godfather it holds wolf_cub and Au_Lait.
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
        """Those of the list that the vectors have."""
        self.check_concept(concept)
        return _spelt(v, _needed(concept, self.rule).specific)


@dataclass(frozen=True)
class ExceptListed(Selector):
    """A list of yours is exempt: words, or the id or file of a word set."""

    rule: ClassVar[str] = "all but a list"

    words: WordSet | str | Iterable[str]

    def __post_init__(self) -> None:
        if not isinstance(self.words, str | WordSet):
            object.__setattr__(self, "words", checked_words(self.words, what="ExceptListed"))

    def __call__(self, v: Vectors, concept: Concept | None) -> frozenset[str]:
        """Those of the list that the vectors have."""
        return _spelt(v, wordset(self.words) if isinstance(self.words, str) else self.words)


@dataclass(frozen=True)
class ExceptLearned(Selector):
    """Words like some seed words are exempt: a linear classifier on unit vectors, as Bolukbasi et al. 2016.

    `LinearSVC(C=1)` tells the seeds from all other words among the `first` most frequent; every word of the vocabulary
    on the side of the seeds is exempt, and the seeds are.
    """

    rule: ClassVar[str] = "all but words like the seeds"

    seeds: WordSet | str = "bolukbasi2016-gender-specific-seed"
    first: int = 50_000
    C: float = 1.0

    def __call__(self, v: Vectors, concept: Concept | None) -> frozenset[str]:
        """The seeds, and what the classifier takes for one."""
        from sklearn.svm import LinearSVC  # costs a second, which other selectors need not pay

        seeds = _spelt(v, wordset(self.seeds))
        rows = np.unique([*range(min(self.first, len(v))), *(v.index[word] for word in seeds)]).astype(np.int64)
        labels = np.array([v.words[row] in seeds for row in rows])
        if not labels.any() or labels.all():
            what = "none" if not labels.any() else "nothing but"
            raise DegenerateError(f"{v.name} has {what} of the seed words, so that there is nothing to learn")
        # More rows than columns: the primal problem, which needs no random order and so no seed.
        learned = LinearSVC(C=self.C, dual=False).fit(unit_rows(v.matrix[rows]), labels)
        scores = _along(v, learned.coef_[0]) + learned.intercept_[0] * v.norms  # the sign is that of unit vectors
        return seeds | _words(v, scores > 0)


@dataclass(frozen=True)
class ExceptDefined(Selector):
    """Words that lie more along what defines the concept than along its stereotypes are exempt, without any list.

    Ethayarajh et al. 2019 (section 6.3): b* is the first uncentred principal direction of defining pairs
    (man - woman), b' that of biased analogies (doctor - midwife); a word is debiased iff |<w, b*>| < |<w, b'>|.
    Vectors are not normalised; both directions are, so that the rule does not depend on a word's length. The paper's
    biased analogies are in no release: the default are the stereotypical pairs of SemBias.

    What it does not tell you: whether a word is rightly about the concept. A word with almost no part along either
    direction is decided by noise; exempting it changes little.
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
        """The words w with |<w, b*>| >= |<w, b'>|."""
        defining = _needed(concept, self.rule).pairs if self.defining is None else find_pairs(self.defining)
        defined, stereotyped = (_along(v, _direction(v, pairs)) for pairs in (defining, find_pairs(self.biased)))
        return _words(v, np.abs(defined) >= np.abs(stereotyped))


def sparing(vm: VectorMap, selector: Selector | None, v: Vectors, concept: Concept | None) -> VectorMap:
    """The map with the words that the selector finds exempt from it; the map itself where there are none."""
    exempt = selector(v, concept) if selector else frozenset()
    return ExceptWords(vm, sorted(exempt)) if exempt else vm


def _along(v: Vectors, direction: Vector64) -> Vector64:
    """Inner product of every word with a direction. In single precision: a wide copy of the table costs too much."""
    return np.asarray(v.matrix @ direction.astype(np.float32), dtype=np.float64)


def _direction(v: Vectors, pairs: Pairs) -> Vector64:
    if not len(pairs):
        raise UsageError(f"{pairs.name!r} is empty, so that it has no direction", hint="give pairs=[(a, b), ...]")
    return np.asarray(direction_of_pairs(v, pairs, k=1).basis[0])


def _needed(concept: Concept | None, rule: str) -> Concept:
    if concept is None:
        raise UsageError(f"the rule {rule!r} needs to know the concept", hint="fit(vectors, concept)")
    return concept


def _spelt(v: Vectors, words: Iterable[str]) -> frozenset[str]:
    return frozenset(spelling for word in words if (spelling := v.find(word)) is not None)


def _words(v: Vectors, chosen: NDArray[np.bool_]) -> frozenset[str]:
    return frozenset(v.words[row] for row in np.flatnonzero(chosen).tolist())


def _plain(value: Any) -> Any:
    if isinstance(value, WordSet | Pairs):
        return value.name
    return list(value) if isinstance(value, tuple) else value
