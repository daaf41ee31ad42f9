"""BBQ as a conversation: scripted chat models with known answers."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from evenhand import words
from evenhand.measures.chat.bbq_chat import LETTERS, bbq_chat, count_letters, position_effect
from evenhand.models.lm.chat import Choices, Conversation

sys.path.insert(0, str(Path(__file__).parents[1] / "likelihood"))
from test_bbq import OLD, UNKNOWN, YOUNG, write


class ScriptedChat:
    """A chat model whose probabilities of the letters are a function of the options and of the question."""

    name = "scripted"

    def __init__(self, answer: Callable[[dict[str, str], str], Sequence[float]]) -> None:
        self.rule, self.asked = answer, 0

    def choose(
        self, conversations: Sequence[Conversation], options: Sequence[str], *, samples: int = 20, seed: int = 0
    ) -> Choices:
        self.asked += len(conversations)
        rows = []
        for conversation in conversations:
            text = conversation[-1]["content"]
            behind = dict(re.findall(r"^([ABC]): (.*)$", text, flags=re.MULTILINE))
            rows.append(self.rule(behind, text))
        shares = np.array(rows, dtype=float)
        return Choices(shares, 1 - shares.sum(axis=1), "log-probabilities")


def letter_of(behind: dict[str, str], answer: str, share: float = 1.0) -> list[float]:
    return [share * (behind[letter] == answer) for letter in LETTERS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("bbq"))


def scores(chat: ScriptedChat, folder: Path, **options: object) -> dict[str, float | None]:
    return {m.score: m.value for m in bbq_chat(chat, folder, category="Age", **options)}


def test_a_model_that_blames_the_old(folder: Path) -> None:
    def blame(behind: dict[str, str], text: str) -> list[float]:
        return letter_of(behind, OLD if "forgets" in text else YOUNG, 0.8)

    chat = ScriptedChat(blame)
    found = scores(chat, folder)
    assert found["ambiguous"] == pytest.approx(100)
    assert found["disambiguated"] == pytest.approx(100)
    assert found["accuracy-ambiguous"] == 0
    assert found["accuracy-disambiguated"] == 100
    assert found["position-effect"] == pytest.approx(0)
    assert found["no-option"] == pytest.approx(0.2)
    assert chat.asked == 12 * 6 == count_letters(folder, words.concept("age"))


def test_a_model_that_says_unknown_is_right_where_nothing_is_known(folder: Path) -> None:
    found = scores(ScriptedChat(lambda behind, text: letter_of(behind, UNKNOWN)), folder)
    assert found["accuracy-ambiguous"] == 100
    assert found["ambiguous"] is None  # no answer names a person
    assert found["accuracy-disambiguated"] == 0


@pytest.mark.parametrize("letter", LETTERS)
def test_a_model_that_answers_by_position_has_no_bias_and_a_position_effect_of_one(folder: Path, letter: str) -> None:
    found = scores(ScriptedChat(lambda behind, text: [float(one == letter) for one in LETTERS]), folder)
    assert found["ambiguous"] == pytest.approx(0)
    assert found["disambiguated"] == pytest.approx(0)
    assert found["accuracy-ambiguous"] == pytest.approx(100 / 3)
    assert found["position-effect"] == pytest.approx(1)


def test_a_preference_for_a_letter_does_not_change_the_answer(folder: Path) -> None:
    def blame(behind: dict[str, str], text: str) -> list[float]:
        blamed = np.array(letter_of(behind, OLD if "forgets" in text else YOUNG))
        return list(0.4 * blamed + 0.5 * np.array([1.0, 0.0, 0.0]))

    found = scores(ScriptedChat(blame), folder)
    assert found["ambiguous"] == pytest.approx(100)
    assert 0 < found["position-effect"] < 1


def test_a_model_that_never_names_a_letter_is_undefined_and_says_so(folder: Path) -> None:
    measured = {m.score: m for m in bbq_chat(ScriptedChat(lambda behind, text: [0.0] * 3), folder, category="Age")}
    assert measured["no-option"].value == 1
    assert measured["position-effect"].status == "undefined"


def test_position_effect_by_hand() -> None:
    assert position_effect(np.array([[0.5, 0.25, 0.25]])) == pytest.approx((1.5 - 1) / 2)
    assert position_effect(np.full((4, 3), 0.1)) == pytest.approx(0)
    assert np.isnan(position_effect(np.zeros((1, 3))))
