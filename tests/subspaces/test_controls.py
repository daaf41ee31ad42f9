from __future__ import annotations

import numpy as np
import pytest

from evenhand.errors import UsageError
from evenhand.models.vectors import Vectors
from evenhand.subspaces import gaussian, random_words, words

V = Vectors([f"w{i}" for i in range(30)], np.random.default_rng(1).normal(size=(30, 5)))


def test_the_seed_decides() -> None:
    assert gaussian(10, 3) == gaussian(10, 3)
    assert abs(gaussian(10, 3).cos(gaussian(10, 4))) < 0.999
    assert random_words(V, 3) == random_words(V, 3)
    assert random_words(V, 3).coverage.found != random_words(V, 4).coverage.found


def test_gaussian_directions_are_orthonormal() -> None:
    basis = gaussian(10, 0, k=3).basis
    assert np.allclose(basis @ basis.T, np.eye(3))


def test_random_words_is_the_first_centred_component_of_the_words_drawn() -> None:
    control = random_words(V, 0)
    assert len(control.coverage.found) == 20
    assert abs(control.cos(words(V, control.coverage.found))) == pytest.approx(1)


def test_impossible_draws_are_refused() -> None:
    with pytest.raises(UsageError, match="31 random words from 30"):
        random_words(V, 0, n=31)
    with pytest.raises(UsageError, match="k=3 directions in 2"):
        gaussian(2, k=3)


def test_two_words_are_enough_for_a_random_direction() -> None:
    control = random_words(V, 0, n=2)
    first, second = (V[word] for word in control.coverage.found)
    assert abs(control.cos(np.asarray(first - second))) == pytest.approx(1)
    with pytest.raises(UsageError, match="1 random words"):
        random_words(V, 0, n=1)
