"""The papers as data: every table and figure is there, and the printed numbers are the same wherever they stand."""

from __future__ import annotations

import re

import pytest

from evenhand import reproduce
from evenhand.data.citations import references
from evenhand.errors import UnknownNameError
from evenhand.reproduce import ethayarajh2019, genderedness
from evenhand.reproduce.published import PAPERS, item, items, paper

EVERY = items()
LISTED = {id: one for id, one in EVERY.items() if not one.extra}
TABLES = {"dev2019": 17, "bordia2019": 8, "dawkins2021": 6, "ethayarajh2019": 2}
FIGURES = {"bordia2019": 1, "ethayarajh2019": 1}


def test_every_table_and_figure_of_the_four_papers_has_an_id() -> None:
    wanted = {f"{id}/table-{number}" for id, count in TABLES.items() for number in range(1, count + 1)}
    wanted |= {f"{id}/figure-{number}" for id, count in FIGURES.items() for number in range(1, count + 1)}
    assert set(LISTED) == wanted
    assert len(wanted) == 35
    assert sum(paper(id).size for id in PAPERS) == 35


@pytest.mark.parametrize("id", EVERY)
def test_an_item_says_where_its_numbers_are_printed(id: str) -> None:
    one = EVERY[id]
    kind, _, number = one.name.partition("-")
    assert re.search(rf"\b{kind} {number}\b", one.source)
    assert one.claim.endswith(".")
    assert (one.how == "text") == bool(one.reason)
    if one.how != "text" and not one.extra:
        assert one.rows
        assert one.published()
    for row, values in (one.rows or {}).items():
        assert len(values) == len(one.columns), row


@pytest.mark.parametrize("id", [id for id, one in EVERY.items() if one.expect])
def test_a_claim_is_about_numbers_that_the_paper_prints_and_holds_there(id: str) -> None:
    one = EVERY[id]
    printed = one.published()
    for row, column, relation, bound in one.expect:
        concerned = [value for key, value in printed.items() if row in (key[0], "*") and column in (key[1], "*")]
        assert concerned, (row, column)
        for value in concerned:
            holds = {"<": value < bound, ">": value > bound, "within": abs(value) <= bound}
            assert holds[relation], (row, column, value)


def test_papers_are_cited() -> None:
    known = references()
    for id in PAPERS:
        assert paper(id).citation in known
        assert paper(id).url.startswith("https://")


def test_unknown_ids_are_answered_with_near_ones() -> None:
    with pytest.raises(UnknownNameError, match="no paper 'dev2091'") as caught:
        items("dev2091")
    assert "dev2019" in caught.value.hint
    with pytest.raises(UnknownNameError, match="no table or figure of dev2019") as caught:
        item("dev2019/table13")
    assert "dev2019/table-13" in caught.value.hint
    with pytest.raises(UnknownNameError):
        item("table-13")


def test_differences_are_those_of_the_printed_rows() -> None:
    printed = item("dev2019/table-13").published()
    assert printed["projected - original", "NN"] == pytest.approx(0.488 - 0.417)
    assert printed["projected - random", "T:0.7"] == pytest.approx(0.364 - 0.062)


def test_ethayarajh_has_the_numbers_of_the_table_modules() -> None:
    printed = [(s, e, abs(e), p) for s, e, p in ethayarajh2019.PUBLISHED.values()]
    assert list((item("ethayarajh2019/table-1").rows or {}).values()) == printed
    figure = item("ethayarajh2019/figure-1").rows or {}
    names = {ethayarajh2019.LISTED: "Bolukbasi's list spared", ethayarajh2019.IN_SAMPLE: "proposed"}
    for (kind, method), share in ethayarajh2019.PUBLISHED_FIGURE_1.items():
        assert figure[f"{kind}, {names[method]}"] == (share,)
    table = item("ethayarajh2019/table-2").rows or {}
    for group, words in genderedness.PUBLISHED.items():
        for word, values in words.items():
            assert table[f"{group}: {word}"] == pytest.approx(values)


def test_what_is_computed_has_an_item() -> None:
    computed = {id for id, one in EVERY.items() if one.how == "computed"}
    assert set(reproduce.COMPUTED) == computed
