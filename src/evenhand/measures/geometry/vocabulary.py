"""V_t, the words that vocabulary-wide measures look at: frequent, plain, and not themselves about the concept."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.errors import UsageError
from evenhand.models.vectors import Vectors
from evenhand.words import Concept, WordSet, wordset

VOCABULARY = "vocabulary"  # as a query: the restricted vocabulary of the measured vectors instead of a list
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
