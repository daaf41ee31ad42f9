"""How much of the bias of one corpus is found in another: the regression of section 3.3.2 of Bordia & Bowman 2019."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Vector64
from evenhand.errors import DegenerateError, counted
from evenhand.stats import theil_sen

OUTLIER = 3.0  # standard deviations on either axis; the paper removes outliers without saying by which rule
ENOUGH = 3


class Beta(float):
    """The slope of bias(w) on the bias of the same words in the other corpus; as a number, the one without outliers.

    bias(w) = beta * other(w) + c, by least squares over the words scored in both. 1 is "as biased as the other", more
    is amplified, 0 unrelated. What it does not tell you: noise in the other corpus's scores pulls beta towards 0, so
    that a small or short corpus looks less biased; compare corpora of equal size.

    Attributes:
        trimmed: slope without the words beyond 3 standard deviations on either axis (the number itself).
        untrimmed: slope over all words.
        theil_sen: median of the slopes between all pairs of words, which outliers do not move; above about 6,300 words
            between 20 million pairs drawn with the seed.
        theil_sen_interval: its 95 % interval.
        intercept: of the trimmed line.
        words: scored in both.
        removed: of them outliers.
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
            raise too_few(len(x))
        slope, intercept, kept = trimmed_line(x, y)
        robust = theil_sen(x, y, seed=seed)
        made = super().__new__(cls, slope)
        made.trimmed, made.untrimmed, made.intercept = slope, _least_squares(x, y)[0], intercept
        made.theil_sen, made.theil_sen_interval = robust.slope, robust.interval
        made.words, made.removed = len(x), int(np.count_nonzero(~kept))
        return made

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        names = ("trimmed", "untrimmed", "theil_sen", "theil_sen_interval", "intercept", "words", "removed")
        return {name: getattr(self, name) for name in names}


def too_few(words: int, min_count: int = 1) -> DegenerateError:
    """The error for scores that have too few words in common."""
    lower = f"lower min_count ({min_count} now); " if min_count > 1 else ""
    return DegenerateError(
        f"only {counted(words, 'word')} {'is' if words == 1 else 'are'} scored in both corpora, too few for a slope",
        hint=f"{lower}use more text; of text that a model writes, more or longer samples",
    )


def shared(one: Mapping[str, float], other: Mapping[str, float]) -> tuple[list[str], Vector64, Vector64]:
    """The words scored in both, and their scores in the one and the other."""
    words = [word for word in one if word in other]
    return words, np.array([one[word] for word in words]), np.array([other[word] for word in words])


def trimmed_line(x: Vector64, y: Vector64) -> tuple[float, float, NDArray[np.bool_]]:
    """Slope and intercept by least squares without outliers, and which points were kept."""
    kept = (_away(x) <= OUTLIER) & (_away(y) <= OUTLIER)
    return *_least_squares(x[kept], y[kept]), kept


def _away(values: Vector64) -> Vector64:
    spread = values.std(ddof=1)
    return np.abs(values - values.mean()) / spread if spread > 0 else np.zeros_like(values)


def _least_squares(x: Vector64, y: Vector64) -> tuple[float, float]:
    away = x - x.mean()
    square = float(away @ away)
    if not square > 0:
        raise DegenerateError("all words have the same score in the other corpus, so that no slope is defined")
    slope = float(away @ (y - y.mean())) / square
    return slope, float(y.mean() - slope * x.mean())
