"""The cells of two concepts: names where a source lists them, phrases otherwise."""

import pytest

import evenhand as eh
from evenhand import words
from evenhand.errors import UsageError
from evenhand.words import intersect

SEX = eh.Concept("sex", {"f": ["she"], "m": ["he"]}, nouns={"f": ["women", "girls"], "m": ["men", "boys"]})
AGE = eh.Concept("age", {"o": ["old"], "y": ["new"]}, adjectives={"o": ["old"], "y": ["young"]})


def test_names_of_a_source_by_both_groups():
    cells = eh.concept("gender x race")
    assert list(cells.groups) == list(words.table("gender-x-race").columns)
    assert set(cells.groups["female x african-american"]) < set(eh.concept("race").groups["african-american"])
    assert cells.by == "names"
    assert cells.positive == "female x african-american"
    assert cells.source == eh.concept("race").source
    assert (cells.rows, cells.columns) == (("female", "male"), ("african-american", "european-american"))


@pytest.mark.parametrize("id", ["gender-x-race", "gender-x-age", "gender-x-ethnicity"])
def test_the_tables_of_names_hold_names_of_both_concepts(id):
    first, second = id.split("-x-")
    table = words.table(id)
    names = [tuple(column) for column in zip(*table.rows, strict=True)]
    assert len({name for column in names for name in column}) == sum(map(len, names))
    for cell, column in zip(table.columns, names, strict=True):
        one, other = cell.split(" x ")
        assert one in eh.concept(first).groups
        listed = eh.concept(second)
        assert set(column) <= {*listed.groups[other], *listed.names.get(other, ())}


def test_the_order_of_the_concepts_turns_the_cells():
    plain, turned = eh.concept("gender x age"), eh.concept("age x gender")
    for cell, words_of_cell in plain.groups.items():
        first, second = cell.split(" x ")
        assert turned.groups[f"{second} x {first}"].words == words_of_cell.words


def test_phrases_of_an_adjective_and_a_noun():
    cells = intersect(SEX, AGE)
    assert cells.by == "phrases"
    assert cells.groups["f x o"].words == ("old women", "old girls")
    assert intersect(AGE, SEX).groups["o x f"].words == ("old women", "old girls")
    assert "Black women" in eh.concept("gender x race by phrases").groups["female x african-american"]
    people = eh.concept("race x disability").groups["african-american x disabled"]
    assert "Black disabled people" in people


def test_names_that_both_concepts_list():
    names = {"f": ["Ann", "Ada", "Amy", "Ava", "Eve"], "m": ["Bob", "Ben", "Bill", "Bo"]}
    ages = {"o": ["Ann", "Ada", "Bob", "Ben"], "y": ["Amy", "Ava", "Eve", "Bill", "Bo"]}
    first = eh.Concept("a", {"f": ["she"], "m": ["he"]}, names=names)
    second = eh.Concept("b", {"o": ["old"], "y": ["new"]}, names=ages)
    cells = intersect(first, second, "names")
    assert cells.groups["f x y"].words == ("Amy", "Ava", "Eve")
    with pytest.raises(UsageError, match="needs two groups of each concept"):  # two names a cell are too few,
        intersect(first, second)  # and there is nothing to make phrases of


def test_what_cannot_be_crossed_is_refused():
    with pytest.raises(UsageError, match="two concepts"):
        eh.concept("gender x race x age")
    with pytest.raises(UsageError, match="by names, or by phrases"):
        eh.concept("gender x race by nouns")
    with pytest.raises(UsageError, match="with itself"):
        eh.concept("gender x gender")
    with pytest.raises(UsageError, match=r"in en, .* in fr"):
        intersect(SEX, eh.Concept("autre", {"a": ["x"], "b": ["y"]}, language="fr"))
    partial = eh.Concept("part", {"a": ["x"], "b": ["y"], "c": ["z"]}, adjectives={"a": ["tall"], "b": ["small"]})
    assert intersect(SEX, partial).columns == ("a", "b")


def test_questions_and_digests_survive():
    cells = eh.concept("gender x race")
    assert cells.with_questions((), ()).cells == cells.cells
    assert cells.digest != eh.concept("gender x race by phrases").digest
    assert words.generic_ids(cells)[0] == "gender x race/pleasant-unpleasant"
