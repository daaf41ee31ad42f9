from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evenhand import Vectors
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.models.vectors import neighbours
from evenhand.models.vectors.neighbours import nearest, neighbours_among, unit_float32

WORDS = ["man", "king", "woman", "queen", "pawn"]
V = Vectors(WORDS, [[1, 0, 0.1], [1, 0, 2], [0, 1, 0.1], [0, 1, 2], [-1, -1, 0]])


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int, np.ndarray | None]:
    """Queries and a pool of small whole numbers: their products are exact, and ties are many."""
    dim, width, height = draw(st.integers(1, 3)), draw(st.integers(2, 12)), draw(st.integers(0, 6))
    numbers = st.integers(-2, 2)
    queries = draw(arrays(np.float32, (height, dim), elements=numbers))
    pool = draw(arrays(np.float32, (width, dim), elements=numbers))
    exclude = draw(st.none() | arrays(np.int64, height, elements=st.integers(-1, width - 1)))
    return queries, pool, draw(st.integers(1, width - (exclude is not None))), exclude


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables(), st.integers(1, 100))
def test_nearest_is_brute_force_with_ties_by_row(
    monkeypatch: pytest.MonkeyPatch, table: tuple[np.ndarray, np.ndarray, int, np.ndarray | None], cells: int
) -> None:
    queries, pool, k, exclude = table
    monkeypatch.setattr(neighbours, "BLOCK_CELLS", cells)
    rows, cosines = nearest(queries, pool, k, exclude=exclude)
    for query, found, scores, barred in zip(
        queries, rows, cosines, exclude if exclude is not None else [-1] * len(queries), strict=True
    ):
        products = (pool @ query).tolist()
        allowed = [row for row in range(len(pool)) if row != barred]
        expected = sorted(allowed, key=lambda row: (-products[row], row))[:k]
        assert found.tolist() == expected
        assert scores.tolist() == [products[row] for row in expected]


def test_real_vectors_against_a_full_sort() -> None:
    unit = unit_float32(Vectors.default().head(2000))
    rows, cosines = nearest(unit[:50], unit, 10, exclude=np.arange(50))
    full = unit[:50].astype(np.float64) @ unit.T.astype(np.float64)
    full[np.arange(50), np.arange(50)] = -np.inf
    np.testing.assert_allclose(cosines, -np.sort(-full, axis=1)[:, :10], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(full, rows, axis=1), cosines, atol=1e-6)


def test_no_block_of_similarities_is_larger_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    plain = neighbours._top
    monkeypatch.setattr(neighbours, "_top", lambda block, k: seen.append(block.size) or plain(block, k))
    monkeypatch.setattr(neighbours, "BLOCK_CELLS", 1000)
    unit = np.random.default_rng(0).standard_normal((90, 4)).astype(np.float32)
    whole = nearest(unit, unit, 5)[0]
    assert max(seen) <= 1000
    assert len(seen) == 9
    monkeypatch.setattr(neighbours, "BLOCK_CELLS", 1 << 20)
    np.testing.assert_array_equal(nearest(unit, unit, 5)[0], whole)


@pytest.mark.parametrize(("k", "exclude"), [(0, None), (-1, None), (4, None), (3, np.array([0]))])
def test_more_neighbours_than_there_are_is_refused(k: int, exclude: np.ndarray | None) -> None:
    with pytest.raises(UsageError, match=f"{k} neighbours requested from"):
        nearest(np.ones((1, 2), np.float32), np.ones((3, 2), np.float32), k, exclude=exclude)


def test_unit_rows_of_some_or_all() -> None:
    np.testing.assert_allclose(np.linalg.norm(unit_float32(V), axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(unit_float32(V, np.array([3, 0])), unit_float32(V)[[3, 0]])


def cosines(vectors: Vectors, word: str) -> np.ndarray:
    rows = vectors.matrix.astype(np.float64)
    return rows @ vectors[word] / np.linalg.norm(rows, axis=1) / np.linalg.norm(vectors[word].astype(np.float64))


def ranked(vectors: Vectors, scores: np.ndarray, asked: list[str], k: int) -> list[str]:
    order = np.argsort(-scores, kind="stable")
    return [vectors.words[row] for row in order if vectors.words[row] not in asked][:k]


def test_similarity_by_hand() -> None:
    made = Vectors(["a", "b", "c", "d"], [[1, 0], [3, 4], [0, 2], [-5, 0]])
    answers = made.most_similar("a", k=10)
    assert [word for word, _ in answers] == ["b", "c", "d"]
    np.testing.assert_allclose([score for _, score in answers], [0.6, 0, -1], atol=1e-7)


def test_the_analogy_of_the_textbook_both_ways() -> None:
    assert V.most_similar(["king", "woman"], 1, negative="man")[0][0] == "queen"
    assert V.most_similar(["king", "woman"], 1, negative=["man"], method="3cosmul")[0][0] == "queen"


@pytest.mark.parametrize(
    ("positive", "negative"),
    [(["king", "woman"], ["man"]), (["doctor", "she"], ["he"]), (["paris", "italy"], ["france"])],
)
def test_analogies_are_the_published_formulas(positive: list[str], negative: list[str]) -> None:
    made, asked = Vectors.default().head(5000), [*positive, *negative]
    near = [cosines(made, word) for word in positive]
    far = [cosines(made, word) for word in negative]
    added = sum(near) - sum(far)
    assert [word for word, _ in made.most_similar(positive, negative=negative)] == ranked(made, added, asked, 10)
    multiplied = np.prod([(1 + each) / 2 for each in near], axis=0)
    multiplied = multiplied / np.prod([(1 + each) / 2 + 0.001 for each in far], axis=0)
    answers = made.most_similar(positive, negative=negative, method="3cosmul")
    assert [word for word, _ in answers] == ranked(made, multiplied, asked, 10)
    np.testing.assert_allclose([score for _, score in answers], np.sort(multiplied[[made.index[w] for w, _ in answers]])[::-1], rtol=1e-5)  # fmt: skip


@pytest.mark.parametrize(
    ("positive", "negative"),
    [(["nurse"], []), (["king", "woman"], ["man"]), (["he", "she"], []), (["doctor", "she", "her"], ["he", "him"])],
)
@pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")  # gensim calls its own old method
def test_gensim_gives_the_same_answers_on_the_embedded_vectors(positive: list[str], negative: list[str]) -> None:
    models = pytest.importorskip("gensim.models")
    made = Vectors.default()
    other = models.KeyedVectors(made.dim)
    other.add_vectors(list(made.words), np.array(made.matrix))
    pairs = [
        (made.most_similar(positive, negative=negative), other.most_similar(positive, negative), 1e-4),
        # gensim's denominator has 0.000001 where the paper has 0.001: the same order, scores a little higher.
        (
            made.most_similar(positive, negative=negative, method="3cosmul"),
            other.most_similar_cosmul(positive, negative),
            1e-2,
        ),
    ]
    for ours, theirs, tolerance in pairs:
        assert [word for word, _ in ours] == [word for word, _ in theirs]
        np.testing.assert_allclose([score for _, score in ours], [score for _, score in theirs], rtol=tolerance)


def test_an_invalid_query_is_refused() -> None:
    with pytest.raises(VocabularyError, match="'knight'"):
        V.most_similar("knight")
    with pytest.raises(UsageError, match="0 positive words"):
        V.most_similar([])
    with pytest.raises(UsageError, match="k=0"):
        V.most_similar("king", 0)
    with pytest.raises(UsageError, match="3cosdiv"):
        V.most_similar("king", method="3cosdiv")


def test_a_question_without_a_direction_has_no_answer() -> None:
    with pytest.raises(DegenerateError, match="king, king sum to zero"):
        V.most_similar("king", negative="king")
    with pytest.raises(DegenerateError, match="sum to zero"):
        Vectors(["zero", "one"], [[0, 0], [1, 1]]).most_similar("zero")


def test_the_words_of_the_question_are_never_answers() -> None:
    assert {word for word, _ in V.most_similar(["king", "woman"], 99, negative="man")} == {"queen", "pawn"}
    assert Vectors(["only"], [[1.0]]).most_similar("only") == []


@pytest.mark.parametrize("decimals", [1, 2, 7])
@pytest.mark.parametrize("k", [1, 10, 100, 750])
def test_a_wide_pool_against_a_full_sort(decimals: int, k: int) -> None:
    """The largest values are sought above a limit that a sample gives, whether they are tied, few or far apart."""
    rng = np.random.default_rng(decimals)
    block = np.round(rng.normal(size=(40, 3000)), decimals).astype(np.float32)
    block[0] = 0.0  # all tied
    block[1, : 3000 - k // 2] = -np.inf  # fewer finite ones than k
    block[2, ::16] = 9.0  # the sample sees the largest values only
    block[3] = np.arange(3000)
    expected = np.argsort(-block, axis=1, kind="stable")[:, :k]
    assert np.array_equal(neighbours._top(block, k), expected)


@given(st.integers(0, 999), st.permutations([3, 10, 150]))
@settings(max_examples=10, deadline=None)
def test_remembered_neighbours_are_those_that_are_sought(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    vectors = Vectors([f"w{row}" for row in range(400)], rng.normal(size=(400, 5)))
    pool = np.sort(rng.choice(400, size=300, replace=False))
    own = np.full(400, -1)
    own[pool] = np.arange(300)
    for k in sizes:
        rows = rng.integers(0, 400, size=20)  # some of them twice, some asked before, some outside the pool
        sought, _ = nearest(unit_float32(vectors, rows), unit_float32(vectors, pool), k, exclude=own[rows])
        np.testing.assert_array_equal(neighbours_among(vectors, rows, pool, k), sought)


def test_neighbours_are_sought_once(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = Vectors([f"w{row}" for row in range(50)], np.random.default_rng(0).normal(size=(50, 4)))
    pool = np.arange(40)
    first = neighbours_among(vectors, np.arange(10), pool, 5)
    monkeypatch.setattr("evenhand.models.vectors.neighbours.nearest", None)
    np.testing.assert_array_equal(neighbours_among(vectors, np.arange(3, 10), pool, 3), first[3:, :3])
    assert neighbours_among(vectors, np.array([], dtype=np.int64), pool, 5).shape == (0, 5)
    with pytest.raises(UsageError, match=r"k=40 neighbours requested from 39 words"):
        neighbours_among(vectors, np.arange(10), pool, 40)


def test_neighbours_are_not_pickled_with_vectors() -> None:
    vectors = Vectors([f"w{row}" for row in range(9)], np.random.default_rng(0).normal(size=(9, 4)))
    neighbours_among(vectors, np.arange(9), np.arange(9), 2)
    assert not pickle.loads(pickle.dumps(vectors)).known_neighbours


def test_threads_that_share_vectors_find_the_same_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = Vectors([f"w{row}" for row in range(60)], np.random.default_rng(0).normal(size=(60, 4)))
    pool, both = np.arange(60), Barrier(2)
    alone = neighbours_among(Vectors(vectors.words, vectors.matrix), np.arange(40), pool, 3)

    def slowly(*arguments: object, **options: object) -> object:
        both.wait(timeout=10)  # both threads have seen that nothing is known yet
        return nearest(*arguments, **options)

    monkeypatch.setattr(neighbours, "nearest", slowly)
    parts = [np.arange(25), np.arange(15, 40)]
    with ThreadPoolExecutor(2) as pool_of_threads:
        found = list(pool_of_threads.map(lambda rows: neighbours_among(vectors, rows, pool, 3), parts))
    for rows, each in zip(parts, found, strict=True):
        np.testing.assert_array_equal(each, alone[rows])
    np.testing.assert_array_equal(neighbours_among(vectors, np.arange(40), pool, 3), alone)


def test_threads_share_the_blocks_and_find_what_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    monkeypatch.setattr(neighbours, "BLOCK_CELLS", 40 * len(unit))
    used: list[int] = []
    for count in (1, 3):
        monkeypatch.setattr(neighbours, "threads", lambda count=count: used.append(count) or count)
        indices, cosines = nearest(unit, unit, 5, exclude=np.arange(300))
        expected = np.argsort(-(unit @ unit.T + np.diag([-np.inf] * 300)), axis=1, kind="stable")[:, :5]
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_allclose(cosines, np.take_along_axis(unit @ unit.T, indices, axis=1), atol=1e-6)
    assert used == [1, 3]
