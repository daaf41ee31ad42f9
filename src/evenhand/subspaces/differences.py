"""Directions from word pairs: a single pair, principal components of several pairs, or their span."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from evenhand.models.vectors import Vectors
from evenhand.subspaces.lookup import Differences, differences
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
