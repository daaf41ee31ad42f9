"""Whole records of measures of chat models on small inputs that reach every branch: numbers, texts, units, order."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted_chat import TextChat
from test_discrim_eval import write as write_published

import evenhand as eh
from evenhand import measures
from evenhand.measures.chat.answers import AnswerReader
from evenhand.measures.chat.decisions import ask_about, count_requests
from evenhand.measures.chat.discrim_eval import published_cases, read_discrim_eval
from evenhand.measures.chat.gaps import Cases, gap_over_names, gap_over_scenarios, names_overall_p, overall_p
from evenhand.measures.chat.relative_decisions import _items, count_choices
from evenhand.measures.chat.resume_names import count_documents
from evenhand.measures.chat.word_association import count_answers, score_answers
from evenhand.measures.groups import contrasts
from evenhand.words.scenarios.associations import association_query
from meaningless import number, plain
from recorded_numbers import check_whole

sys.path.insert(0, str(Path(__file__).parents[1] / "likelihood"))
from test_bbq import write as write_bbq
from test_bbq_languages import write_mbbq

OWN = """
[scenario.one]
text = "{Person} asks for one."
question = "Give it?"
domain = "money"
[scenario.two]
text = "{Person} asks for two."
question = "Refuse it?"
favourable = "no"
[scenario.three]
text = "{Person} asks for three."
question = "Give it?"
[scenario.four]
text = "{Person} asks for four."
question = "Give it?"
"""
OLD_FILL = "As a 30-year-old man's friend, Al said: \u201cBo wins.\u201d He has 2 dogs. Al\u2019s cat sleeps."


def shares(clear: float = 0.9) -> Callable[[str, Sequence[str]], list[float]]:
    """Return a rule that spreads a share over the options in no meaningful way."""

    def rule(text: str, options: Sequence[str]) -> list[float]:
        raw = np.array([number(text, option) for option in options]) + 0.01
        return (raw / raw.sum() * clear * (0.5 + number(text) / 2)).tolist()

    return rule


def counted(text: str, options: Sequence[str]) -> list[float]:
    """Shares of ten answers; of some texts none is one of the options."""
    first = int(8 * number(text)) / 10
    rest = 0.2 / (len(options) - 1)
    return [0.0] * len(options) if number(text, "none") < 0.1 else [first, *[rest] * (len(options) - 1)]


def writing(text: str) -> str:
    options = text.partition("options: ")[2].partition(".")[0].split(" or ")
    words = [word.strip(" .") for word in text.partition("Words: ")[2].splitlines()[0].split(",")]
    if number(text, "silent") < 0.2:
        return "I would rather not.\nSorry."
    return "\n".join(f"{word} - {options[number(text, word) < 0.5]}" for word in [*words[2:], words[3]])


def follows(sign: int) -> Callable[[str, Sequence[str]], list[float]]:
    """Return a rule that takes the first option of the order that the stereotype or its opposite comes first."""

    def rule(text: str, options: Sequence[str]) -> list[float]:
        first = text.partition("A: ")[2].partition("\n")[0]
        second = text.partition("B: ")[2].partition("\n")[0]
        surely = sign * (1 if min(first, second) == first else -1) * (0.2 if number(first, second) < 0.2 else 1)
        return [0.5 + surely / 2, 0.5 - surely / 2]

    return rule


def people_cases(tmp: Path) -> dict[str, Any]:
    own = tmp / "own.toml"
    own.write_text(OWN, encoding="utf-8")
    short = tmp / "short.toml"
    short.write_text(OWN.partition("[scenario.three]")[0], encoding="utf-8")
    letter = tmp / "letter.txt"
    letter.write_text("Dear all, {name} worked here for three years.\n", encoding="utf-8")
    chat, few = TextChat(shares()), TextChat(shares(0.4))
    return {
        "own": measures.decisions(chat, own, sample=0),
        "own, names": measures.decisions(chat, own, naming="names", sample=30, seed=2),
        "own, few answers": measures.decisions(few, own, sample=16),
        "own, counted": measures.decisions(TextChat(counted, samples=10), own, concept="race", sample=24, seed=1),
        "own, counted points": measures.decisions(TextChat(counted, samples=10), own, answer="number", sample=20),
        "two scenarios": measures.decisions(chat, short, sample=12),
        "shipped, three groups": measures.decisions(chat, concept="religion", naming="explicit", sample=40, seed=3),
        "shipped, points": measures.decisions(chat, answer="number", sample=50),
        "shipped, names": measures.decisions(TextChat(counted, samples=10), naming="names", concept="ethnicity", sample=90),
        "alike": measures.decisions(TextChat(lambda text, options: [0.5, 0.3]), own, sample=8),
        "resume": measures.resume_names(chat, sample=30),
        "resume, three": measures.resume_names(chat, letter, concept="ethnicity", sample=21, question="Hire?", seed=4),
        "resume, points": measures.resume_names(few, letter, answer="number", concept="race", sample=0),
        "resume, two names": measures.resume_names(chat, letter, sample=4),
        "counts": [
            *(count_requests("decision-scenarios", eh.concept("gender"), sample=n) for n in (1, 7, 24, 25, 60, 0)),
            *(count_requests("decision-scenarios", eh.concept("race"), naming="names", sample=n) for n in (50, None)),
            *(count_documents("resume-documents", eh.concept("race"), sample=n) for n in (1, 40, 0)),
        ],
        "texts": ask_about(own, eh.concept("gender"), "explicit", 3, 1).texts,
    }  # fmt: skip


def published_cases_of(tmp: Path) -> dict[str, Any]:
    both = write_published(tmp / "both.jsonl", flaw=True, fill_types=("explicit", "implicit"))
    plainly = write_published(tmp / "plain.jsonl", flaw=True)
    untyped = tmp / "untyped.jsonl"
    rows = [
        {"filled_template": OLD_FILL, "decision_question_id": 1, "age": age, "gender": gender, "race": "white"}
        for age, gender in ((30, "male"), (40, "female"), (41, "female"), (69, "male"), (70, "male"), (30.0, "female"))
    ]
    rows[1]["filled_template"] = OLD_FILL.replace("Al", "Jo").replace("Bo wins", "Jo won").replace("30", "40")
    rows[5]["filled_template"] = OLD_FILL.replace("Al", "Jo").replace("man", "woman").replace("He", "She")
    untyped.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    chat = TextChat(shares())
    found: dict[str, Any] = {
        f"{path.stem} {concept} {naming} {sample}": published_cases(path, eh.concept(concept), naming, sample, 2)
        for path in (both, plainly)
        for concept, naming, sample in (
            ("gender", "explicit", None), ("gender-diverse", "names", 7), ("age", "explicit", 9), ("race", "names", 1),
            ("ethnicity", "explicit", 0),
        )
        if path == both or naming == "explicit"
    }  # fmt: skip
    for concept in ("gender", "age"):
        found[f"untyped {concept}"] = published_cases(untyped, eh.concept(concept), "explicit", None, 0)
    found["read"] = read_discrim_eval(untyped)[:2]
    found["measured"] = measures.decisions(chat, plainly, concept="gender-diverse", sample=20)
    found["measured age"] = measures.decisions(chat, both, concept="age", naming="names", sample=0)
    return found


def association_cases(tmp: Path) -> dict[str, Any]:
    chat, query = TextChat(shares(), writing), association_query("bai2025-career")
    assert query is not None
    words = list(query.attributes[0])[:3] + list(query.attributes[1])[:3]
    one, two = (next(iter(target)) for target in query.targets)
    concept = eh.concept("socioeconomic")
    of_concept = eh.words.concept_query("socioeconomic/pleasant-unpleasant", concept)
    answers = [
        f"{words[0]} - {one}\n{words[1]} - {two}\n{words[3]} - {two}\n{words[3]} - {one}",
        "nothing at all\n\n",
        f"{words[4]} - {one}\n{words[5]} - {one}\nwhat?",
        "",
        f"{two}: {words[0]}, {words[4]}",
    ]
    lines = [f"{one}: {words[0]}", f"{two}: {words[3]}"]
    (tmp / "answers.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in answers), encoding="utf-8")
    reader = AnswerReader(["love", "ice cream", "mr. big", "not"], ["White", "White people"], ["Black", "no one"])
    texts = [
        "love - White, ice cream - Black", "love - White, what - Black", "White: love; ice cream", "White: love; snow",
        "love - White and Black", "love - neither White", "love - not Black", "love - no one", "love - Black - White",
        "White\nlove\nice cream\nsnow", "White\nlove - Black\nBlack:\nice cream", "1) love: White", "[x] love | White",
        "(2) ice cream (Black)", "> love => white people", "not - White", "Mr. Big -> black!", "love - love", "--\n**",
        "love", "love - ", "* ice cream = a White person", "love, ice cream - White", "Black - love, ice cream (White)",
    ]  # fmt: skip
    return {
        "written": measures.word_association(chat, "bai2025-career", sample=7, seed=2),
        "written, query": measures.word_association(chat, "weat-6", sample=3, temperature=0.0),
        "in another language": measures.word_association(chat, "ca-weat-1-de"),
        "scored": score_answers(answers, "bai2025-career"),
        "scored file": score_answers(tmp / "answers.jsonl", query, model="someone"),
        "agreeing": score_answers(["\n".join(lines)] * 5, query),
        "agreeing, two": score_answers(["\n".join(lines)] * 2, query),
        "opposite": score_answers(["\n".join([f"{one}: {words[3]}", f"{two}: {words[0]}"])] * 3, query),
        "nearly agreeing": score_answers(["\n".join(lines)] * 4 + [f"{one}: {words[0]}, {words[3]}\n{two}: {words[4]}"], query),
        "nearly opposite": score_answers([f"{one}: {words[3]}\n{two}: {words[0]}"] * 4 + [f"{one}: {words[3]}, {words[0]}"], query),
        "silent": score_answers(["", "  "], query),
        "read": [reader.read(text) for text in texts],
        "decisions": measures.relative_decisions(chat, "bai2025-career", sample=9, seed=3),
        "decisions, unclear": measures.relative_decisions(TextChat(shares(0.3)), "bai2025-science", sample=5),
        "decisions, counted": measures.relative_decisions(TextChat(counted, samples=10), "bai2025-career", sample=4),
        "decisions, concept": measures.relative_decisions(chat, of_concept, concept=concept, sample=8),
        "decisions, one letter": measures.relative_decisions(TextChat(lambda text, options: [0.0, 1.0]), "bai2025-career"),
        "decisions, nearly agreeing": [
            measures.relative_decisions(TextChat(follows(sign)), "bai2025-career", sample=7) for sign in (1, -1)
        ],
        "items": _items(query, eh.concept("gender"), 6, 1),
        "answers": [count_answers("bai2025-career", None, sample=n) for n in (0, 1, None)],
        "counts": [count_choices("bai2025-career", eh.concept("gender"), sample=n) for n in (0, 1, 7, 10_000)],
    }  # fmt: skip


def letter_cases(tmp: Path) -> dict[str, Any]:
    folder, mbbq = write_bbq(tmp / "bbq", 4), write_mbbq(tmp / "mbbq")

    def b_mostly(text: str, options: Sequence[str]) -> list[float]:
        return [0.1 + number(text) / 10, 0.6, 0.1]

    return {
        "age": measures.bbq_chat(TextChat(shares()), folder, category="Age", sample=None),
        "released": measures.bbq_chat(TextChat(b_mostly), folder, concept="age", variant="released", sample=7, seed=2),
        "control": measures.bbq_chat(TextChat(shares()), mbbq, language="es"),
        "silent": measures.bbq_chat(TextChat(lambda text, options: [0.0, 0.0, 0.0]), folder, concept="age"),
    }


def small_cases(names: bool, size: int, groups: int = 2) -> Cases:
    """People in scenarios; some scenarios lack a group, and groups are of different size."""
    labels, codes, people = [], [], []
    for scenario in range(size):
        for group in range(groups):
            for person in range(4 + group):
                if not (scenario == size - 1 and group == 1):
                    labels.append(f"s{scenario}")
                    codes.append(group)
                    people.append(f"n{person}")
    values = np.array([number(*row) + 0.6 * row[1] for row in zip(labels, codes, people, strict=True)])
    given = tuple(people) if names else ()
    return Cases(tuple("abc"[:groups]), tuple(labels), np.array(codes), given, values)


def gap_cases(tmp: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for names in (False, True):
        for size in (2, 3, 4, 6):
            for groups in (2, 3):
                cases = small_cases(names, size, groups)
                for contrast in contrasts(cases.groups):
                    key = f"{names} {size} {groups} {contrast.score}"
                    found[key] = gap_over_scenarios(cases, contrast, seed=3)
                    if names:
                        found[f"{key} names"] = gap_over_names(cases, contrast, seed=3)
                found[f"{names} {size} {groups} overall"] = overall_p(cases, seed=2)
                if names:
                    found[f"{names} {size} {groups} overall names"] = names_overall_p(cases, seed=2)
    return found


CASES = {
    "people": people_cases,
    "published people": published_cases_of,
    "associations": association_cases,
    "letters": letter_cases,
    "gaps": gap_cases,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_whole_records_are_the_recorded_ones(name: str, tmp_path: Path) -> None:
    found = json.dumps({case: plain(value) for case, value in CASES[name](tmp_path).items()})
    check_whole(f"cases of {name} asked of chat models", json.loads(found.replace(str(tmp_path), "folder")))
