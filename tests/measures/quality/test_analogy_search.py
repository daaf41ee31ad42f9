from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.measures.quality import analogy as search
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.neighbours import unit_float32


def world(seed: int, words: int, queries: int) -> tuple[Vectors, np.ndarray]:
    rng = np.random.default_rng(seed)
    v = Vectors([f"w{i}" for i in range(words)], rng.normal(size=(words, 6)))
    return v, np.stack([rng.choice(words, size=3, replace=False) for _ in range(queries)])


@pytest.mark.parametrize("method", ["3cosadd", "3cosmul"])
@given(seed=st.integers(0, 999))
def test_all_at_once_answers_as_one_by_one(method: search.Method, seed: int) -> None:
    v, queries = world(seed, words=25, queries=12)
    result = search.answers(unit_float32(v), queries, method=method)
    for (a, b, c), answer in zip(queries, result, strict=True):
        alone = v.most_similar([v.words[b], v.words[c]], k=1, negative=[v.words[a]], method=method)
        assert v.words[answer] == alone[0][0]


@pytest.mark.parametrize("method", ["3cosadd", "3cosmul"])
def test_the_size_of_a_block_changes_nothing(method: search.Method, monkeypatch: pytest.MonkeyPatch) -> None:
    v, queries = world(5, words=100, queries=80)
    shared = [(0, 1, c) for c in range(2, 60)]  # more questions with one pair than are scored at once
    queries = np.concatenate([queries[:40], shared, queries[40:]])
    whole = search.answers(unit_float32(v), queries, method=method)
    monkeypatch.setattr(search, "CANDIDATES_AT_ONCE", 7)
    monkeypatch.setattr(search, "QUESTIONS_AT_ONCE", 3)
    assert search.answers(unit_float32(v), queries, method=method).tolist() == whole.tolist()


def test_equal_scores_go_to_the_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    v = Vectors(["a", "b", "c", "far", "d", "same as d"], [[1, 0], [0, 1], [1, 0], [-1, -1], [0, 1], [0, 1]])
    monkeypatch.setattr(search, "CANDIDATES_AT_ONCE", 5)
    assert search.answers(unit_float32(v), np.array([[0, 1, 2]])).tolist() == [4]
