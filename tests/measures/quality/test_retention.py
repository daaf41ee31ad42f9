"""Neighbours kept: 1 on the same vectors, invariant to rotation, counted by hand on a line."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh

WORDS = ["apple", "bread", "cheese", "dough", "egg", "fig"]


def table(angles: list[float]) -> eh.Vectors:
    return eh.Vectors(WORDS, np.stack([np.cos(angles), np.sin(angles)], axis=1))


def test_nothing_changed() -> None:
    vectors = table([0.0, 0.1, 0.3, 0.7, 1.2, 1.4])
    assert eh.measures.retention(vectors, WORDS, k=2).value == 1.0


def test_by_hand() -> None:
    before = table([0.0, 0.1, 0.25, 1.0, 1.2, 1.45])
    # Only fig moves, from beside egg to beside apple: apple, bread and cheese keep their two nearest among themselves
    # but for apple, whose second nearest becomes fig; dough loses fig; egg loses fig; fig loses both.
    after = table([0.0, 0.1, 0.25, 1.0, 1.2, -0.15])
    m = eh.measures.retention(after, WORDS, k=2, reference=before)
    by_word = {item["word"]: 1 + item["value"] for item in m.items}
    assert by_word == pytest.approx({"apple": 0.5, "bread": 1, "cheese": 1, "dough": 0.5, "egg": 0.5, "fig": 0})
    assert m.value == pytest.approx(3.5 / 6)


@given(st.integers(0, 2**32 - 1))
def test_a_rotation_keeps_every_neighbour(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = eh.Vectors(WORDS, rng.normal(size=(6, 4)))
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    turned = vectors.with_matrix(vectors.matrix @ turn)
    assert eh.measures.retention(turned, WORDS, k=2, reference=vectors).value == pytest.approx(1.0, abs=1e-9)


def test_too_few_words() -> None:
    m = eh.measures.retention(table([0.0, 0.1, 0.3, 0.7, 1.2, 1.4]), WORDS, k=6)
    assert m.status == "undefined"
    assert "6 neighbours" in m.reason
