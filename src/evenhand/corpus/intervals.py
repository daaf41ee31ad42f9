"""Bootstrap intervals of word scores over documents, from counts kept for parts of the corpus.

Documents are dealt out to `PARTS` sets in turn; a draw takes that many sets with replacement. With fewer documents than
sets each document is its own set and this is the plain bootstrap over documents. Memory is that of one sparse row for
each set, whatever the number of documents and draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Rows
from evenhand.corpus.parts import Parts
from evenhand.corpus.scores import Normalisation, log_ratio, offset, one_against_rest
from evenhand.stats.bootstrap import ENOUGH, LEVEL

PARTS = 100
WORDS_AT_ONCE = 1 << 11


def word_intervals(
    parts: Parts, words: Rows, group: int, *, how: Normalisation, smoothing: float, resamples: int, seed: int
) -> Matrix64:
    """(2, words): lower and upper bound, NaN where too many draws lose the word from one of the groups."""
    weights = _draws(parts, resamples, seed)
    totals = np.stack([weights @ np.asarray(matrix.sum(axis=1)) for matrix in parts.company])
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = offset(
            how,
            one_against_rest(totals, group),
            one_against_rest(parts.hits @ weights.T, group),
            smoothing=smoothing,
            vocabulary=parts.company[0].shape[1],
        )
    slices = [words[start : start + WORDS_AT_ONCE] for start in range(0, max(len(words), 1), WORDS_AT_ONCE)]
    return np.concatenate(
        [_bounds(weights, [m[:, some] for m in parts.company], group, shift, smoothing) for some in slices], axis=1
    )


def _draws(parts: Parts, resamples: int, seed: int) -> Matrix64:
    """How often each part is drawn: (resamples, parts); parts without any company are not there to be drawn."""
    used = np.flatnonzero(parts.hits.sum(axis=0))
    weights = np.zeros((resamples, parts.hits.shape[1]))
    chances = np.full(len(used), 1 / len(used))
    weights[:, used] = np.random.default_rng(seed).multinomial(len(used), chances, size=resamples)
    return weights


def _bounds(weights: Matrix64, slices: list[Any], group: int, shift: Any, smoothing: float) -> Matrix64:
    company = one_against_rest(np.stack([(matrix.T @ weights.T).T for matrix in slices]), group)
    values = log_ratio(company, shift[:, None], smoothing)
    values[~np.isfinite(values)] = np.nan
    share = np.isfinite(values).mean(axis=0)
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    bounds = np.full((2, values.shape[1]), np.nan)
    whole, part = share == 1, (share >= ENOUGH) & (share < 1)
    bounds[:, whole] = np.quantile(values[:, whole], ends, axis=0)
    bounds[:, part] = np.nanquantile(values[:, part], ends, axis=0)
    return bounds
