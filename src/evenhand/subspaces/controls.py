"""Random controls: what removing some direction, any direction, does by itself."""

from __future__ import annotations

import numpy as np

from evenhand.errors import UsageError
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces.principal import principal
from evenhand.subspaces.subspace import Subspace


def gaussian(dim: int, seed: int = 0, *, k: int = 1) -> Subspace:
    """Random directions, uniform over the sphere (normal coordinates, orthonormalised).

    The control of Dev et al. 2019 for BERT. It ignores where the vectors lie: in a space with a few strong directions
    most random ones carry almost no variance, so that removing one of them changes little.
    """
    if dim < 1 or not 1 <= k <= dim:
        raise UsageError(f"{k} random directions in {dim} dimensions make no sense", hint="1 <= k <= dim")
    rows = np.random.default_rng(seed).standard_normal((k, dim))
    return principal(rows, k=k, how="gaussian", params={"seed": seed})


def random_words(v: Vectors, seed: int = 0, *, n: int = 20, k: int = 1) -> Subspace:
    """The first k centred principal components of n words drawn at random from the vocabulary.

    The control of Dev et al. 2019 for GloVe (n=20, k=1): it does follow where the vectors lie. The draw is uniform
    over the vocabulary, so that a long tail of rare words makes up most of it.
    """
    if not 2 <= n <= len(v):
        raise UsageError(f"cannot draw {n} random words from {len(v):,}", hint="2 <= n <= size of the vocabulary")
    chosen = np.random.default_rng(seed).choice(len(v), size=n, replace=False)
    rows = v.matrix[chosen].astype(np.float64)
    found = tuple(v.words[int(row)] for row in chosen)
    params = {"seed": seed, "n": n, "centre": True}
    return principal(rows - rows.mean(axis=0), k=k, how="random-words", params=params, coverage=Coverage(found))
