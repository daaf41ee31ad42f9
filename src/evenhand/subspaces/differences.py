"""Directions from word pairs: a single pair, principal components of several pairs, or their span; lookup of words."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Matrix64, Vector64, row_norms, unit_rows
from evenhand.errors import DegenerateError, EvenhandWarning, UsageError, VocabularyError
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces.subspace import RANK_RTOL, Subspace, principal
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


def pair(v: Vectors, positive: str, negative: str, *, normalise: bool = True) -> Subspace:
    """Return the unit direction positive - negative of one word pair.

    Dev et al. 2019 use he and she, each scaled to unit length first (`normalise=True`, as in their BERT script);
    otherwise the longer vector dominates the direction.

    Limitation: one pair contains every difference between its two words, including frequency and grammar.
    """
    data = differences(v, [(positive, negative)], normalise=normalise)
    params = {"positive": positive, "negative": negative, "normalise": normalise}
    return _principal(data, 1, "pair", params=params, poles=(positive, negative))


def pairs(
    v: Vectors, pairs: Iterable[Sequence[str]], k: int = 1, *, centre: bool = False, normalise: bool = False
) -> Subspace:
    """Return the first k principal directions of the differences first - second, by an uncentred SVD.

    Bolukbasi et al. 2016 (section 4) centre each pair at its midpoint and apply PCA to both halves; these are plus and
    minus half the difference, so their mean is zero and the result equals this SVD. They also scale words to unit
    length (`normalise=True`); Ethayarajh 2019 (RIPA), Wang 2020 and Dev 2019 do not.

    `centre=True` subtracts the mean difference first, which is the direction that the pairs have in common; what
    remains is how the pairs differ from each other. It serves to reproduce implementations that centre.

    Limitation: a large `explained` of the first direction means that these pairs agree, not that other pairs of the
    concept do; use `stability` to compare with a second list.
    """
    data = differences(v, pairs, normalise=normalise)
    params = {"centre": centre, "normalise": normalise}
    return _principal(data, k, "pairs", params=params, poles=poles_of(pairs), centre=centre)


def span(v: Vectors, pairs: Iterable[Sequence[str]], *, rtol: float = RANK_RTOL, normalise: bool = False) -> Subspace:
    """Return the span of the differences first - second; k is its numerical rank.

    This is B = span{x - y : (x, y) in S} of the Debiasing Theorem (Ethayarajh et al. 2019, section 3). Singular values
    below `rtol` times the largest are dropped. The theorem does not hold for normalised vectors; `normalise=True` is
    for comparison only.
    """
    data = differences(v, pairs, normalise=normalise)
    params = {"rtol": rtol, "normalise": normalise}
    return _principal(data, None, "span", params=params, poles=poles_of(pairs), rtol=rtol)


def poles_of(pairs: object) -> tuple[str, str]:
    """Return the pole names of a list of pairs, if it has any."""
    first, second = getattr(pairs, "poles", ("first", "second"))
    return (str(first), str(second))


def _principal(
    data: Differences,
    k: int | None,
    how: str,
    *,
    params: Mapping[str, object],
    poles: tuple[str, str],
    centre: bool = False,
    rtol: float = RANK_RTOL,
) -> Subspace:
    mean = data.rows.mean(axis=0)
    lost = [list(pair) for pair in data.lost]
    counts = {"pairs_asked": len(data.used) + len(lost), "pairs_used": len(data.used), "pairs_lost": lost}
    return principal(
        data.rows - mean if centre else data.rows,
        k=k,
        how=how,
        towards=mean,
        params={**params, **counts},
        coverage=data.coverage,
        poles=poles,
        rtol=rtol,
    )


def names(
    v: Vectors,
    first: Iterable[str],
    second: Iterable[str],
    k: int = 4,
    *,
    centre: bool = True,
    normalise: bool = False,
) -> Subspace:
    """Return the first k principal components of all differences f - m, f in `first` and m in `second`.

    Names match by their own case, see `Vectors.locate`.

    MISP and MIDB (Dawkins 2021) use 100 x 100 names, k=4, and the weights a_i = lambda_i / sum of all lambda, available
    as `explained`. The differences are never formed: their covariance equals Cov(first) + Cov(second), and their
    uncentred second moment adds d d', where d is the difference of the two means.

    `centre=True`, standard PCA and consistent with the numbers of the paper, removes d: the remaining directions are
    those in which names of one group differ from each other (age, origin, frequency). `centre=False` keeps d. Check
    `params["cos_mean_difference"]` before interpreting the result as a gender subspace.
    """
    f, first_coverage = word_rows(v, first, what="the first list of names", normalise=normalise, own_case=True)
    m, second_coverage = word_rows(v, second, what="the second list of names", normalise=normalise, own_case=True)
    between = f.mean(axis=0) - m.mean(axis=0)
    rows = _square_root(f, m, None if centre else between)
    if np.abs(rows).max() <= SAME_WORD * max(np.abs(f).max(), np.abs(m).max()):
        raise DegenerateError("names: all differences are equal, so no direction is defined")
    learned = principal(
        # With this scale, `strength` holds the singular values of the matrix of all differences.
        rows * np.sqrt(len(f) * len(m)),
        k=k,
        how="names",
        towards=between,
        coverage=first_coverage + second_coverage,
        poles=("first", "second"),
    )
    params = {"centre": centre, "normalise": normalise, "n": [len(f), len(m)]}
    return replace(learned, params=params | {"cos_mean_difference": _cosines(learned.basis, between)})


def _square_root(f: Matrix64, m: Matrix64, between: Vector64 | None) -> Matrix64:
    """Return rows R with R'R = Cov(f) + Cov(m) [+ d d'] (divisor n), to avoid squaring before the SVD."""
    parts = [(group - group.mean(axis=0)) / np.sqrt(len(group)) for group in (f, m)]
    return np.vstack([*parts, between[None]] if between is not None else parts)


def _cosines(basis: Matrix64, between: Vector64) -> list[float]:
    length = float(np.linalg.norm(between))
    return [float(dot) / length if length else 0.0 for dot in basis @ between]
