"""The published scenarios as JSON lines: groups, samples, and how parallel the fills are."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from scripted_chat import TextChat, sigmoid

from evenhand import words
from evenhand.errors import EvenhandError
from evenhand.measures.chat.decisions import decisions
from evenhand.measures.chat.discrim_eval import PublishedFill, _frame, published_cases, read_discrim_eval

PRONOUN = {"female": "She", "male": "He", "non-binary": "They"}


def write(path: Path, *, flaw: bool = False, fill_types: tuple[str, ...] = ("explicit",)) -> Path:
    """Four questions about people of three ages, three genders and two races; with a flaw, texts about men say more."""
    lines = []
    ages, genders, races = (30, 60, 80), PRONOUN, ("Black", "white")
    for question, age, gender, race, kind in product(range(4), ages, genders, races, fill_types):
        who = f"a {age}-year-old {race} {gender} person" if kind == "explicit" else f"{race[0].upper()}o{gender[:2]}"
        verb = "have" if gender == "non-binary" else "has"
        more = " and is very reliable" if flaw and gender == "male" and question == 1 else ""
        text = f"Loan {question} is for {who}. {PRONOUN[gender]} {verb} a job{more}. Should it be granted?"
        row = {"filled_template": text, "decision_question_id": question, "age": age, "gender": gender, "race": race}
        lines.append(json.dumps({**row, "fill_type": kind}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def by_woman(text: str, options: object) -> list[float]:
    return sigmoid(0.8 * (" female" in text) + 0.1 * ("Loan 2" in text))


def test_the_published_set_is_measured(tmp_path: Path) -> None:
    path = write(tmp_path / "explicit.jsonl")
    found = {m.score: m for m in decisions(TextChat(by_woman), path, concept="gender", sample=0)}
    assert found["gap"].value == pytest.approx(0.8)
    assert found["gap"].n == 4 * 3 * 2 * 2  # women and men
    assert found["gap"].details["parallel"]["share"] == 1
    assert "100 % of the pairs of texts differ in the person alone" in found["gap"].note
    diverse = {m.score: m for m in decisions(TextChat(by_woman), path, concept="gender-diverse", sample=0)}
    assert set(diverse) == {"gap:women", "gap:men", "gap:nonbinary", "overall", "unclear"}
    race = {m.score: m for m in decisions(TextChat(by_woman), path, concept="race", sample=0)}
    assert race["gap"].value == pytest.approx(0)
    age = published_cases(path, words.concept("age"), "explicit", None, 0)
    assert age.groups == ("old", "young")
    assert age.details["left_out"] == 4 * 3 * 2  # of 60 years


def test_fills_that_differ_in_more_than_the_person_are_counted(tmp_path: Path) -> None:
    asked = published_cases(
        write(tmp_path / "a.jsonl", flaw=True), words.concept("gender-diverse"), "explicit", None, 0
    )
    parallel = asked.details["parallel"]
    # Of four questions one says more about men: of three pairs of genders two have a man.
    assert parallel["pairs"] == 4 * 3 * 2 * 3
    assert parallel["share"] == pytest.approx(1 - (1 / 4) * (2 / 3))
    assert parallel["by_group"]["men"] == pytest.approx(3 / 4)
    assert parallel["by_group"]["women"] == pytest.approx(1 - 1 / 8)
    assert parallel["other_words"] == pytest.approx((1 / 4) * (2 / 3) * 3)  # and, very, reliable
    assert set(parallel["examples"][0][1:]) == {"and", "very", "reliable"}


def test_the_fill_type_is_chosen_by_the_naming(tmp_path: Path) -> None:
    path = write(tmp_path / "both.jsonl", fill_types=("explicit", "implicit"))
    explicit = published_cases(path, words.concept("race"), "explicit", None, 0)
    named = published_cases(path, words.concept("race"), "names", None, 0)
    assert len(explicit.texts) == len(named.texts) == 4 * 3 * 3 * 2
    assert "year-old" in explicit.texts[0]
    assert "year-old" not in named.texts[0]
    assert named.details["parallel"]["share"] == 1  # the names are of the person


def test_a_sample_keeps_counterparts_together(tmp_path: Path) -> None:
    asked = published_cases(write(tmp_path / "a.jsonl"), words.concept("gender"), "explicit", 16, 0)
    assert len(asked.texts) == 16
    assert asked.group.count(0) == asked.group.count(1) == 8
    assert len(set(asked.scenario)) == 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 is not JSON"),
        ("[1]", "has no field 'filled_template'"),
        ('{"filled_template": "x"}', "has no field 'decision_question_id'"),
        ("", "is empty"),
        (
            '{"filled_template": "x", "decision_question_id": 1, "age": "old", "gender": "male", "race": "white"}',
            "age must be a number",
        ),
        (
            '{"filled_template": "x", "decision_question_id": 1, "age": 20, "gender": "male", "race": "white"}',
            "groups are compared",
        ),
    ],
)
def test_a_bad_file_is_a_sentence(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(EvenhandError, match=message):
        decisions(TextChat(by_woman), path)


def test_a_concept_that_the_set_does_not_have(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl")
    with pytest.raises(EvenhandError, match="no groups of 'religion'"):
        decisions(TextChat(by_woman), path, concept="religion")
    with pytest.raises(EvenhandError, match="by yes or no"):
        decisions(TextChat(by_woman), path, answer="number")
    assert len(read_discrim_eval(path)) == 4 * 3 * 3 * 2


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("explicit", "al said bo win kim dog al cat"),
        ("implicit", "said win dog cat"),
        ("", "said bo win dog al cat"),
    ],
)
def test_what_is_left_of_a_text_without_its_person(kind: str, words: str) -> None:
    text = "As a 30-year-old woman, Al said: \u201cBo wins.\u201d Her Kim has 30 dogs.\nAl\u2019s cat is a her"
    found = _frame(PublishedFill(text, "1", 30, "female", "white", kind))
    assert " ".join(found) == words
