from __future__ import annotations

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures import get
from evenhand.models.vectors import Vectors
from evenhand.words import Table

sembias = get("sembias")
COLUMNS = ("definition", "none-1", "none-2", "stereotype")
ROWS = [
    ("king:queen", "cup:lid", "pen:ink", "doctor:nurse"),
    ("actor:actress", "cup:lid", "pen:ink", "boss:clerk"),
]
TOY = Table("toy", COLUMNS, ROWS)
SHE, OTHER = np.array([0.0, 1, 0]), np.array([0.0, 0, 1])


def vectors(**shares: float) -> Vectors:
    """Each pair differs by (its share along he - she) and by 1 along a third coordinate."""
    rows = {"he": -2 * SHE, "she": 2 * SHE}
    for number, cell in enumerate(dict.fromkeys(cell for row in ROWS for cell in row)):
        male, female = cell.split(":")
        base = np.array([1.0 + number, 0, 0])
        rows[male], rows[female] = base, base + shares.get(male, 0.0) * SHE + OTHER
    return Vectors(rows, np.array(list(rows.values())), name="toy")


def test_the_definitional_pair_is_chosen_where_gender_is_planted() -> None:
    m = sembias(vectors(king=1, actor=2), TOY)
    assert (m.value, m.n) == (1.0, 2)
    assert m.details["stereotype"] == 0
    assert m.items[0]["value"] == pytest.approx(1 / np.sqrt(2))
    assert m.items[0]["choice"] == "definition"


def test_each_choice_is_counted() -> None:
    m = sembias(vectors(king=1, actor=0.5, boss=1), TOY)
    assert (m.value, m.details["stereotype"], m.details["none"]) == (0.5, 0.5, 0)
    assert sembias(vectors(cup=1), TOY).details["none"] == 1
    opposite = sembias(vectors(king=-1, actor=-1, cup=0.1), TOY)
    assert opposite.value == 0  # the opposite direction is not like he - she


def test_shares_add_up_with_undecided_rows() -> None:
    m = sembias(vectors(king=1, doctor=1, actor=1), TOY)
    assert [item["choice"] for item in m.items] == ["undecided", "definition"]
    assert m.value == 0.5
    assert sum(m.details[name] for name in ("definition", "stereotype", "none", "undecided")) == 1
    near = vectors(king=1, doctor=1.001, actor=1)
    assert sembias(near, TOY, undecided=0).details["stereotype"] == 0.5
    assert sembias(near, TOY, undecided=0.1).details["undecided"] == 0.5


def test_a_pair_of_equal_words_has_no_direction() -> None:
    v = vectors(king=1, actor=1)
    matrix = v.matrix.copy()
    matrix[v.index["queen"]] = matrix[v.index["king"]] * (1 + 1e-6)
    m = sembias(v.with_matrix(matrix), TOY)
    assert m.details["equal_pairs"] == 1
    assert m.items[0]["value"] == 0


def test_all_rows_are_undecided_along_a_direction_that_was_removed() -> None:
    v = vectors(king=1, actor=2, boss=1.5)
    flat = v.with_matrix(v.matrix * np.array([1, 0, 1]))
    m = sembias(flat, TOY, reference=v, direction="original")
    assert (m.status, m.value) == ("undefined", None)
    assert "every row is undecided" in m.reason
    assert {item["choice"] for item in m.items} == {"undecided"}
    gone = sembias(flat, TOY, reference=v)
    assert (gone.status, gone.value) == ("undefined", None)
    assert "she/he" in gone.reason


def test_rows_with_a_lost_word_are_left_out_and_counted() -> None:
    v = vectors(king=1, actor=1)
    m = sembias(v.restrict([word for word in v.words if word != "queen"]), TOY)
    assert (m.n, m.details["lost_rows"], m.coverage.missing) == (1, 1, ("queen",))
    assert sembias(v.restrict(["she", "he", "king"]), TOY).status == "undefined"


def test_the_shipped_tables() -> None:
    v = eh.Vectors.default()
    whole, subset = sembias(v), sembias(v, "sembias-subset")
    assert whole.details["rows"] == 440
    assert subset.details["rows"] == 40
    assert 0.6 < whole.value < 0.9
    assert whole.interval[0] < whole.value < whole.interval[1]


def test_flipping_the_pair_of_the_axis_is_another_question() -> None:
    assert sembias(vectors(king=1, actor=1, cup=-2), TOY, pair=("he", "she")).details["none"] == 1


def test_tables_of_another_form_are_refused() -> None:
    with pytest.raises(UsageError, match="columns definition and stereotype"):
        sembias(vectors(), Table("t", ("a", "b"), [("x:y", "x:y")]))
    with pytest.raises(UsageError, match="'xy' is not a pair"):
        sembias(vectors(), Table("t", ("definition", "stereotype"), [("xy", "x:y")]))


@pytest.mark.data
def test_the_published_shares_on_googlenews(googlenews: Vectors) -> None:
    """Dawkins 2021, table 6: .830 and .134 over all rows; this cut of the vectors has 187 of the 440."""
    assert "187 of 440" in sembias(googlenews).reason
    m = sembias(googlenews, min_share=0.4)
    assert m.value == pytest.approx(0.83, abs=0.02)
    assert m.details["stereotype"] == pytest.approx(0.134, abs=0.02)
