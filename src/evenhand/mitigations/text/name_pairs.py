"""Pair first names of two groups by frequency and by how specific they are (Hall Maudslay et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from evenhand.arrays import Matrix64


def pair_names(
    first: Sequence[str], second: Sequence[str], first_features: Matrix64, second_features: Matrix64
) -> tuple[tuple[str, str], ...]:
    """Return the one-to-one pairing with the smallest sum of squared distances between the features of the names.

    Features are standardised over all names. Where the lists differ in length, names of the longer one stay without a
    counterpart.

    Args:
        first: names of the first group.
        second: names of the second group.
        first_features: one row for each name, such as log frequency and share of the bearers that are of the group.
        second_features: the same for the second group.
    """
    scale = np.concatenate([first_features, second_features]).std(axis=0)
    scale[scale == 0] = 1
    a, b = first_features / scale, second_features / scale
    distances = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
    rows, columns = linear_sum_assignment(distances)
    return tuple((first[row], second[column]) for row, column in zip(rows, columns, strict=True))
