from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from vector_strategies import vectors

from evenhand import Vectors
from evenhand.errors import FormatError, UsageError, VocabularyError

V = Vectors(["he", "she", "Zoë"], [[1.0, 0.0], [3.0, 4.0], [0.0, 0.0]], name="three", source={"from": "hand"})


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint16, ">f4", np.longdouble])
def test_numbers_of_any_width_become_float32(dtype: str) -> None:
    made = Vectors(["a", "b"], np.array([[1, 2], [3, 4]], dtype))
    assert made.matrix.dtype == np.float32
    np.testing.assert_array_equal(made.matrix, [[1, 2], [3, 4]])


def test_float32_is_kept_and_not_copied() -> None:
    matrix = np.ones((2, 3), np.float32)
    assert np.shares_memory(Vectors(["a", "b"], matrix).matrix, matrix)


def test_what_it_holds() -> None:
    assert (len(V), V.dim, V.words, "she" in V, "She" in V) == (3, 2, ("he", "she", "Zoë"), True, False)
    np.testing.assert_array_equal(V["she"], [3, 4])
    np.testing.assert_array_equal(V.norms, [1, 5, 0])
    np.testing.assert_allclose(V.unit, [[1, 0], [0.6, 0.8], [0, 0]], rtol=1e-6)
    assert V.index == {"he": 0, "she": 1, "Zoë": 2}
    assert repr(V) == "Vectors('three', 3 words x 2)"
    assert "linear -> ?" in repr(
        V.with_matrix(V.matrix, step={"method": "linear"}).with_matrix(V.matrix, step={"k": 1})
    )


@pytest.mark.parametrize("array", ["matrix", "unit", "norms"])
def test_its_arrays_cannot_be_written_to(array: str) -> None:
    for made in (V, pickle.loads(pickle.dumps(V)), copy.deepcopy(V)):
        with pytest.raises(ValueError, match="read-only"):
            getattr(made, array)[0] = 9
    with pytest.raises(ValueError, match="read-only"):
        V["he"][0] = 9


@pytest.mark.parametrize("name", ["matrix", "words", "name", "history", "index", "anything"])
def test_its_attributes_cannot_be_set(name: str) -> None:
    with pytest.raises(FrozenInstanceError, match=name):
        setattr(V, name, 1)


def test_it_survives_pickling_and_copying() -> None:
    assert V.unit is V.unit
    for again in (pickle.loads(pickle.dumps(V)), copy.copy(V), copy.deepcopy(V)):
        assert again == V
        assert again.source == V.source


def test_equality_is_words_and_numbers() -> None:
    assert Vectors(V.words, V.matrix, name="other") == V
    assert V.head(2) != V
    assert Vectors(["he", "she", "Zoe"], V.matrix) != V
    assert Vectors(V.words, V.matrix + np.float32(1)) != V
    assert V != "vectors"
    with pytest.raises(TypeError, match="unhashable"):
        hash(V)


@pytest.mark.parametrize(
    ("words", "matrix", "why"),
    [
        (["a"], [[1.0], [2.0]], "1 words but 2 rows"),
        (["a"], [1.0], r"got shape \(1,\)"),
        (["a"], [[]], r"got shape \(1, 0\)"),
        (["a"], [["x"]], "must be numbers"),
        (["a"], [[1 + 2j]], "must be numbers"),
        (["a"], [[True]], "must be numbers"),
        (["a", "b"], [[1.0], [1.0, 2.0]], "do not form a matrix"),
        (["a", "b", "a"], [[1.0], [2.0], [3.0]], "repeats 'a'"),
        (["a", "b"], [[1.0], [np.nan]], r"row 2 \('b'\): NaN or infinity"),
        (["a", "b"], [[1.0], [-np.inf]], r"row 2 \('b'\): NaN or infinity"),
        (["a", "b"], [[1.0], [1e39]], r"row 2 \('b'\): NaN or infinity.*float32"),
        (["a", 7], [[1.0], [2.0]], "row 2: 7 is a int, not a word"),
        (["a", "\ud800"], [[1.0], [2.0]], "row 2.*surrogate"),
        ("ab", [[1.0], [2.0]], "single string"),
    ],
)
def test_invalid_vectors_are_refused(words: list[str], matrix: list[list[float]], why: str) -> None:
    with pytest.raises(FormatError, match=why):
        Vectors(words, matrix)


def test_opposite_infinities_do_not_hide_each_other() -> None:
    with pytest.raises(FormatError, match="row 1"):
        Vectors(["a"], [[np.inf, -np.inf]])


def test_a_nul_an_empty_word_and_white_space_are_words() -> None:
    words = ["a\0b", "", " ", "\n"]
    assert Vectors(words, np.eye(4)).words == tuple(words)


def test_a_missing_word_is_named_with_the_nearest_spelling() -> None:
    with pytest.raises(VocabularyError, match=r"'SHE' is not in three \(3 words\)\n.*it has 'she'"):
        V["SHE"]
    with pytest.raises(VocabularyError, match="check the spelling") as caught:
        V["they"]
    assert caught.value.exit_code == 4


def test_take_gives_doubles_in_order_and_the_coverage() -> None:
    rows, coverage = V.take(["She", "nobody", "he", "he"])
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows, [[3, 4], [1, 0]])
    assert (coverage.found, coverage.missing, dict(coverage.respelt)) == (("She", "he"), ("nobody",), {"She": "she"})
    rows, coverage = V.take(["nobody", "else"])
    assert rows.shape == (0, 2)
    assert coverage.share == 0
    assert V.take(["She"], case="exact")[1].missing == ("She",)
    assert (V.find("He"), V.find("Nobody")) == ("he", None)


def test_one_text_in_place_of_words_is_refused() -> None:
    with pytest.raises(UsageError, match="'she'"):
        V.take("she")


def test_restrict_keeps_the_order_given_and_refuses_what_is_missing() -> None:
    assert V.restrict(["Zoë", "he"]).words == ("Zoë", "he")
    np.testing.assert_array_equal(V.restrict(["Zoë", "he"]).matrix, [[0, 0], [1, 0]])
    with pytest.raises(VocabularyError, match=r"three lacks 2 words, such as 'She'\n.*locate"):
        V.restrict(["She", "he", "they"])


def test_head_is_the_first_words() -> None:
    assert V.head(2).words == ("he", "she")
    assert V.head(99) == V
    with pytest.raises(UsageError, match="-1"):
        V.head(-1)


def test_with_matrix_keeps_words_and_adds_to_the_history() -> None:
    once = V.with_matrix(2 * V.matrix, step={"method": "double"})
    twice = once.with_matrix(once.matrix[:, :1], step={"method": "cut"})
    assert (twice.words, twice.dim, twice.name, twice.source) == (V.words, 1, "three", {"from": "hand"})
    assert [step["method"] for step in twice.history] == ["double", "cut"]
    assert V.history == ()
    with pytest.raises(FormatError, match=r"row 1 \('he'\): NaN"):
        V.with_matrix(np.full((3, 2), np.nan))
    with pytest.raises(FormatError, match="3 words but 2 rows"):
        V.with_matrix(V.matrix[:2])


def test_composed_asks_the_composer_only_for_what_is_missing() -> None:
    asked: list[str] = []

    def compose(words: tuple[str, ...]) -> np.ndarray:
        asked.extend(words)
        return np.full((len(words), 2), 7.0)

    able = Vectors(V.words, V.matrix, compose=compose)
    more = able.composed(["they", "he", "they", "them"])
    assert asked == ["they", "them"]
    assert more.words == (*V.words, "they", "them")
    np.testing.assert_array_equal(more["them"], [7, 7])
    with pytest.raises(VocabularyError, match=r"composed\(\['unheard-of'\]\)"):
        able["unheard-of"]
    assert able.composed(["he"]) is able
    assert able.with_matrix(V.matrix).compose is None
    with pytest.raises(VocabularyError, match=r"three cannot compose 'they'.*\n.*fastText"):
        V.composed(["they"])


@given(vectors())
def test_every_word_finds_its_own_row(made: Vectors) -> None:
    rows, coverage = made.locate(made.words, case="exact")
    np.testing.assert_array_equal(rows, np.arange(len(made)))
    assert coverage.share == 1
    assert made.restrict(reversed(made.words)).restrict(made.words) == made
