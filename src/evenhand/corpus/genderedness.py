"""Genderedness of words in a text (equation 7 of Ethayarajh, Duvenaud & Hirst 2019), and the constants of its fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.arrays import Vector64
from evenhand.corpus.cooccurrence import Cooccurrence, distance_weights
from evenhand.errors import DegenerateError, UsageError
from evenhand.words import pairs as named_pairs
from evenhand.words.wordset import PairList, Pairs

STEPS = 2_000
WIDEST = 1e4  # largest alpha above the largest csPMI; beyond it all distances would be equal


@dataclass(frozen=True)
class Constants:
    """The best fit; `error` is the root mean square of |x - y| - sqrt((alpha - csPMI) / lambda).

    `identified` is False if the best fit lies at the end of the search range: then the distances do not grow as csPMI
    falls, and alpha and lambda are meaningless.
    """

    alpha: float
    lambda_: float
    error: float
    pairs: int
    identified: bool = True


def fit_constants(cspmi: ArrayLike, distances: ArrayLike, *, lambda_: float | None = 1.0) -> Constants:
    """Fit alpha, or with `lambda_=None` alpha and lambda, so that sqrt((alpha - csPMI) / lambda) approximates |x - y|.

    Least squares over pairs, as in section 6.2 of Ethayarajh et al. 2019 (who find alpha = -1 for lambda = 1). Under
    perfect reconstruction with context vectors lambda times the word vectors, alpha is 2 log p(x|x), the same for all
    words. Ten pairs determine one constant; they determine two only if csPMI differs much between them.
    """
    c, d = (np.asarray(values, dtype=np.float64).ravel() for values in (cspmi, distances))
    if len(c) != len(d) or not len(c):
        raise UsageError(f"csPMI and distances must have the same length above 0, got {len(c)} and {len(d)}")
    if not (np.isfinite(c).all() and np.isfinite(d).all() and (d > 0).all()):
        raise DegenerateError("every csPMI must be finite and every distance above 0", hint="remove such pairs")
    if lambda_ is None:
        return _fit_both(c, d)
    if not lambda_ > 0:
        raise UsageError(f"lambda must be above 0, got {lambda_}")
    single = c + lambda_ * d**2  # the alpha that fits one pair exactly; the best overall lies between these
    low, high = max(float(single.min()), float(c.max())), float(single.max())
    grid = np.linspace(low, high, STEPS)
    alpha, at_end = _minimise(lambda a: float(((d - np.sqrt(np.maximum(a - c, 0) / lambda_)) ** 2).mean()), grid)
    error = np.sqrt(((d - np.sqrt(np.maximum(alpha - c, 0) / lambda_)) ** 2).mean())
    edge = at_end and low == float(c.max()) and alpha - low < 1e-9
    return Constants(alpha, float(lambda_), float(error), len(c), identified=not edge)


def _fit_both(c: Vector64, d: Vector64) -> Constants:
    if len(c) < 3:
        raise UsageError(f"two constants need at least 3 pairs, got {len(c)}", hint="fix lambda_")

    def scale(alpha: float) -> tuple[float, Vector64]:
        """Return the best 1 / sqrt(lambda) for an alpha: the slope of a line through 0."""
        root = np.sqrt(alpha - c)
        return float((d @ root) / (root @ root)), root

    def loss(alpha: float) -> float:
        slope, root = scale(alpha)
        return float(((d - slope * root) ** 2).mean())

    grid = c.max() + np.geomspace(1e-6, WIDEST, STEPS)
    alpha, at_end = _minimise(loss, grid)
    slope, _ = scale(alpha)
    return Constants(alpha, float(slope**-2), float(np.sqrt(loss(alpha))), len(c), identified=not at_end)


def _minimise(loss: Callable[[float], float], grid: Vector64) -> tuple[float, bool]:
    """Return the minimum, refined between its neighbours on the grid, and whether it is an end of the grid."""
    from scipy.optimize import minimize_scalar

    best = int(np.argmin([loss(value) for value in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    if not low < high:
        return float(grid[best]), False
    refined = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-12 * max(1, abs(high))})
    minimum = float(refined.x) if refined.fun < loss(grid[best]) else float(grid[best])
    return minimum, best in (0, len(grid) - 1)


PAIRS = "ethayarajh2019-pairs"
ALPHA = -1.0  # the paper's fit to its own vectors; fit it again for others
LAMBDA = 1.0


@dataclass(frozen=True)
class Genderedness:
    """The mean over pairs for one word; `value` is None if fewer than `min_pairs` pairs are defined.

    `by_pair` has the value of each pair used, `lost` the reason why each other pair is undefined.
    """

    word: str
    value: float | None
    by_pair: dict[tuple[str, str], float]
    lost: dict[tuple[str, str], str]


def genderedness(
    counts: Cooccurrence,
    words: str | Iterable[str],
    *,
    pairs: PairList | str = PAIRS,
    alpha: float = ALPHA,
    lambda_: float = LAMBDA,
    min_pairs: int = 1,
    least: float = 0.0,
) -> tuple[Genderedness, ...]:
    """Return g(w; x, y) = 1 / sqrt(lambda (alpha - csPMI(x, y))) * log [p(w|x) / p(w|y)], averaged over pairs (x, y).

    Natural logs; p(w|x) = X[w,x] / sum_v X[v,x]. Above 0 is the first member of the pairs (female in the shipped ones;
    the paper's table 2 has male above 0: pass `pairs.flipped()`). A pair is undefined, with a reason, if a word is
    missing, w never co-occurs with x or y (or with a count below `least`), or alpha - csPMI is not above 0.
    `fit_constants` estimates alpha and lambda, `by_chance` returns what neutral words score in a text of this size.

    The value equals the projection of an embedding only if that reconstructs the counts, and the counts must come from
    the same windows, subsampling and minimum count as the training.
    """
    if not lambda_ > 0 or min_pairs < 1:
        raise UsageError(f"lambda must be above 0 and min_pairs at least 1, got {lambda_} and {min_pairs}")
    scales = pair_scales(counts, pairs, alpha=alpha, lambda_=lambda_)
    queries = [words] if isinstance(words, str) else list(words)
    return tuple(_word_genderedness(counts, word, scales, min_pairs, least) for word in queries)


def pair_scales(
    counts: Cooccurrence, pairs: PairList | str = PAIRS, *, alpha: float = ALPHA, lambda_: float = LAMBDA
) -> dict[tuple[str, str], float | str]:
    """Return 1 / sqrt(lambda (alpha - csPMI)) of each pair, or the reason why it is undefined."""
    if isinstance(pairs, str):
        pairs = named_pairs(pairs)
    elif not isinstance(pairs, Pairs):
        pairs = Pairs("own", pairs)
    return {pair: _scale(counts, pair, alpha, lambda_) for pair in dict.fromkeys(pairs)}


def _scale(counts: Cooccurrence, pair: tuple[str, str], alpha: float, lambda_: float) -> float | str:
    if absent := [word for word in pair if word not in counts.index]:
        return f"{absent[0]!r} is not in the text"
    try:
        room = alpha - counts.cspmi(*pair)
    except DegenerateError as error:
        return error.message
    return float(1 / np.sqrt(lambda_ * room)) if room > 0 else f"-csPMI + alpha is {room:.3f}, not above 0"


def _word_genderedness(
    counts: Cooccurrence, word: str, scales: dict[tuple[str, str], float | str], min_pairs: int, least: float
) -> Genderedness:
    row = counts.row(word)
    cooccurrence = counts.matrix[[row]].toarray()[0]
    by_pair: dict[tuple[str, str], float] = {}
    lost: dict[tuple[str, str], str] = {}
    for pair, scale in scales.items():
        value = _log_ratio(counts, cooccurrence, pair, least) if isinstance(scale, float) else scale
        if isinstance(scale, float) and isinstance(value, float):
            by_pair[pair] = scale * value
        else:
            lost[pair] = str(value)
    enough = len(by_pair) >= min_pairs
    return Genderedness(word, float(np.mean(list(by_pair.values()))) if enough else None, by_pair, lost)


def _log_ratio(counts: Cooccurrence, cooccurrence: Vector64, pair: tuple[str, str], least: float) -> float | str:
    rows = [counts.index[word] for word in pair]
    both = cooccurrence[rows]
    if not (both > 0).all():
        return f"never near {pair[int(both[0] > 0)]!r}"
    if not (both >= least).all():
        return f"near {pair[int(both[0] >= least)]!r} with a count below {least:g}"
    conditional = np.log(both) - np.log(counts.marginals[rows])
    return float(conditional[0] - conditional[1])


DRAWS = 50
Events: TypeAlias = NDArray[np.int64]


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
    """Return the mean |genderedness| of words that co-occur with x and y of each pair in proportion to the rows of X.

    The co-occurrences of a word with x and y together are converted to events and divided by a binomial draw, for each
    pair separately; a pair that then lacks one side is undefined, as in `genderedness`. With flat weights a count of 1
    is one event. With weights w(d) by distance it is sum w / sum w^2 events (over the distances of the window, rounded
    to whole events), because a sum of weights varies as much as that many co-occurrences of equal weight. This is a
    lower bound of the noise: words come in bursts, which makes real counts vary more.
    """
    if draws < 1:
        raise UsageError(f"draws must be at least 1, got {draws}")
    scales = pair_scales(counts, pairs, alpha=alpha, lambda_=lambda_)
    used = [(two, scale) for two, scale in scales.items() if isinstance(scale, float)]
    if not used:
        raise DegenerateError(
            "no pair is defined in these counts", hint="; ".join(dict.fromkeys(map(str, scales.values())))
        )
    sides = np.array([[counts.index[word] for word in two] for two, _ in used])
    near = counts.matrix[[counts.row(word) for word in words]][:, sides.ravel()].toarray().reshape(-1, len(used), 2)
    share = counts.marginals[sides]
    events = _events(counts)
    together = np.rint(near.sum(axis=2) * events).astype(np.int64)
    first = np.random.default_rng(seed).binomial(together, share[:, 0] / share.sum(axis=1), (draws, *together.shape))
    scale = np.array([factor for _, factor in used])
    values = _means(first, together - first, np.log(share[:, 0] / share[:, 1]), scale, max(1.0, least * events))
    return float(np.abs(values).mean())


def _means(first: Events, second: Events, expected: Vector64, scale: Vector64, least: float) -> Vector64:
    """Return the mean over defined pairs, for each draw and word that has one."""
    defined = (first >= least) & (second >= least)
    ratio = np.log(np.maximum(first, 1) / np.maximum(second, 1)) - expected
    number = defined.sum(axis=2)
    if not number.any():
        raise DegenerateError(
            "none of these words co-occurs with both words of a pair", hint="use more text, or more frequent words"
        )
    return np.asarray((np.where(defined, ratio * scale, 0).sum(axis=2)[number > 0]) / number[number > 0])


def _events(counts: Cooccurrence) -> float:
    """Return the independent events in a count of 1, which may be more than one if near pairs weigh more."""
    window, weighting = counts.params.get("window"), counts.params.get("weighting")
    if not isinstance(window, int) or not isinstance(weighting, str):
        return 1.0
    by_distance = distance_weights(weighting, window)
    return float(by_distance.sum() / (by_distance**2).sum())
