"""Look up words in a vocabulary under a case policy, and report the coverage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, get_args

import numpy as np

from evenhand import language as languages
from evenhand.arrays import Rows
from evenhand.errors import UsageError

Case = Literal["auto", "exact", "lower", "any"]
SPECIAL_SHARE = 0.001  # of a lower-case vocabulary: tokens such as UNK and PAD

Spell = Callable[[str, str], str]  # a word and the code of its language


def _as_written(word: str, language: str) -> str:
    return word


# The spellings tried for a word, in order. Published lists are cased ("Mary", "Emily") and the vocabulary of GloVe is
# not; other lists are lower-case ("mary") and the vocabulary of GoogleNews has "Mary" only.
SPELLINGS: dict[str, tuple[Spell, ...]] = {
    "exact": (_as_written,),
    "lower": (languages.lower,),
    "auto": (_as_written, languages.lower, languages.title, languages.upper),
    "any": (_as_written, languages.lower, languages.title, languages.upper),
}


@dataclass(frozen=True)
class Coverage:
    """The words of a look-up that were found, those that are missing, and spellings that differ."""

    found: tuple[str, ...]
    missing: tuple[str, ...] = ()
    respelt: Mapping[str, str] = field(default_factory=dict)

    @property
    def asked(self) -> int:
        """Number of distinct words looked up."""
        return len(self.found) + len(self.missing)

    @property
    def share(self) -> float:
        """Share of the words that were found; 1 for an empty look-up."""
        return len(self.found) / self.asked if self.asked else 1.0

    def __add__(self, other: Coverage) -> Coverage:
        """Combine two look-ups, counting each word once."""
        found = tuple(dict.fromkeys(self.found + other.found))
        present = set(found)
        missing = tuple(word for word in dict.fromkeys(self.missing + other.missing) if word not in present)
        return Coverage(found, missing, {**self.respelt, **other.respelt})

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {
            "asked": self.asked,
            "found": len(self.found),
            "share": self.share,
            "missing": list(self.missing),
            "respelt": dict(self.respelt),
        }

    def __str__(self) -> str:
        return f"{len(self.found)}/{self.asked}"


def find(word: str, index: Mapping[str, int], case: Case = "auto", language: str = "en") -> str | None:
    """Return the vocabulary's spelling of a word under a case policy, or None.

    Other spellings of the language (`language.other_spellings`) are tried where no capitalisation of the word itself is
    in the vocabulary, except under "exact".
    """
    forms = (word,) if case == "exact" or word.isascii() else (word, *languages.other_spellings(word, language))
    for form in forms:
        for spell in spellings(case):
            if (candidate := spell(form, language)) in index:
                return candidate
    return None


def spellings(case: str) -> tuple[Spell, ...]:
    """Return the spellings that a case policy tries, in order."""
    if case not in SPELLINGS:
        raise UsageError(f"unknown case policy {case!r}", hint=f"use one of {', '.join(get_args(Case))}")
    return SPELLINGS[case]


def find_own_case(
    words: Iterable[str], index: Mapping[str, int], *, lower_case_only: bool, language: str = "en"
) -> dict[str, str | None]:
    """Return the vocabulary's spelling of each word of a list whose capitals matter, or None.

    First names and lists of concept-specific words match by their own case: Grace is a name and grace is not, and
    COUPLE in a list that was found in a cased vocabulary says nothing about couple. In a lower-case vocabulary such
    words are lower-cased, unless the list itself distinguishes case, as one with both He and he does. German words are
    looked up in this way too: Arm is a limb, arm is poor.
    """
    distinct = dict.fromkeys(words)
    distinguishes = any(word != word.lower() and word.lower() in distinct for word in distinct)
    if not distinguishes and lower_case_only:
        return {word: find(word, index, "auto", language) for word in distinct}
    if language == "en":
        return {word: find(word, index, "exact") for word in distinct}
    forms = {word: (word, *languages.other_spellings(word, language)) for word in distinct}
    return {word: next((form for form in forms[word] if form in index), None) for word in distinct}


def is_lower_case(words: Sequence[str]) -> bool:
    """Return True for a vocabulary without capitals, except for a few special tokens such as UNK."""
    most = int(SPECIAL_SHARE * len(words))
    cased = (word for word in words if word.isalpha() and word != word.lower())
    return len(list(islice(cased, most + 1))) <= most


def locate(
    words: Iterable[str],
    index: Mapping[str, int],
    case: Case = "auto",
    *,
    own_case: bool = False,
    lower_case_only: bool = False,
    language: str = "en",
) -> tuple[Rows, Coverage]:
    """Return the row indices of the words found, in order and without repeats, and the coverage.

    `own_case` applies `find_own_case` under the policy "auto"; other policies are explicit and keep their meaning.
    """
    if isinstance(words, str):
        raise UsageError(f"expected a list of words, got the string {words[:40]!r}", hint="give a list of words")
    distinct = tuple(dict.fromkeys(words))
    if own_case and case == "auto":
        spelling = find_own_case(distinct, index, lower_case_only=lower_case_only, language=language)
    elif case == "exact":
        spelling = {word: word if word in index else None for word in distinct}
    else:
        spelling = {word: find(word, index, case, language) for word in distinct}
    found = tuple(word for word in distinct if spelling[word] is not None)
    rows = np.array([index[str(spelling[word])] for word in found], dtype=np.int64)
    missing = tuple(word for word in distinct if spelling[word] is None)
    respelt = {word: str(spelling[word]) for word in found if spelling[word] != word}
    return rows, Coverage(found, missing, respelt)
