"""Directions from pairs of opposites: one pair, the principal components of several, or the span of them all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from evenhand.models.vectors import Vectors
from evenhand.subspaces.lookup import Differences, differences
from evenhand.subspaces.principal import RANK_RTOL, principal
from evenhand.subspaces.subspace import Subspace


def pair(v: Vectors, positive: str, negative: str, *, normalise: bool = True) -> Subspace:
    """The direction from one word to its opposite: positive - negative, at unit length.

    Dev et al. 2019 take he and she, each scaled to length 1 first (`normalise=True`, as in their BERT script); without
    that, the longer of the two vectors pulls the direction towards itself.

    What it does not tell you: one pair holds everything in which its two words differ, frequency and grammar too.
    """
    found = differences(v, [(positive, negative)], normalise=normalise)
    params = {"positive": positive, "negative": negative, "normalise": normalise}
    return _principal(found, 1, "pair", params=params, poles=(positive, negative))


def pairs(
    v: Vectors, pairs: Iterable[Sequence[str]], k: int = 1, *, centre: bool = False, normalise: bool = False
) -> Subspace:
    """The first k principal directions of the differences first - second, by an uncentred SVD.

    Bolukbasi et al. 2016 (section 4) put each pair on its midpoint and run a PCA over both halves; the halves are
    plus and minus half the difference, so that their mean is zero and the result is exactly this SVD. They also scale
    words to length 1 (`normalise=True`); Ethayarajh 2019 (RIPA), Wang 2020 and Dev 2019 do not.

    `centre=True` subtracts the mean difference first. That mean is the very direction the pairs have in common, so
    that what is left is how the pairs differ from each other. It is here to reproduce codes that do so.

    What it does not tell you: a large `explained` of the first direction says that these pairs agree, not that other
    pairs of the concept do; `stability` compares with a second list.
    """
    found = differences(v, pairs, normalise=normalise)
    params = {"centre": centre, "normalise": normalise}
    return _principal(found, k, "pairs", params=params, poles=poles_of(pairs), centre=centre)


def span(v: Vectors, pairs: Iterable[Sequence[str]], *, rtol: float = RANK_RTOL, normalise: bool = False) -> Subspace:
    """The whole span of the differences first - second; k is its numerical rank.

    B = span{x - y : (x, y) in S} of the Debiasing Theorem (Ethayarajh et al. 2019, section 3). Singular values below
    `rtol` of the largest are dropped. The theorem needs vectors that are not normalised: `normalise=True` breaks it,
    and is here for comparison only.
    """
    found = differences(v, pairs, normalise=normalise)
    params = {"rtol": rtol, "normalise": normalise}
    return _principal(found, None, "span", params=params, poles=poles_of(pairs), rtol=rtol)


def poles_of(pairs: object) -> tuple[str, str]:
    """The names of the two ends that a list of pairs carries, if it carries any."""
    first, second = getattr(pairs, "poles", ("first", "second"))
    return (str(first), str(second))


def _principal(
    found: Differences,
    k: int | None,
    how: str,
    *,
    params: Mapping[str, object],
    poles: tuple[str, str],
    centre: bool = False,
    rtol: float = RANK_RTOL,
) -> Subspace:
    mean = found.rows.mean(axis=0)
    lost = [list(two) for two in found.lost]
    account = {"pairs_asked": len(found.used) + len(lost), "pairs_used": len(found.used), "pairs_lost": lost}
    return principal(
        found.rows - mean if centre else found.rows,
        k=k,
        how=how,
        towards=mean,
        params={**params, **account},
        coverage=found.coverage,
        poles=poles,
        rtol=rtol,
    )
