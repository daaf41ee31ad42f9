"""Fit the two constants that relate distances of word vectors to counts: csPMI(x, y) = alpha - lambda |x - y|^2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenhand.arrays import Vector64
from evenhand.errors import DegenerateError, UsageError

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
