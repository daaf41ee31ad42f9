"""How much an audit asks: sizes in words and out of words, samples, texts, judges, and what is said before and after."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import evenhand as eh
from evenhand.audit import Plan, Question, workload
from evenhand.audit.cells import Cell, CellStore
from evenhand.audit.runner import StageTask
from evenhand.audit.workload import (
    Foreseen,
    budget_note,
    budget_of,
    budget_text,
    check_sizes,
    conversations_asked,
    foresee,
    judged,
    limited,
    outlook,
    sample_notes,
    seconds_of,
    texts_written,
    with_texts,
    writes_text,
)
from evenhand.errors import UsageError
from evenhand.models.endpoint.views import Demand

GENDER = eh.concept("gender")
WEAT, GIPE = Question("weat", "weat-6"), Question("gipe", "vocabulary")
RETENTION, MAB = Question("retention", "vocabulary"), Question("mab", "mab-explicit")
CORPUS, PROMPTS = Question("corpus-bias", "words"), Question("counterfactual-text", "person-prompts")
CHAT, JUDGED = Question("word-association", "bai2025-career"), Question("judged-generations", "person-prompts")


def stub(offers: tuple[str, ...] = ("vectors",), likelihood: str = "", **more: Any) -> Any:
    return SimpleNamespace(name="s", offers=offers, likelihood_of=likelihood, opened_with={}, **more)


WRITER, CORPUS_FILE = stub(("text", "likelihood"), "causal-lm"), stub(("text",))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90), ("10min", 600), ("1.5 h", 5_400), ("45", 45), (" 2 HOURS ", 7_200), ("3 m", 180), ("1 sec", 1),
        ("2 seconds", 2), ("1 minute", 60), ("1hour", 3_600), ("0.5", 0.5),
    ],
)  # fmt: skip
def test_times(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
    assert budget_of(text) == (seconds, None)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("50k tokens", 50_000),
        ("2000 tokens", 2_000),
        ("1.5M token", 1_500_000),
        ("1 token", 1),
        (" 2 K TOKENS ", 2_000),
    ],
)
def test_tokens(text: str, tokens: int) -> None:
    assert budget_of(text) == (None, tokens)


@pytest.mark.parametrize("text", ["0", "0 tokens", "0.4 tokens", "soon", "-1s"])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        budget_of(text)
    hint = (
        "such as 50k tokens"
        if "tokens" in text
        else "such as 90s, 10min or 1.5h; or tokens of a server, such as 50k tokens"
    )
    assert raised.value.hint == hint


def test_a_budget_in_words() -> None:
    assert budget_text(Plan((WEAT,), budget=90.0)) == "90 s"
    assert budget_text(Plan((WEAT,), most_tokens=50_000)) == "50,000 tokens"


def test_sizes_are_above_zero() -> None:
    check_sizes(limit=None, samples=1, budget=0.001)
    for value in (0, -1, float("nan")):
        with pytest.raises(UsageError, match="samples must be above 0"):
            check_sizes(limit=3, samples=value)


def test_a_limit_changes_what_draws_more() -> None:
    """GIPE asks everything, retention 2,000, and MAB a sample that may be none."""
    whole = Question("mab", "mab-explicit", {"sample": 0})
    small = Question("retention", "vocabulary", {"sample": 40, "seed": 3})
    found = limited([WEAT, GIPE, RETENTION, whole, small], 50)
    assert [dict(one.options) for one in found] == [
        {},
        {"sample": 50},
        {"sample": 50},
        {"sample": 50},
        dict(small.options),
    ]
    assert found[0] is WEAT
    assert dict(limited([small, GIPE], 39)[0].options) == {"sample": 39, "seed": 3}
    for questions, limit in (([small], 40), ([RETENTION], 2_000), ([WEAT], 1)):
        with pytest.raises(UsageError, match=f"more than {limit} items"):
            limited(questions, limit)
    assert limited([RETENTION], 1_999)[0].options == {"sample": 1_999}


def test_only_models_that_continue_texts_write_text() -> None:
    assert [writes_text(one) for one in (WRITER, CORPUS_FILE, stub(("likelihood",), "causal-lm"), stub(("text",), "masked-lm"))] == [
        True, False, False, False,
    ]  # fmt: skip


def test_questions_about_text_say_how_much_is_written() -> None:
    asked = (WEAT, CORPUS)
    assert with_texts(asked, [CORPUS_FILE], None, None) == asked
    assert with_texts(asked, [WRITER], None, None)[0] is WEAT
    assert with_texts(asked, [CORPUS_FILE, WRITER], None, None)[1].options == {"samples": 200, "tokens": 100}
    opened = stub(("text",), "causal-lm")
    opened.opened_with = {"samples": 7, "tokens": 5}
    other = stub(("text",))
    other.opened_with = {"samples": 8, "tokens": 9}
    assert with_texts(asked, [other, opened], None, None)[1].options == {"samples": 7, "tokens": 5}
    assert with_texts(asked, [opened], 3, None)[1].options == {"samples": 3, "tokens": 5}
    assert with_texts(asked, [opened], None, 3)[1].options == {"samples": 7, "tokens": 3}
    kept = with_texts([Question("corpus-bias", "words", {"window": 4})], [WRITER], None, None)
    assert kept[0].options == {"window": 4, "samples": 200, "tokens": 100}
    for subjects, questions, sizes in (
        ([CORPUS_FILE], asked, (3, None)), ([CORPUS_FILE], asked, (None, 3)), ([WRITER], (WEAT,), (3, 3)),
    ):  # fmt: skip
        with pytest.raises(UsageError, match="none does in this audit"):
            with_texts(questions, subjects, *sizes)
    assert with_texts((WEAT,), [WRITER], None, None) == (WEAT,)


def test_judged_questions_say_who_judges() -> None:
    asked = (WEAT, JUDGED)
    assert judged(asked, None, None) == asked
    assert judged((WEAT,), None, None) == (WEAT,)
    assert [one.options for one in judged(asked, "hf:a", None)] == [{}, {"judge": "hf:a"}]
    assert judged(asked, "hf:a,hf:b", "x,y")[1].options == {"judge": "hf:a,hf:b", "judge_label": "x,y"}
    for judge, label in (("hf:a", None), (None, "x")):
        with pytest.raises(UsageError, match="nothing is written"):
            judged((WEAT,), judge, label)


def test_what_was_foreseen() -> None:
    one = Foreseen({"a": Demand(2, 1, 10.4, 5.0), "b": Demand(1, 1, 0.2, 0.4)})
    assert one.total() == Demand(3, 2, 10.6, 5.4)
    assert one.total() == Demand(3, 2, 10.6, 5.4)
    assert (one.to_dict(), Foreseen(uncounted=1).to_dict()) == ({"foreseen": one.total().to_dict()}, {})
    assert str(one) == (
        "3 requests to the server; billed are about 11 tokens read and at most 5 written; 2 answers of an earlier run "
        "will be reused"
    )
    assert str(Foreseen({"a": Demand(1, 0, 1.0, 1.0)})).endswith("at most 1 written")
    assert str(Foreseen(uncounted=1)).endswith("at most 0 written; 1 cell could not be counted")


def task(name: str = "original", *questions: Question, subject: Any = None) -> StageTask:
    cells = {f"{name} {number}": question for number, question in enumerate(questions)}
    return StageTask(subject or stub(), name, f"stage {name}", cells)


def test_the_outlook_counts_cells_by_view_texts_and_requests() -> None:
    texts = Question("corpus-bias", "words", {"samples": 1_200, "tokens": 1_000})
    asked = (texts, WEAT, GIPE, MAB, CHAT)
    tasks = [task("original", *asked), task("linear", *asked)]
    store = CellStore(None)
    requests = conversations_asked(CHAT, GENDER)
    assert requests > 1
    assert outlook(tasks, Plan(asked), GENDER, store).splitlines() == [
        "10 cells to measure: 4 of vectors, 2 of inference, 2 of text, 2 of chat",
        "corpus-bias: the model writes 1,200 texts of up to 1,000 tokens on each of 2 stages",
        f"word-association:bai2025-career: {requests:,} requests to the chat model on each of 2 stages",
    ]
    for key in tasks[1].cells:
        store.put_cell(key, Cell(()))
    store.put_cell("original 1", Cell(()))
    foreseen = Foreseen({"a": Demand(1, 0, 2.0, 3.0)})
    assert outlook(tasks, Plan(asked, budget=60.0), GENDER, store, foreseen).splitlines() == [
        "4 cells to measure: 1 of vectors, 1 of inference, 1 of text, 1 of chat; 6 cells of an earlier run will be reused",
        "corpus-bias: the model writes 1,200 texts of up to 1,000 tokens",
        f"word-association:bai2025-career: {requests:,} requests to the chat model",
        "1 request to the server; billed are about 2 tokens read and at most 3 written",
        "cells for which the budget of 60 s is too small will be named in the record",
    ]
    one = [task("original", WEAT)]
    assert outlook(one, Plan((WEAT,), most_tokens=5_000), GENDER, CellStore(None), Foreseen()).splitlines() == [
        "1 cell to measure: 1 of vectors",
        "cells for which the budget of 5,000 tokens is too small will be named in the record",
    ]
    assert outlook([], Plan(()), GENDER, store) == "0 cells to measure"


def test_texts_that_a_question_has_written() -> None:
    nothing = eh.Concept("none", {"a": ["x"]})
    assert texts_written(WEAT, GENDER) == (0, 0)
    assert texts_written(CORPUS, GENDER) == (0, 0)
    assert texts_written(Question("corpus-bias", "words", {"samples": 30, "tokens": 12}), GENDER) == (30, 12)
    assert texts_written(Question("seat", "weat-6", {"samples": 30, "tokens": 12}), GENDER) == (0, 0)
    assert texts_written(PROMPTS, GENDER) == (320, 20)
    small = Question("counterfactual-text", "person-prompts", {"samples": 1, "rows": 2, "tokens": 7})
    count, tokens = texts_written(small, GENDER)
    assert (0 < count < 320, tokens) == (True, 7)
    assert texts_written(PROMPTS, nothing) == (0, 0)


def test_conversations_that_a_question_takes() -> None:
    assert conversations_asked(WEAT, GENDER) == 0

    def refuse(query: str, concept: eh.Concept, **options: object) -> int:
        raise UsageError(f"{query} cannot be asked")

    assert conversations_asked(stub(info=SimpleNamespace(requests=refuse), query="x", options={}), GENDER) == 0
    about = SimpleNamespace(requests=lambda query, concept, samples: samples * len(query))
    assert conversations_asked(stub(info=about, query="four", options={"samples": 3}), GENDER) == 12


def test_notes_about_samples_and_texts() -> None:
    def sampled(measure: str, size: int) -> Question:
        return Question(measure, "vocabulary", {"sample": size})

    texts = Question("corpus-bias", "words", {"samples": 1_200, "tokens": 1_000})
    seat = Question("seat", "weat-6", {"samples": 3, "tokens": 2})
    questions = (
        sampled("gipe", 1_500),
        texts,
        sampled("retention", 40),
        sampled("clustering", 1_500),
        sampled("gipe", 1_500),
    )
    plan = Plan((*questions, seat, sampled("mab", 0), CORPUS), seed=5)
    notes = [
        "a sample of at most 1,500 items, drawn with seed 5, was asked by gipe, clustering",
        "a sample of at most 40 items, drawn with seed 5, was asked by retention",
        "corpus-bias:words reads 1,200 texts of up to 1,000 tokens that the model wrote; the paper has 2,000 of 500 "
        "(`samples=`, `tokens=`)",
    ]
    assert sample_notes([CORPUS_FILE, WRITER], plan) == notes
    assert sample_notes([CORPUS_FILE], plan) == notes[:2]


def test_a_note_names_the_cells_that_the_budget_left_out() -> None:
    tasks = [task("original", WEAT, GIPE), task("linear", WEAT, GIPE)]
    plan = Plan((WEAT, GIPE), budget=2.5)
    assert budget_note(tasks, plan, set()) == ""
    assert budget_note(tasks, plan, {("stage original", "linear 0")}) == ""
    left = {("stage linear", "linear 0"), ("stage original", "original 1")}
    assert budget_note(tasks, plan, left) == (
        "the budget of 2.5 s left out 2 cells (gipe:vocabulary, original, weat-6, linear); the same command with a larger "
        "budget, or without one, adds them to the finished cells"
    )


class Server:
    """A subject that is rehearsed; each question takes as many requests as its view says."""

    name = "server"
    offers = ("vectors",)

    def __init__(self, requests: int) -> None:
        self.requests = requests

    def rehearsal(self) -> tuple[Any, Demand]:
        return self, Demand(self.requests, 0, 1.0, 2.0)


def test_what_will_be_asked_is_counted_for_missing_cells_of_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(question: Question, subject: Any, concept: eh.Concept, *, reference: Any, seed: int) -> None:
        assert (concept, reference, seed) == (GENDER, subject, 4)
        asked.append(question.label())
        if question == GIPE:
            raise UsageError("it cannot be asked")

    monkeypatch.setattr("evenhand.audit.runner.ask", ask)
    free = stub(rehearsal=lambda: None)
    server, silent = Server(3), Server(0)
    tasks = [
        task("original", WEAT, GIPE, MAB, subject=server), task("linear", WEAT, subject=server),
        task("original", RETENTION, subject=free),
        StageTask(silent, "original", "s", {"x": WEAT, "y": GIPE, "z": Question("gipe", "vocabulary")}),
    ]  # fmt: skip
    store = CellStore(None)
    store.put_cell("original 2", Cell(()))
    plan = Plan((), seed=4)
    found = foresee(tasks, plan, GENDER, store)
    assert asked == ["weat-6", "gipe:vocabulary", "weat-6", "gipe:vocabulary", "gipe:vocabulary"]
    assert found.demands == {"weat-6": Demand(3, 0, 2.0, 4.0), "gipe:vocabulary": Demand(3, 0, 3.0, 6.0)}
    assert found.uncounted == 2
    seconds = iter([0.0, 30.0, 30.1, 30.2, 30.3, 30.4])
    monkeypatch.setattr(workload, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    late = foresee(tasks, plan, GENDER, store)
    assert (list(late.demands), late.uncounted) == (["weat-6"], 4)
