from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures.geometry.biased_words import Restriction, restrict_vocabulary
from evenhand.mitigations.projection.hard import exempt_words
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.lookup import Coverage, find, is_lower_case, locate

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
def test_every_word_is_found_or_missing_once(words: list[str], case: str) -> None:
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


CASED = Vectors(["Grace", "grace", "new", "couple", "He", "he", "Queen", "Emma"], np.eye(8))
LOWER = Vectors(["grace", "new", "couple", "he", "queen", "emma", "[CLS]", "viagra"], np.eye(8))


def test_names_and_specific_words_match_by_their_own_case_in_a_cased_vocabulary() -> None:
    _, coverage = CASED.locate(["Emma", "Grace", "Faith", "NeW", "COUPLE", "queen"], own_case=True)
    assert coverage.found == ("Emma", "Grace")
    assert not coverage.respelt
    assert CASED.matching(["Emma", "NeW", "COUPLE", "queen"]) == {"Emma"}
    assert CASED.locate(["NeW", "queen"])[1].respelt == {"NeW": "new", "queen": "Queen"}


def test_names_are_lower_cased_in_a_lower_case_vocabulary() -> None:
    assert LOWER.is_lower_case
    assert LOWER.matching(["Emma", "Grace", "Faith"]) == {"emma", "grace"}


def test_a_list_that_distinguishes_case_matches_exactly_in_every_vocabulary() -> None:
    assert LOWER.matching(["He", "he", "NeW", "COUPLE", "Viagra", "queen"]) == {"he", "queen"}


@pytest.mark.parametrize(("case", "found"), [("exact", ()), ("lower", ("NeW",)), ("any", ("NeW",))])
def test_an_explicit_policy_keeps_its_meaning(case: str, found: tuple[str, ...]) -> None:
    assert CASED.locate(["NeW"], case=case, own_case=True)[1].found == found


def test_a_few_special_tokens_do_not_make_a_vocabulary_cased() -> None:
    words = [f"w{letter}{row}" for row in range(1000) for letter in "abc"]
    assert is_lower_case([*words, "UNK", "PAD", "[CLS]", "<UNK>"])
    assert not is_lower_case([*words, "Mary", "John", "Anna", "Emma"])
    assert not is_lower_case(["she", "Mary"])
    assert is_lower_case([])


def test_hard_debiasing_and_the_restricted_vocabulary_use_the_same_rule() -> None:
    default, gender = Vectors.default(), eh.concept("gender")
    exempt = exempt_words(default, gender)
    assert exempt == {word for word in gender.specific if word in default}
    assert not exempt & {"new", "couple", "confessions", "legs", "handsome", "restless"}
    assert {"she", "queen", "father"} <= exempt
    remaining = restrict_vocabulary(default, gender, Restriction()).words
    assert not exempt & set(remaining)
    assert {"couple", "legs"} <= set(remaining)
