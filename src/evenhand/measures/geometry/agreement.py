"""How well a division into two clusters agrees with two labels, from the 2 x 2 table of counts."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.arrays import Rows as Labels


def tables(labels: Labels, clusters: Labels) -> Matrix64:
    """Counts (..., 2, 2) of label x cluster along the last axis of both."""
    cells = 2 * labels + clusters
    counts = np.stack([(cells == cell).sum(axis=-1) for cell in range(4)], axis=-1)
    return counts.reshape(*counts.shape[:-1], 2, 2).astype(np.float64)


def accuracy(counts: Matrix64) -> Vector64:
    """The share of words in the right cluster under the better of the two namings: 0.5 is chance, 1 perfect."""
    straight = counts[..., 0, 0] + counts[..., 1, 1]
    total = counts.sum(axis=(-2, -1))
    return np.asarray(np.maximum(straight, total - straight) / total)


def v_measure(counts: Matrix64) -> Vector64:
    """Harmonic mean of homogeneity and completeness (Rosenberg & Hirschberg 2007): 0 independent, 1 perfect.

    It is 2 I / (H(labels) + H(clusters)); one label and one cluster agree perfectly, as the paper defines it.
    """
    shares = counts / counts.sum(axis=(-2, -1), keepdims=True)
    labels, clusters = _entropy(shares.sum(axis=-1)), _entropy(shares.sum(axis=-2))
    shared = labels + clusters - _entropy(shares.reshape(*shares.shape[:-2], 4))
    total = labels + clusters
    return np.asarray(np.divide(2 * shared, total, out=np.ones_like(total), where=total > 0))


def _entropy(shares: Matrix64) -> Vector64:
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray(-(shares * logs).sum(axis=-1))
