"""Directions from word pairs: a single pair, principal components of several pairs, or their span."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError
from evenhand.models.vectors import Vectors
from evenhand.subspaces.lookup import SAME_WORD, Differences, differences, word_rows
from evenhand.subspaces.principal import RANK_RTOL, principal
from evenhand.subspaces.subspace import Subspace


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
