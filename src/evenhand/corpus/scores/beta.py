"""Regress the scores of one corpus on those of another (Bordia & Bowman 2019, section 3.3.2)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Vector64
from evenhand.errors import DegenerateError, counted
from evenhand.stats import theil_sen

OUTLIER = 3.0  # standard deviations on either axis; the paper does not state its rule
ENOUGH = 3


class Beta(float):
    """Slope of bias(w) on the bias of the same words in another corpus; the float itself is the trimmed slope.

    bias(w) = beta * other(w) + c, by least squares over the words scored in both. 1 means equally biased, above 1
    amplified, 0 unrelated. Noise in the other corpus's scores pulls beta towards 0, so that a small corpus looks less
    biased: compare corpora of equal size.

    Attributes:
        trimmed: slope without the words beyond 3 standard deviations on either axis.
        untrimmed: slope over all words.
        theil_sen: median of the slopes between all pairs of words, robust to outliers; above about 6,300 words, between
            20 million pairs sampled with the seed.
        theil_sen_interval: 95 % interval of the Theil-Sen slope.
        intercept: intercept of the trimmed line.
        words: number of words scored in both corpora.
        removed: number of words removed as outliers.
    """

    trimmed: float
    untrimmed: float
    theil_sen: float
    theil_sen_interval: tuple[float, float]
    intercept: float
    words: int
    removed: int

    def __new__(cls, x: Vector64, y: Vector64, *, seed: int = 0) -> Beta:
        """Regress y (this corpus) on x (the other)."""
        if len(x) < ENOUGH:
            raise too_few_words(len(x))
        slope, intercept, inliers = trimmed_line(x, y)
        robust = theil_sen(x, y, seed=seed)
        beta = super().__new__(cls, slope)
        beta.trimmed, beta.untrimmed, beta.intercept = slope, _least_squares(x, y)[0], intercept
        beta.theil_sen, beta.theil_sen_interval = robust.slope, robust.interval
        beta.words, beta.removed = len(x), int(np.count_nonzero(~inliers))
        return beta

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        names = ("trimmed", "untrimmed", "theil_sen", "theil_sen_interval", "intercept", "words", "removed")
        return {name: getattr(self, name) for name in names}


def too_few_words(words: int, min_count: int = 1) -> DegenerateError:
    """Return the error for scores that have too few words in common."""
    lower = f"lower min_count (currently {min_count}); " if min_count > 1 else ""
    return DegenerateError(
        f"only {counted(words, 'word')} {'is' if words == 1 else 'are'} scored in both corpora, too few for a slope",
        hint=f"{lower}use more text; for generated text, more or longer samples",
    )


def shared_scores(one: Mapping[str, float], other: Mapping[str, float]) -> tuple[list[str], Vector64, Vector64]:
    """Return the words scored in both corpora, and their scores in each."""
    words = [word for word in one if word in other]
    return words, np.array([one[word] for word in words]), np.array([other[word] for word in words])


def trimmed_line(x: Vector64, y: Vector64) -> tuple[float, float, NDArray[np.bool_]]:
    """Return slope and intercept by least squares without outliers, and which points are inliers."""
    inliers = (_deviation(x) <= OUTLIER) & (_deviation(y) <= OUTLIER)
    return *_least_squares(x[inliers], y[inliers]), inliers


def _deviation(values: Vector64) -> Vector64:
    spread = values.std(ddof=1)
    return np.abs(values - values.mean()) / spread if spread > 0 else np.zeros_like(values)


def _least_squares(x: Vector64, y: Vector64) -> tuple[float, float]:
    centred = x - x.mean()
    square = float(centred @ centred)
    if not square > 0:
        raise DegenerateError("all words have the same score in the other corpus, so the slope is undefined")
    slope = float(centred @ (y - y.mean())) / square
    return slope, float(y.mean() - slope * x.mean())
