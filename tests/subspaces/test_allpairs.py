from __future__ import annotations

import numpy as np
import pytest

from evenhand.errors import DegenerateError, VocabularyError
from evenhand.models.vectors import Vectors
from evenhand.subspaces import names

RNG = np.random.default_rng(5)
F, M = [f"f{i}" for i in range(7)], [f"m{i}" for i in range(5)]
V = Vectors(F + M, np.vstack([RNG.normal(size=(7, 6)) + 1.5, RNG.normal(size=(5, 6))]), name="toy")


def all_differences() -> np.ndarray:
    f, m = V.take(F)[0], V.take(M)[0]
    return (f[:, None] - m[None]).reshape(-1, V.dim)


@pytest.mark.parametrize("centre", [True, False])
def test_the_covariance_identity_equals_brute_force(centre: bool) -> None:
    rows = all_differences()
    rows = rows - rows.mean(axis=0) if centre else rows
    _, values, directions = np.linalg.svd(rows, full_matrices=False)
    learned = names(V, F, M, centre=centre)
    assert np.allclose(learned.strength, values[:4])
    assert np.allclose(learned.explained, (values**2 / (values**2).sum())[:4])  # over all dimensions, not the kept four
    assert np.allclose(np.abs(learned.basis @ directions[:4].T), np.eye(4), atol=1e-9)


def test_every_direction_points_to_the_first_list() -> None:
    between = all_differences().mean(axis=0)
    for centre in (True, False):
        learned = names(V, F, M, centre=centre)
        assert (learned.basis @ between > 0).all()
        cosines = learned.basis @ between / np.linalg.norm(between)
        assert np.allclose(learned.params["cos_mean_difference"], cosines)


def test_centring_loses_the_mean_difference_and_not_centring_finds_it() -> None:
    far = Vectors(F + M, np.vstack([RNG.normal(size=(7, 6)) + 30 * np.eye(6)[0], RNG.normal(size=(5, 6))]))
    assert names(far, F, M, k=1, centre=False).params["cos_mean_difference"][0] > 0.99
    assert names(far, F, M, k=1, centre=True).params["cos_mean_difference"][0] < 0.9


def test_lost_names_are_counted_and_a_lost_list_is_an_error() -> None:
    assert names(V, [*F, "zoe"], M).coverage.missing == ("zoe",)
    with pytest.raises(VocabularyError, match="second list of names: zoe"):
        names(V, F, ["zoe"])


def test_one_name_a_side_has_nothing_left_when_centred() -> None:
    with pytest.raises(DegenerateError, match="all differences are equal"):
        names(V, F[:1], M[:1], k=1)
    assert names(V, F[:1], M[:1], k=1, centre=False).k == 1
