"""From a word as a list spells it to a row of the matrix, and the account of what was found and lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import UsageError

Case = Literal["auto", "exact", "lower", "any"]

# The spellings tried for a word, in order. "auto" is the default because published lists are cased ("Mary", "Emily")
# while GloVe's vocabulary is not; a cased vocabulary still answers with its own cased row first.
SPELLINGS: dict[str, tuple[Callable[[str], str], ...]] = {
    "exact": (str,),
    "lower": (str.lower,),
    "auto": (str, str.lower),
    "any": (str, str.lower, str.title, str.upper),
}


@dataclass(frozen=True)
class Coverage:
    """Which of the words asked for were found, under which spelling, and which were lost."""

    found: tuple[str, ...]
    missing: tuple[str, ...] = ()
    respelt: Mapping[str, str] = field(default_factory=dict)

    @property
    def asked(self) -> int:
        """How many distinct words were asked for."""
        return len(self.found) + len(self.missing)

    @property
    def share(self) -> float:
        """Share of the words that was found; 1 when nothing was asked."""
        return len(self.found) / self.asked if self.asked else 1.0

    def __add__(self, other: Coverage) -> Coverage:
        """The account of two look-ups together, each word counted once."""
        found = tuple(dict.fromkeys(self.found + other.found))
        here = set(found)
        missing = tuple(word for word in dict.fromkeys(self.missing + other.missing) if word not in here)
        return Coverage(found, missing, {**self.respelt, **other.respelt})

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "asked": self.asked,
            "found": len(self.found),
            "share": self.share,
            "missing": list(self.missing),
            "respelt": dict(self.respelt),
        }

    def __str__(self) -> str:
        return f"{len(self.found)}/{self.asked}"


def find(word: str, index: Mapping[str, int], case: Case = "auto") -> str | None:
    """The vocabulary's spelling of a word under a case policy, or None."""
    for spell in spellings(case):
        if (candidate := spell(word)) in index:
            return candidate
    return None


def spellings(case: str) -> tuple[Callable[[str], str], ...]:
    """The spellings a policy tries, in order."""
    if case not in SPELLINGS:
        raise UsageError(f"unknown case policy {case!r}", hint=f"use one of {', '.join(get_args(Case))}")
    return SPELLINGS[case]


def locate(words: Iterable[str], index: Mapping[str, int], case: Case = "auto") -> tuple[Rows, Coverage]:
    """Rows of the words that the vocabulary has, in the order asked and without repeats, and the account of all."""
    if isinstance(words, str):
        raise UsageError(f"one text where words were expected: {words[:40]!r}", hint="give a list of words")
    asked = tuple(dict.fromkeys(words))
    spelling = {word: find(word, index, case) for word in asked}
    found = tuple(word for word in asked if spelling[word] is not None)
    rows = np.array([index[str(spelling[word])] for word in found], dtype=np.int64)
    missing = tuple(word for word in asked if spelling[word] is None)
    respelt = {word: str(spelling[word]) for word in found if spelling[word] != word}
    return rows, Coverage(found, missing, respelt)
