"""The run on stages of its own making: what is computed, what is left out, what is said, and what is handed to measures."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import evenhand as eh
from evenhand.audit import Plan, Question, runner
from evenhand.audit.cells import Cell, CellStore, cell_key, change_key
from evenhand.audit.runner import (
    Outcome,
    StageTask,
    _counter,
    _free_memory,
    _stage_tasks,
    _vector_bytes,
    apply_chain,
    ask,
    collected_warnings,
    run_pair,
    skip_or_raise,
)
from evenhand.errors import EvenhandWarning, TextTooLongError, UsageError, WorkerError
from made_audits import NOTHING, measured

SIX, SEVEN = Question("weat", "weat-6"), Question("weat", "weat-7")
GENDER = eh.concept("gender")


@pytest.fixture
def few(glove: eh.Vectors) -> eh.Vectors:
    asked = {word for id in ("weat-6", "weat-7") for word in eh.query(id).words}
    paired = {word for pair in GENDER.pairs for word in pair}
    return glove.restrict(sorted({found for word in asked | paired if (found := glove.find(word))}))


def run(subject: Any, plan: Plan, **more: Any) -> eh.Audit:
    subjects = subject if isinstance(subject, list) else [subject]
    return runner.run([eh.open(one) for one in subjects], plan, **more)


def test_stages_have_titles_and_keys(few: eh.Vectors) -> None:
    subject = eh.open(few)
    original, hard = _stage_tasks(subject, Plan((SIX, SEVEN), ("hard",), seed=2), GENDER)
    assert (original.name, original.chain, hard.name, hard.chain) == ("original", "", "hard", "hard")
    assert original.key == change_key(subject.opening_digest, "", GENDER, 2)
    assert hard.key == change_key(subject.opening_digest, "hard", GENDER, 2)
    assert dict(hard.cells) == {cell_key(hard.key, one, GENDER, 2): one for one in (SIX, SEVEN)}
    assert [hard.title(key) for key in hard.cells] == ["weat-6, hard", "weat-7, hard"]


def test_reasons_name_the_subject_where_there_are_several() -> None:
    one = Outcome({("v", "hard"): "no pairs", ("v", "span"): "no words"})
    assert one.reasons() == {"hard": "no pairs", "span": "no words"}
    two = Outcome({("v", "hard"): "no pairs", ("w", "hard"): "no words"})
    assert two.reasons() == {"hard (v)": "no pairs", "hard (w)": "no words"}


def test_a_run_tells_every_cell_and_what_it_will_ask(few: eh.Vectors, tmp_path: Path) -> None:
    heard, arrived, said = [], [], []
    audit = run(
        few, Plan((SIX, SEVEN), ("linear",), seed=2), folder=tmp_path, announce=said.append,
        progress=lambda *news: heard.append(news), arrived=lambda *cell: arrived.append(cell),
    )  # fmt: skip
    assert heard == [
        (0, 4, "glove-embedded"), (0, 4, "weat-6, original"), (1, 4, "weat-7, original"), (2, 4, "fitting linear"),
        (2, 4, "weat-6, linear"), (3, 4, "weat-7, linear"), (4, 4, "done"),
    ]  # fmt: skip
    assert [(subject, stage, one) for subject, stage, one, _ in arrived] == [
        ("glove-embedded", stage, one) for stage in ("original", "linear") for one in (SIX, SEVEN)
    ]
    assert [cell.measurements[0].value for *_, cell in arrived] == [one.measurement.value for one in audit.results]
    assert said == ["4 cells to measure: 4 of vectors"]
    manifest = audit.manifest
    assert (manifest["cells_computed"], manifest["skipped"]) == (4, {})
    effective = manifest["arguments"]["effective"]
    assert (effective["jobs"], effective["memory"], "foreseen" in effective) == (1, None, False)
    assert [(stage.name, stage.subject) for stage in audit.stages] == [
        ("original", "glove-embedded"),
        ("linear", "glove-embedded"),
    ]
    assert audit.stages[0].report == {"warnings": []}
    assert audit.stages[1].report["method"] == "linear"
    heard.clear()
    again = run(
        few, Plan((SIX, SEVEN), ("linear",), seed=2), folder=tmp_path, progress=lambda *news: heard.append(news)
    )
    assert heard == [(4, 4, "done")]
    assert again.manifest["cells_computed"] == 0
    assert again.stages == audit.stages


def test_what_a_run_refuses(few: eh.Vectors) -> None:
    for arguments, message in (
        ({"arrived": print, "jobs": 2}, "with a single job only"), ({"jobs": 0}, "jobs must be at least 1"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            run(few, Plan((SIX,)), **arguments)
    with pytest.raises(UsageError, match="kept by one process"):
        run(few, Plan((SIX,), most_tokens=5), jobs=2)
    with pytest.raises(UsageError, match="need subjects opened from an address"):
        run(few, Plan((SIX,)), jobs=2)
    with pytest.raises(UsageError, match="works on"):
        run(few, Plan((SIX,), ("cda",)))


def test_methods_that_fail_are_skipped_where_the_plan_says_so(few: eh.Vectors) -> None:
    nothing = few.restrict(["she", "doctor"]) if "doctor" in few else few.restrict(few.words[:2])
    plan = Plan((SIX,), ("linear", "span"), skip_failing=True)
    audit = run([few, replace_name(nothing, "n")], plan)
    assert set(audit.manifest["skipped"]) == {"linear", "span"}
    assert [(stage.subject, stage.name) for stage in audit.stages] == [
        ("glove-embedded", "original"), ("glove-embedded", "linear"), ("glove-embedded", "span"), ("n", "original")
    ]  # fmt: skip
    assert len(audit.results) == 4
    with pytest.raises(eh.EvenhandError):
        run(replace_name(nothing, "n"), replace(plan, skip_failing=False))


def replace_name(v: eh.Vectors, name: str) -> eh.Vectors:
    return eh.Vectors(v.words, v.matrix, name=name)


def test_only_methods_are_skipped() -> None:
    original, hard = (StageTask(SimpleNamespace(name="v"), name, "k", {}) for name in ("original", "hard"))
    lenient, strict, outcome = Plan((), skip_failing=True), Plan(()), Outcome()
    for task, plan, error in (
        (hard, strict, UsageError("no")), (original, lenient, UsageError("no")), (hard, lenient, WorkerError("gone")),
    ):  # fmt: skip
        with pytest.raises(type(error)):
            skip_or_raise(task, plan, outcome, error)
    assert outcome.skipped == {}
    skip_or_raise(hard, lenient, outcome, UsageError("no pairs"))
    assert outcome.skipped == {("v", "hard"): "no pairs"}


def test_a_stage_without_time_is_not_fitted(few: eh.Vectors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "fit_stage", lambda *given: pytest.fail("it was fitted"))
    audit = run(few, Plan((SIX, SEVEN), budget=1e-12))
    assert [result.measurement.reason for result in audit.results] == [
        "left out: the budget of 1e-12 s was spent, or too small"
    ] * 2
    assert [(one.measurement.query, one.measurement.seed, one.measurement.status) for one in audit.results] == [
        ("weat-6", 0, "undefined"), ("weat-7", 0, "undefined")
    ]  # fmt: skip
    assert audit.manifest["cells_computed"] == 0


def test_warnings_of_stages_and_cells_are_noted_once(few: eh.Vectors, monkeypatch: pytest.MonkeyPatch) -> None:
    true_ask = runner.ask

    def warning(question: Question, *given: Any, **more: Any) -> Any:
        warnings.warn("take care", EvenhandWarning, stacklevel=2)
        warnings.warn(question.query, EvenhandWarning, stacklevel=2)
        return true_ask(question, *given, **more)

    monkeypatch.setattr(runner, "ask", warning)
    assert run(few, Plan((SIX, SEVEN))).manifest["warnings"] == ["take care", "weat-6", "weat-7"]
    with warnings.catch_warnings(record=True) as others:
        warnings.simplefilter("always")
        with collected_warnings() as notes:
            for text, kind in (("ours", EvenhandWarning), ("ours", EvenhandWarning), ("of others", UserWarning)):
                warnings.warn(text, kind, stacklevel=2)
    assert [(str(one.message), one.category) for one in others] == [("of others", UserWarning)]
    assert notes == ["ours", "ours"]


def test_a_cell_that_nobody_measured_is_an_error() -> None:
    task = StageTask(SimpleNamespace(name="v"), "hard", "s", {"k": SIX})
    with pytest.raises(UsageError, match="the cell weat-6 of hard was not measured"):
        runner._collect([task], Plan((SIX,)), CellStore(None), Outcome())
    store = CellStore(None)
    store.put_cell("k", Cell((measured("weat", 1.0, query="weat-6"),), ("take care",)))
    store.put_stage("s", {"warnings": ["fitted badly", "take care"]})
    results, notes = runner._collect([task], Plan((SIX,)), store, Outcome())
    assert [(one.subject, one.stage, one.measurement.value) for one in results] == [("v", "hard", 1.0)]
    assert notes == ["fitted badly", "take care"]
    assert runner._collect([task], Plan((SIX,)), store, Outcome({("v", "hard"): "no"})) == ([], [])


class View:
    """A measure that notes what it is given."""

    def __init__(self, *, concept: bool, reference: bool, view: str = "vectors", error: bool = False) -> None:
        self.given: list[tuple[object, ...]] = []
        self.info = SimpleNamespace(id="m", view=view, takes="words", queries=(), arity=(None, None))
        names = ["view", "query", *(["concept"] if concept else []), *(["reference"] if reference else [])]
        scope: dict[str, Any] = {"given": self.given, "error": error, "Long": TextTooLongError}
        more = "".join(f", {name}=None" for name in names[2:])
        text = f"def call(view, query{more}, **rest):\n"
        text += "    if error: raise Long('too long')\n"
        text += f"    given.append(({', '.join(names)}, rest))\n    return 'measured'"
        exec(text, scope)
        self.call = scope["call"]


def asked(view: View, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], **more: Any) -> Any:
    monkeypatch.setattr(runner.measures, "get", lambda name: view.call)
    question = SimpleNamespace(info=view.info, measure="m", query="vocabulary", options=options)
    return ask(question, more.pop("subject"), GENDER, **more)


def test_a_measure_gets_what_it_takes(few: eh.Vectors, monkeypatch: pytest.MonkeyPatch) -> None:
    subject, other = eh.open(few), eh.open(few.head(5))
    plain = View(concept=False, reference=False)
    assert asked(plain, monkeypatch, {"sample": 0, "x": 1}, subject=subject) == "measured"
    ((view, query, rest),) = plain.given
    assert (view, query, rest) == (few, "vocabulary", {"seed": 0, "sample": None, "x": 1})
    whole = View(concept=True, reference=True)
    asked(whole, monkeypatch, {"sample": 3, "seed": 9}, subject=subject, reference=other, seed=4)
    asked(whole, monkeypatch, {}, subject=subject, seed=4)
    assert whole.given[0][1:3] == ("vocabulary", GENDER)
    assert [given[3] for given in whole.given] == [other.view("vectors"), few]
    assert [given[4] for given in whole.given] == [{"seed": 9, "sample": 3}, {"seed": 4}]
    text = View(concept=False, reference=False, view="text")
    writer = SimpleNamespace(text=lambda **sizes: sizes)
    asked(text, monkeypatch, {"samples": 3, "tokens": 5, "seed": 2}, subject=writer)
    asked(text, monkeypatch, {"window": 5}, subject=writer, seed=6)
    assert text.given == [
        ({"samples": 3, "tokens": 5, "seed": 2}, "vocabulary", {"seed": 2}),
        ({"samples": None, "tokens": None, "seed": 6}, "vocabulary", {"seed": 6, "window": 5}),
    ]


def test_a_text_that_is_too_long_leaves_the_score_undefined(few: eh.Vectors, monkeypatch: pytest.MonkeyPatch) -> None:
    long = View(concept=False, reference=False, error=True)
    m = asked(long, monkeypatch, {}, subject=eh.open(few), seed=3)
    assert (m.measure, m.status, m.reason, m.query, m.seed, m.coverage) == (
        "m", "undefined", "too long", "vocabulary", 3, NOTHING,
    )  # fmt: skip


def test_a_chain_of_one_and_of_none(few: eh.Vectors) -> None:
    subject = eh.open(few)
    same, nothing = apply_chain("", subject, GENDER)
    assert (same, nothing) == (subject, {})
    one, report = apply_chain("linear", subject, GENDER)
    assert report == eh.mitigations.get("linear")().fit(few, "gender").report
    assert one.view("vectors") == eh.mitigations.get("linear")().fit(few, "gender")(few)
    _, chained = apply_chain("random(k=2).linear", subject, GENDER, seed=5)
    assert chained["method"] == "random(k=2).linear"
    assert [step["method"] for step in chained["chain"]] == ["random", "linear"]
    assert chained["chain"][0]["params"]["seed"] == 5


def test_two_subjects_as_stages_of_one(few: eh.Vectors) -> None:
    after = eh.mitigations.get("linear")().fit(few, "gender")(few)
    heard: list[tuple[int, int, str]] = []
    plan = Plan((SIX, Question("retention", "vocabulary")), seed=3)
    audit = run_pair(
        eh.open(few), eh.open(replace_name(after, "mine")), plan, progress=lambda *news: heard.append(news)
    )
    assert heard == [(0, 2, "weat-6"), (1, 2, "retention:vocabulary")]
    assert [(one.subject, one.stage, one.label) for one in audit.results] == [
        ("glove-embedded", stage, label)
        for label in ("weat-6", "retention:vocabulary")
        for stage in ("original", "mine")
    ]
    assert audit.get("weat-6", "mine").value == eh.measures.weat(after, "weat-6", seed=3).value
    assert audit.get("retention").value == pytest.approx(1.0)
    assert audit.get("retention", "mine").value < 0.9999
    assert audit.stage_names == ("original", "mine")
    assert audit.manifest["subjects"][0]["compared_with"]["name"] == "mine"
    assert (audit.manifest["cells_computed"], audit.seed) == (4, 3)
    same = run_pair(eh.open(few), eh.open(replace_name(after, "original")), Plan((SIX,)))
    assert same.stage_names == ("original", "after")


def test_tokens_are_counted_from_now_on_and_once_for_each_subject() -> None:
    one, two = SimpleNamespace(tokens_spent=5), SimpleNamespace(tokens_spent=7)
    spent = _counter([StageTask(subject, "x", "k", {}) for subject in (one, one, two)])
    assert spent() == 0
    one.tokens_spent, two.tokens_spent = 8, 17
    assert spent() == 13


def test_the_memory_of_subjects_and_of_the_machine(few: eh.Vectors, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _vector_bytes(eh.open(few)) == few.matrix.nbytes
    assert _vector_bytes(SimpleNamespace(offers=("text",))) == 0
    sizes = {"SC_AVPHYS_PAGES": 3, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr("os.sysconf", sizes.__getitem__)
    assert _free_memory() == 12_288.0

    def unknown(name: str) -> int:
        raise ValueError(name)

    monkeypatch.setattr("os.sysconf", unknown)
    assert _free_memory() == 4 * 1024**3
