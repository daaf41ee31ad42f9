"""Look up the vectors of words and pairs in double precision, with their coverage."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Matrix64, row_norms, unit_rows
from evenhand.errors import DegenerateError, EvenhandWarning, UsageError, VocabularyError
from evenhand.models.vectors import Coverage, Vectors
from evenhand.words import Pairs

# Two vectors closer than this share of their norm count as equal (he and she after some mitigations): their difference
# is noise, and so is any direction derived from it.
SAME_WORD = 1e-3


class Differences(NamedTuple):
    """Differences first - second of the pairs whose two words were found."""

    rows: Matrix64
    coverage: Coverage
    used: tuple[tuple[str, str], ...]
    lost: tuple[tuple[str, str], ...]


def word_rows(
    v: Vectors, words: Iterable[str], *, what: str, normalise: bool = False, own_case: bool = False
) -> tuple[Matrix64, Coverage]:
    """Return the vectors of the words found and the coverage; raise `VocabularyError` if there are none."""
    rows, coverage = _finite(v, as_words(words, what=what), own_case=own_case)
    if not len(rows):
        missing = listed(coverage.missing) or "the list is empty"
        raise VocabularyError(f"{v.name} has no word of {what}: {missing}", hint="check spelling and capitals")
    return (unit_rows(rows) if normalise else rows), coverage


def differences(v: Vectors, pairs: Iterable[Sequence[str]], *, normalise: bool = False) -> Differences:
    """Return first - second for every complete pair; incomplete pairs are listed in `lost`.

    A lost pair of a named list, such as the pairs of a concept, also warns.
    """
    candidates = as_pairs(pairs)
    rows, coverage = _finite(v, [word for pair in candidates for word in pair])
    row_of = {word: row for row, word in enumerate(coverage.found)}
    used = tuple(pair for pair in candidates if pair[0] in row_of and pair[1] in row_of)
    lost = tuple(pair for pair in candidates if pair[0] not in row_of or pair[1] not in row_of)
    if not used:
        names = listed([f"{a}/{b}" for a, b in candidates]) or "the list is empty"
        hint = f"missing: {listed(coverage.missing)}" if candidates else "give at least one pair"
        raise VocabularyError(f"{v.name} has no complete pair of {len(candidates)}: {names}", hint=hint)
    rows = unit_rows(rows) if normalise else rows
    first, second = (rows[[row_of[pair[side]] for pair in used]] for side in (0, 1))
    refuse_equal(first, second, what=listed([f"{a}/{b}" for a, b in used]))
    if lost and isinstance(pairs, Pairs):  # a list of the caller's own reports its lost pairs in the result only
        warnings.warn(
            f"{v.name} has {len(used)} of {len(candidates)} pairs of {pairs.name!r}; "
            f"lost: {listed([f'{a}/{b}' for a, b in lost])}",
            EvenhandWarning,
            stacklevel=3,
        )
    return Differences(first - second, coverage, used, lost)


def _finite(v: Vectors, words: Iterable[str], *, own_case: bool = False) -> tuple[Matrix64, Coverage]:
    rows, coverage = v.take(words, own_case=own_case)
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if broken.size:
        names = listed(coverage.found[row] for row in broken)
        raise DegenerateError(f"{v.name} has NaN or infinity in the vectors of: {names}", hint="drop or repair them")
    return rows, coverage


def refuse_equal(first: Matrix64, second: Matrix64, *, what: str) -> None:
    """Raise `DegenerateError` if no row of `first` differs from its partner by more than noise."""
    lengths = np.maximum(row_norms(first), row_norms(second))
    if (row_norms(first - second) <= SAME_WORD * lengths).all():
        raise DegenerateError(
            f"{what}: both sides have the same vectors (difference below {SAME_WORD:g} of their norm)",
            hint="the vectors may already be debiased along this direction; estimate it from the original vectors",
        )


def as_words(words: Iterable[str], *, what: str) -> tuple[str, ...]:
    """Return the words as a tuple; raise `UsageError` for a single string or for items that are not strings."""
    if isinstance(words, str):
        raise UsageError(f"{what} must be a list of words, got the string {words!r}", hint=f"write [{words!r}]")
    items = tuple(words)
    invalid = [word for word in items if not isinstance(word, str)]
    if invalid:
        raise UsageError(f"{what} must be words, got {invalid[0]!r}")
    return items


def as_pairs(pairs: Iterable[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """Return the pairs as tuples; raise `UsageError` for an item that is not a pair of words."""
    if isinstance(pairs, str):
        raise UsageError(f"pairs must be a list of (first, second), got the string {pairs!r}")
    return tuple(_as_pair(pair) for pair in pairs)


def _as_pair(pair: Sequence[str]) -> tuple[str, str]:
    if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(word, str) for word in pair):
        raise UsageError(f"a pair is two words, (first, second), got {pair!r}")
    return (pair[0], pair[1])


def listed(words: Iterable[str], *, most: int = 10) -> str:
    """Return the first words and the number of further words, for messages."""
    every = list(words)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
