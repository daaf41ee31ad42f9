from __future__ import annotations

import json

import numpy as np
import pytest

from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace, pairs, scree, stability, words

V = Vectors(
    ["a", "b", "c", "d", "e", "f", "z"],
    [[4, 0, 0], [0, 0, 0], [0, 2, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]],
)
PAIRS = [("a", "b"), ("c", "d"), ("e", "f")]


def test_pairs_by_hand() -> None:
    # differences (4,0,0), (0,2,0), (0,0,1); removed: 60 degrees from the first axis
    removed = Subspace.given([[0.5, np.sqrt(0.75), 0.0]])
    row = stability(V, PAIRS, removed)
    assert row.ratios == pytest.approx((0.5, 0.25))
    assert row.variance_ratios == pytest.approx((0.25, 0.0625))
    assert row.cosine == pytest.approx(0.5)
    assert row.cosine_subspace == pytest.approx(0.5)
    assert row.how == "pairs"


def test_words_are_centred() -> None:
    full = ["a", "c", "e", "z"]
    row = stability(V, full, Subspace.given([[1.0, 0.0, 0.0]]))
    spectrum = words(V, full).spectrum
    assert row.ratios == pytest.approx(tuple(spectrum[1:4] / spectrum[0]))
    assert row.how == "words"


def test_two_removed_directions_are_compared_with_the_first_and_with_both() -> None:
    removed = Subspace(np.eye(3)[[1, 0]], [2.0, 1.0], [0.8, 0.2])
    row = stability(V, PAIRS, removed)
    assert row.cosine == pytest.approx(0)
    assert row.cosine_subspace == pytest.approx(1)


def test_the_record_has_the_papers_columns() -> None:
    row = stability(V, words(V, ["a", "c", "e", "z"]), Subspace.given([[1.0, 0.0, 0.0]]))
    record = json.loads(json.dumps(row.to_dict()))
    assert record["2nd"] == pytest.approx(row.ratios[0])
    assert {"cosine", "3rd", "variance_ratios", "coverage"} <= record.keys()


def test_shares_of_pairs_by_hand_and_of_random_pairs_by_chance() -> None:
    # squared lengths 16, 4 and 1 on three axes
    found = scree(V, pairs(V, PAIRS), draws=20)
    assert found.shares == pytest.approx((16 / 21, 4 / 21, 1 / 21), abs=1e-5)
    assert found.pairs == 3
    assert all(
        low <= mean <= high for low, mean, high in zip(found.random_low, found.random, found.random_high, strict=True)
    )
    json.dumps(found.to_dict())


def test_random_pairs_of_an_isotropic_cloud_have_no_common_direction() -> None:
    rng = np.random.default_rng(0)
    axis = np.eye(30)[0]
    cloud = rng.normal(size=(200, 30))
    cloud[:10] = cloud[10:20] + 8 * axis  # ten planted pairs
    v = Vectors([f"w{number}" for number in range(200)], cloud)
    planted = scree(v, pairs(v, [(f"w{n}", f"w{n + 10}") for n in range(10)]))
    assert planted.shares[0] == pytest.approx(1.0)
    assert planted.random_high[0] < 0.5
    assert sum(planted.random) == pytest.approx(1, abs=1e-4)
    assert scree(v, pairs(v, [("w50", "w60"), ("w51", "w61")]), seed=1) == scree(
        v, pairs(v, [("w50", "w60"), ("w51", "w61")]), seed=1
    )
