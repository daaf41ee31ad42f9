from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import UsageError
from evenhand.models.vectors.lookup import Coverage, find, locate

INDEX = {"mary": 0, "Mary": 1, "john": 2, "USA": 3, "Paris": 4}


@pytest.mark.parametrize(
    ("case", "answers"),
    [
        ("exact", {"Mary": "Mary", "John": None, "usa": None, "paris": None}),
        ("lower", {"Mary": "mary", "John": "john", "USA": None, "Paris": None}),
        ("auto", {"Mary": "Mary", "John": "john", "usa": "USA", "paris": "Paris", "MARY": "mary"}),
        ("any", {"Mary": "Mary", "JOHN": "john", "usa": "USA", "paris": "Paris", "MARY": "mary"}),
    ],
)
def test_each_policy_tries_its_spellings_in_order(case: str, answers: dict[str, str | None]) -> None:
    assert {word: find(word, INDEX, case) for word in answers} == answers


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'loose'\n.*auto, exact, lower, any"):
        find("x", INDEX, "loose")


WORDS = st.lists(st.sampled_from(["mary", "Mary", "MARY", "john", "John", "usa", "nobody", "else"]))


@given(WORDS, st.sampled_from(["auto", "exact", "lower", "any"]))
def test_every_word_asked_is_found_or_missing_once(words: list[str], case: str) -> None:
    rows, coverage = locate(words, INDEX, case)
    assert len(rows) == len(coverage.found)
    assert sorted((*coverage.found, *coverage.missing)) == sorted(set(words))
    assert coverage.asked == len(set(words))
    for row, word in zip(rows, coverage.found, strict=True):
        assert INDEX[coverage.respelt.get(word, word)] == row
    assert list(coverage.found) == sorted(coverage.found, key=words.index)


def test_the_account_as_data_and_as_text() -> None:
    _, coverage = locate(["John", "nobody"], INDEX)
    assert str(coverage) == "1/2"
    assert coverage.to_dict() == {
        "asked": 2,
        "found": 1,
        "share": 0.5,
        "missing": ["nobody"],
        "respelt": {"John": "john"},
    }
    assert Coverage(()).share == 1


def test_accounts_add_up_with_each_word_counted_once() -> None:
    total = Coverage(("a", "b"), ("x",), {"a": "A"}) + Coverage(("b", "c"), ("x", "a"), {"c": "C"})
    assert (total.found, total.missing, dict(total.respelt)) == (("a", "b", "c"), ("x",), {"a": "A", "c": "C"})
