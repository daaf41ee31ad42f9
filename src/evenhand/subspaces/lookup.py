"""From words and pairs to rows of double precision, with the account of what was lost on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Matrix64, row_norms, unit_rows
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.models.vectors import Coverage, Vectors

# Two vectors closer than this share of their own length count as the same word (he and she after some mitigations):
# their difference is rounding and noise, and a direction made of it means nothing.
SAME_WORD = 1e-3


class Differences(NamedTuple):
    """One row for each pair whose two words were found: first - second."""

    rows: Matrix64
    coverage: Coverage
    used: tuple[tuple[str, str], ...]
    lost: tuple[tuple[str, str], ...]


def word_rows(v: Vectors, words: Iterable[str], *, what: str, normalise: bool = False) -> tuple[Matrix64, Coverage]:
    """The vectors of the words that are there; none at all is an error that names them."""
    asked = as_words(words, what=what)
    rows, coverage = _finite(v, asked)
    if not len(rows):
        lost = listed(coverage.missing) or "the list is empty"
        raise VocabularyError(f"{v.name} has no word of {what}: {lost}", hint="check spelling and capitals")
    return (unit_rows(rows) if normalise else rows), coverage


def differences(v: Vectors, pairs: Iterable[Sequence[str]], *, normalise: bool = False) -> Differences:
    """First minus second for every complete pair; a pair that lacks a word is dropped and counted."""
    asked = as_pairs(pairs)
    rows, coverage = _finite(v, [word for two in asked for word in two])
    place = {word: row for row, word in enumerate(coverage.found)}
    complete = [two[0] in place and two[1] in place for two in asked]
    used = tuple(two for two, there in zip(asked, complete, strict=True) if there)
    if not used:
        lost = listed([f"{a}/{b}" for a, b in asked]) or "the list is empty"
        hint = f"missing: {listed(coverage.missing)}" if asked else "give at least one pair"
        raise VocabularyError(f"{v.name} has no complete pair of {len(asked)}: {lost}", hint=hint)
    rows = unit_rows(rows) if normalise else rows
    first, second = (rows[[place[two[side]] for two in used]] for side in (0, 1))
    refuse_equal(first, second, what=listed([f"{a}/{b}" for a, b in used]))
    lost_pairs = tuple(two for two, there in zip(asked, complete, strict=True) if not there)
    return Differences(first - second, coverage, used, lost_pairs)


def _finite(v: Vectors, words: Iterable[str]) -> tuple[Matrix64, Coverage]:
    rows, coverage = v.take(words)
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if broken.size:
        wrong = listed(coverage.found[row] for row in broken)
        raise DegenerateError(f"{v.name} has NaN or infinity in the vectors of: {wrong}", hint="drop or repair them")
    return rows, coverage


def refuse_equal(first: Matrix64, second: Matrix64, *, what: str) -> None:
    """An error when no row of the first differs from its partner by more than noise."""
    lengths = np.maximum(row_norms(first), row_norms(second))
    if (row_norms(first - second) <= SAME_WORD * lengths).all():
        raise DegenerateError(
            f"{what}: the two sides have the same vectors (difference below {SAME_WORD:g} of their length)",
            hint="these vectors may have been debiased along this very direction; learn it from the original ones",
        )


def as_words(words: Iterable[str], *, what: str) -> tuple[str, ...]:
    """The words as a tuple; one string instead of a list of them is an error, not a list of letters."""
    if isinstance(words, str):
        raise UsageError(f"{what} must be a list of words, got the string {words!r}", hint=f"write [{words!r}]")
    given = tuple(words)
    wrong = [word for word in given if not isinstance(word, str)]
    if wrong:
        raise UsageError(f"{what} must be words, got {wrong[0]!r}")
    return given


def as_pairs(pairs: Iterable[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """The pairs as tuples; anything that is not two words is an error that shows it."""
    if isinstance(pairs, str):
        raise UsageError(f"pairs must be a list of (first, second), got the string {pairs!r}")
    return tuple(_as_pair(two) for two in pairs)


def _as_pair(two: Sequence[str]) -> tuple[str, str]:
    good = not isinstance(two, str) and len(two) == 2 and all(isinstance(word, str) for word in two)
    if not good:
        raise UsageError(f"a pair is two words, (first, second), got {two!r}")
    return (two[0], two[1])


def listed(words: Iterable[str], *, most: int = 10) -> str:
    """Some words for an error message: the first few, and how many more."""
    every = list(words)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
