"""How far a stratified sample may be from the whole probe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64
from evenhand.stats.bootstrap import LEVEL
from evenhand.words.probes import Sample


@dataclass(frozen=True)
class SampledValues:
    """The columns of the sampled pairs, and the sample they belong to."""

    sample: Sample
    values: Matrix64

    def reach(self, rows: Rows | None = None) -> Vector64:
        """Half the width of the 95 % interval for the mean of every column, over all sampled pairs or some of them.

        Student's quantile for as many degrees of freedom as there are pairs more than strata, times the standard error

        sqrt(sum_s (n_s / n)^2 (1 - f) v_s / n_s) with the variance v_s inside stratum s and the share f of pairs that
        was asked. A stratum with a single pair has no variance and takes the mean of the others'.
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
            return np.full(values.shape[1], np.nan)
        variance[~known] = variance[known].mean(axis=0)
        asked = self.sample.per_stratum / self.sample.stratum_size
        standard_error = np.sqrt(((n / len(values)) ** 2 * (1 - asked) * variance / n).sum(axis=0))
        return np.asarray(stdtrit(len(values) - len(n), (1 + LEVEL) / 2) * standard_error)


def _by(code: Rows, values: Matrix, count: int) -> Matrix64:
    columns = [np.bincount(code, weights=column, minlength=count) for column in values.T]
    return np.stack(columns, axis=1)
