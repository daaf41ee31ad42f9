"""Sampling error of a stratified sample of pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64
from evenhand.stats import wilson
from evenhand.stats.bootstrap import LEVEL
from evenhand.words.probes import Sample


@dataclass(frozen=True)
class SampleStatistics:
    """The statistics of the sampled pairs, one column each, and the sample they belong to."""

    sample: Sample
    values: Matrix64

    def half_width(self, rows: Rows | None = None) -> Vector64:
        """Return half the width of the 95 % interval for every column mean, over all sampled pairs or some rows."""
        error, quantile, _ = self._error(rows)
        return error * quantile

    def bounds(self, rows: Rows | None = None) -> Matrix64:
        """Return the (2, columns) 95 % intervals for the column means, clipped to [0, 1].

        Columns of zeros and ones get Wilson's interval for the number of independent pairs with the same standard
        error. Around a share of 0 the normal interval would be a single point or extend below 0.
        """
        error, quantile, full = self._error(rows)
        values = self.values if rows is None else self.values[rows]
        mean = values.mean(axis=0)
        bounds = np.stack([mean - quantile * error, mean + quantile * error])
        shares = ((values == 0) | (values == 1)).all(axis=0)
        size = effective_size(mean[shares], error[shares], full)
        bounds[:, shares] = wilson(mean[shares], size, quantile=quantile)
        return np.asarray(np.clip(bounds, 0.0, 1.0))

    def _error(self, rows: Rows | None) -> tuple[Vector64, float, float]:
        """Return the standard error of every column, Student's quantile, and the equivalent infinite-population size.

        The error is sqrt(sum_s (n_s / n)^2 (1 - f) v_s / n_s) with the variance v_s within stratum s and the sampled
        fraction f. The degrees of freedom are pairs minus strata. A stratum with a single pair takes the mean variance
        of the others.
        """
        rows = np.arange(len(self.values)) if rows is None else rows
        stratum, values = self.sample.stratum[rows], self.values[rows]
        _, code = np.unique(stratum, return_inverse=True)
        n = np.bincount(code)[:, None].astype(np.float64)
        means, squares = _sum_by(code, values, len(n)) / n, _sum_by(code, values**2, len(n)) / n
        spread = np.maximum(squares - means**2, 0)
        variance = np.divide(spread * n, n - 1, out=np.full_like(spread, np.nan), where=n > 1)
        defined = np.isfinite(variance[:, 0])
        if not defined.any():
            return np.full(values.shape[1], np.nan), 1.0, float(len(values))
        variance[~defined] = variance[defined].mean(axis=0)
        left = 1 - self.sample.per_stratum / self.sample.stratum_size
        error = np.sqrt(((n / len(values)) ** 2 * left * variance / n).sum(axis=0))
        return error, float(stdtrit(len(values) - len(n), (1 + LEVEL) / 2)), len(values) / left


def effective_size(share: Vector64, error: Vector64, size: float) -> Vector64:
    """Return the number of independent pairs with these standard errors; `size` for shares of 0 or 1."""
    spread = share * (1 - share)
    ordinary = (error > 0) & (spread > 0)
    n = np.divide(spread, error**2, out=np.full_like(spread, size), where=ordinary)
    return np.where(np.isfinite(error), n, np.nan)


def _sum_by(code: Rows, values: Matrix, count: int) -> Matrix64:
    columns = [np.bincount(code, weights=column, minlength=count) for column in values.T]
    return np.stack(columns, axis=1)
