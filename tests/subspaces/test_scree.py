from __future__ import annotations

import json

import numpy as np
import pytest

from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace, stability, words

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
