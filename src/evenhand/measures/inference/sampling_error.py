"""How far a stratified sample may be from the whole probe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64
from evenhand.stats import wilson
from evenhand.stats.bootstrap import LEVEL
from evenhand.words.probes import Sample


@dataclass(frozen=True)
class SampledValues:
    """The columns of the sampled pairs, and the sample they belong to."""

    sample: Sample
    values: Matrix64

    def reach(self, rows: Rows | None = None) -> Vector64:
        """Half the width of the 95 % interval for the mean of every column, over all sampled pairs or some of them."""
        error, quantile, _ = self._error(rows)
        return error * quantile

    def bounds(self, rows: Rows | None = None) -> Matrix64:
        """(2, columns): the 95 % interval for the mean of every column, probabilities and shares, inside 0 and 1.

        Of a column of zeros and ones it is Wilson's interval for as many independent pairs as have the same standard
        error: around a share of 0 the plain one would be a single point, or reach below 0.
        """
        error, quantile, size = self._error(rows)
        values = self.values if rows is None else self.values[rows]
        mean = values.mean(axis=0)
        found = np.stack([mean - quantile * error, mean + quantile * error])
        shares = ((values == 0) | (values == 1)).all(axis=0)
        found[:, shares] = wilson(mean[shares], worth(mean[shares], error[shares], size), quantile=quantile)
        return np.asarray(np.clip(found, 0.0, 1.0))

    def _error(self, rows: Rows | None) -> tuple[Vector64, float, float]:
        """Standard error of every column, Student's quantile, and the size of an infinite population's sample.

        The error is sqrt(sum_s (n_s / n)^2 (1 - f) v_s / n_s) with the variance v_s inside stratum s and the share f of
        pairs that was asked; there are as many degrees of freedom as pairs more than strata. A stratum with a single
        pair has no variance and takes the mean of the others'.
        """
        chosen = np.arange(len(self.values)) if rows is None else rows
        stratum, values = self.sample.stratum[chosen], self.values[chosen]
        _, code = np.unique(stratum, return_inverse=True)
        n = np.bincount(code)[:, None].astype(np.float64)
        means, squares = _by(code, values, len(n)) / n, _by(code, values**2, len(n)) / n
        spread = np.maximum(squares - means**2, 0)
        variance = np.divide(spread * n, n - 1, out=np.full_like(spread, np.nan), where=n > 1)
        known = np.isfinite(variance[:, 0])
        if not known.any():
            return np.full(values.shape[1], np.nan), 1.0, float(len(values))
        variance[~known] = variance[known].mean(axis=0)
        left = 1 - self.sample.per_stratum / self.sample.stratum_size
        error = np.sqrt(((n / len(values)) ** 2 * left * variance / n).sum(axis=0))
        return error, float(stdtrit(len(values) - len(n), (1 + LEVEL) / 2)), len(values) / left


def worth(share: Vector64, error: Vector64, size: float) -> Vector64:
    """How many independent pairs have these standard errors; `size` where shares of 0 or 1 leave none to tell."""
    spread = share * (1 - share)
    ordinary = (error > 0) & (spread > 0)
    n = np.divide(spread, error**2, out=np.full_like(spread, size), where=ordinary)
    return np.where(np.isfinite(error), n, np.nan)


def _by(code: Rows, values: Matrix, count: int) -> Matrix64:
    columns = [np.bincount(code, weights=column, minlength=count) for column in values.T]
    return np.stack(columns, axis=1)
