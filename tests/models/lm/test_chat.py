"""A choice is read from first tokens or from answers; what fits no option is kept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import DegenerateError, UsageError
from evenhand.models.lm.chat import (
    check_options,
    from_answers,
    from_log_probabilities,
    option_in,
    option_of,
    user,
    with_system,
)


@pytest.mark.parametrize(
    ("token", "option"),
    [
        ("Yes", 0),
        (" yes", 0),
        ("YES.", 0),
        ("\u2581No", 1),
        ("\u0120no", 1),
        ("n", 1),
        ("(", None),
        ("None", None),
        ("Yesterday", None),
    ],
)
def test_spellings_of_an_option(token: str, option: int | None) -> None:
    assert option_of(token, ["yes", "no"]) == option


def test_options_that_begin_alike_are_refused() -> None:
    for options in (["no", "not at all"], ["A", "a"], ["yes", ""], ["yes"], "yes", ["...", "no"]):
        with pytest.raises(UsageError):
            check_options(options)


def test_sum_over_spellings_by_hand() -> None:
    rows = [
        [("A", math.log(0.4)), (" A", math.log(0.1)), ("B", math.log(0.2)), ("The", math.log(0.3))],
        [("C", math.log(1.0))],
    ]
    choices = from_log_probabilities(rows, ["A", "B"], name="m")
    assert choices.probabilities == pytest.approx(np.array([[0.5, 0.2], [0.0, 0.0]]))
    assert choices.none == pytest.approx([0.3, 1.0])
    assert np.isnan(choices.among_options()[1]).all()


def test_probabilities_above_one_are_an_error() -> None:
    with pytest.raises(DegenerateError, match="not probabilities"):
        from_log_probabilities([[("A", 0.0), ("a", 0.0)]], ["A", "B"], name="m")


def test_answers_are_counted_by_their_first_word() -> None:
    texts = ["Yes, of course", "no", "**No**", "I can't say yes or no", ""]
    choices = from_answers([texts], ["Yes", "No"])
    assert choices.probabilities[0] == pytest.approx([0.2, 0.4])
    assert choices.none[0] == pytest.approx(0.4)
    assert choices.samples == 5


@given(
    st.lists(st.floats(0.001, 1), min_size=2, max_size=6),
    st.lists(st.sampled_from(["Yes", " no", "N", "maybe", "."]), min_size=6, max_size=6),
)
def test_shares_sum_to_one(weights: list[float], tokens: list[str]) -> None:
    shares = np.array(weights) / sum(weights)
    found = from_log_probabilities([list(zip(tokens, np.log(shares), strict=False))], ["yes", "no"], name="m")
    assert found.probabilities.sum() + found.none.sum() == pytest.approx(1)


def test_nobody_is_not_no() -> None:
    assert option_in("Nobody knows", ["yes", "no"]) is None


def test_system_prompts_are_joined() -> None:
    assert with_system(user("a"), "S") == user("a", system="S")
    assert with_system(user("a", system="T"), "S")[0]["content"] == "S\n\nT"
    assert with_system(user("a"), "") == user("a")
