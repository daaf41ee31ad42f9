import pytest

from evenhand.errors import UnknownNameError, UsageError
from evenhand.words import Table

ROWS = [("he:she", "cup:lid"), ("king:queen", "pen:ink")]


def test_columns_and_pairs_of_a_table():
    made = Table("t", ["definition", "none"], ROWS)
    assert len(made) == 2
    assert list(made.column("none")) == ["cup:lid", "pen:ink"]
    assert list(made.pairs("definition")) == [("he", "she"), ("king", "queen")]


def test_an_unknown_column_names_the_known_ones():
    with pytest.raises(UnknownNameError, match="definition"):
        Table("t", ["definition", "none"], ROWS).column("definitions")


@pytest.mark.parametrize(
    ("columns", "said"), [(["one"], "row 1 has 2 cells for 1 columns"), (["one", "one"], "same name")]
)
def test_ragged_rows_and_repeated_columns_are_refused(columns, said):
    with pytest.raises(UsageError, match=said):
        Table("t", columns, ROWS)


def test_a_cell_that_is_no_pair_is_refused():
    with pytest.raises(UsageError, match="empty word"):
        Table("t", ["a"], [("lonely",)]).pairs("a")
