"""Ranks along rows, equal values sharing their mean rank."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Floats, Matrix64


def mean_ranks(values: Floats) -> Matrix64:
    """Ranks from 1 along the last axis; equal values get the mean of the ranks they take up.

    >>> import numpy as np
    >>> mean_ranks(np.array([10.0, 30.0, 10.0, 20.0])).tolist()
    [1.5, 4.0, 1.5, 3.0]
    """
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    width = values.shape[-1]
    place = np.broadcast_to(np.arange(width), values.shape)
    new = np.ones(values.shape, dtype=bool)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    last = np.ones(values.shape, dtype=bool)
    last[..., :-1] = new[..., 1:]
    start = np.maximum.accumulate(np.where(new, place, 0), axis=-1)
    end = np.minimum.accumulate(np.where(last, place, width)[..., ::-1], axis=-1)[..., ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (start + end) / 2 + 1, axis=-1)
    return ranks
