"""How gendered neutral words would look in a text of this size: the noise under `genderedness`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Vector64
from evenhand.corpus.cooccurrence import Cooccurrence
from evenhand.corpus.genderedness import ALPHA, LAMBDA, PAIRS, pair_scales
from evenhand.corpus.pairs import weights
from evenhand.errors import DegenerateError, UsageError
from evenhand.words.wordset import PairList

DRAWS = 50
Counted: TypeAlias = NDArray[np.int64]


def by_chance(
    counts: Cooccurrence,
    words: Iterable[str],
    *,
    pairs: PairList | str = PAIRS,
    alpha: float = ALPHA,
    lambda_: float = LAMBDA,
    least: float = 0.0,
    draws: int = DRAWS,
    seed: int = 0,
) -> float:
    """The mean |genderedness| of these words if they met x and y of each pair in proportion to the rows of X.

    The company of a word with x and y together is turned into events and dealt anew by a binomial, for each pair by
    itself; a pair that then lacks one side is left out, as in `genderedness`. With flat weights a count of 1 is one
    event. With weights w(d) by distance it is sum w / sum w^2 of them (over the distances of the window, rounded to
    whole events): a sum of weights varies as much as that many meetings of equal weight. It is the least noise there
    can be: words come in bursts, which makes real counts vary more.
    """
    if draws < 1:
        raise UsageError(f"at least one draw is needed, got {draws}")
    scales = pair_scales(counts, pairs, alpha=alpha, lambda_=lambda_)
    used = [(two, scale) for two, scale in scales.items() if isinstance(scale, float)]
    if not used:
        raise DegenerateError(
            "no pair is defined in these counts", hint="; ".join(dict.fromkeys(map(str, scales.values())))
        )
    sides = np.array([[counts.index[word] for word in two] for two, _ in used])
    company = counts.matrix[[counts.row(word) for word in words]][:, sides.ravel()].toarray().reshape(-1, len(used), 2)
    share = counts.marginals[sides]
    events = _events(counts)
    together = np.rint(company.sum(axis=2) * events).astype(np.int64)
    first = np.random.default_rng(seed).binomial(together, share[:, 0] / share.sum(axis=1), (draws, *together.shape))
    scale = np.array([factor for _, factor in used])
    values = _means(first, together - first, np.log(share[:, 0] / share[:, 1]), scale, max(1.0, least * events))
    return float(np.abs(values).mean())


def _means(first: Counted, second: Counted, expected: Vector64, scale: Vector64, least: float) -> Vector64:
    """The mean over defined pairs, for each draw and word that has one."""
    defined = (first >= least) & (second >= least)
    ratio = np.log(np.maximum(first, 1) / np.maximum(second, 1)) - expected
    number = defined.sum(axis=2)
    if not number.any():
        raise DegenerateError(
            "these words never meet both words of a pair", hint="give more text, or more frequent words"
        )
    return np.asarray((np.where(defined, ratio * scale, 0).sum(axis=2)[number > 0]) / number[number > 0])


def _events(counts: Cooccurrence) -> float:
    """Independent events in a count of 1: nearer pairs weigh more, so that a sum of weights hides more than one."""
    window, weighting = counts.params.get("window"), counts.params.get("weighting")
    if not isinstance(window, int) or not isinstance(weighting, str):
        return 1.0
    by_distance = weights(weighting, window)
    return float(by_distance.sum() / (by_distance**2).sum())
