"""A small vocabulary with gender planted along known coordinates, and the real vectors where they are at hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from evenhand.data import locate
from evenhand.models.vectors import Vectors

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PAIRS = (("she", "he"), ("woman", "man"), ("girl", "boy"))
Planted = Callable[..., Vectors]


def made_up(prefix: str, n: int) -> list[str]:
    return [prefix + "q" + LETTERS[i // 26] + LETTERS[i % 26] for i in range(n)]


@pytest.fixture(scope="session")
def planted() -> Planted:
    """20 words a side: +-`first` along coordinate 0 (she - he), +-`second` along 1, which no pair shows; the rest noise."""

    def make(seed: int = 0, *, n: int = 20, dim: int = 8, first: float = 3.0, second: float = 3.0) -> Vectors:
        rng = np.random.default_rng(seed)
        sides = np.repeat([1.0, -1.0], n)
        rows = rng.normal(scale=0.5, size=(2 * n, dim))
        rows[:, 0] += first * sides
        rows[:, 1] += second * sides
        poles = rng.normal(scale=0.2, size=(2 * len(PAIRS), dim))
        poles[:, 1] = 0
        poles[:, 2] += 2
        poles[:, 0] += np.tile([2.0, -2.0], len(PAIRS))
        poles[1] = poles[0] - 4 * np.eye(dim)[0]  # she - he is exactly coordinate 0
        words = [word for pair in PAIRS for word in pair] + made_up("f", n) + made_up("m", n)
        return Vectors(words, np.vstack([poles, rows]), name="planted")

    return make


@pytest.fixture(scope="session")
def googlenews() -> Vectors:
    path = locate("googlenews-small")
    if path is None:
        pytest.skip("googlenews-small is neither in EVENHAND_DATA nor fetched")
    return Vectors.load(path)
