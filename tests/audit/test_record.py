"""The record by hand: names of rows, tables, numbers for dashboards, frames, and what a file must have."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import evenhand as eh
from evenhand.audit import Plan, Question, Result, runner
from evenhand.audit.manifest import Invocation
from evenhand.audit.record import Row, from_dict, record_measured, rows, signed
from evenhand.errors import EvenhandWarning, FormatError, UnknownNameError, UsageError
from made_audits import audit_of, measured, result

FAILED = {"not_interpretable": "controls failed"}


def weat(value: float | None, half: float | None = None, query: str = "weat-6", **more: Any) -> eh.Measurement:
    return measured("weat", value, half, query=query, **more)


def direct(variant: str, subject: str = "a") -> Result:
    return result("original", measured("direct-bias", 0.1, query="professions"), variant=variant, subject=subject)


@pytest.fixture
def audit() -> eh.Audit:
    return audit_of(
        [
            result("original", weat(1.0, 0.5), subject="a"), result("linear", weat(0.25), subject="a"),
            result("original", weat(2.0, query="weat-7", p_value=0.01, coverage=eh.Coverage(("x",), ("y", "z"))), subject="a"),
            result("linear", weat(None, query="weat-7"), subject="a"), direct("old"), direct("new"),
            result("original", measured("mweat", 0.5, query="forms", score="lean", details=FAILED), subject="a"),
            result("original", weat(3.0), subject="b"),
        ]
    )  # fmt: skip


def only(audit: eh.Audit, subject: str) -> eh.Audit:
    return audit_of(one for one in audit.results if one.subject == subject)


def test_names_in_their_order(audit: eh.Audit) -> None:
    labels = ("weat-6", "weat-7", "direct-bias:professions:old", "direct-bias:professions:new", "mweat:forms:lean")
    assert audit.labels == labels
    assert audit.subjects == ("a", "b")
    assert audit.stage_names == ("original", "linear")
    assert audit.mitigated == ("linear",)
    assert (audit.concept, audit.seed) == ("gender", 7)
    assert repr(audit) == "Audit(a, b: 5 rows x 2 stages, concept gender, seed 7)"
    assert repr(audit_of([direct("old")])) == "Audit(a: 1 row x 1 stage, concept gender, seed 7)"
    assert audit.question("weat-7") == Question("weat", "weat-7")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("weat-7", "weat-7"), ("weat:weat-7", "weat-7"), ("direct-bias:old", "direct-bias:professions:old"),
        ("direct-bias, old", "direct-bias:professions:old"), ("professions:new", "direct-bias:professions:new"),
        ("direct bias, professions, new", "direct-bias:professions:new"), ("mweat:lean", "mweat:forms:lean"),
        ("forms:lean", "mweat:forms:lean"),
    ],
)  # fmt: skip
def test_a_row_has_several_names(audit: eh.Audit, text: str, label: str) -> None:
    assert audit.find_label(text) == label


def test_a_name_of_several_rows_or_none_is_refused(audit: eh.Audit) -> None:
    with pytest.raises(UsageError, match="'weat' could be") as several:
        audit_of([result("original", weat(1.0)), result("original", weat(1.0, query="x"))]).find_label("weat")
    assert several.value.hint == "it has weat-6, weat:x"
    with pytest.raises(UsageError, match="no row 'direct-bias'"):
        audit.find_label("direct-bias")


def test_one_cell(audit: eh.Audit) -> None:
    assert audit.get("weat-6", subject="b").value == 3.0
    assert audit.get("weat-6", "linear", "a").value == 0.25
    with pytest.raises(UsageError, match="several subjects") as several:
        audit.get("weat-6")
    assert several.value.hint == "say which: a, b"
    with pytest.raises(UsageError, match=r"no 'weat-6' on the stage 'linear' of b") as none:
        audit.get("weat-6", "linear", "b")
    assert none.value.hint == "stages: original, linear"
    assert only(audit, "b").get("weat").value == 3.0


def test_tables_and_rows(audit: eh.Audit) -> None:
    table = audit.rows()
    assert list(table) == list(audit.labels)
    assert {stage: m.value for stage, m in table["weat-6"].items()} == {"original": 1.0, "linear": 0.25}
    assert list(audit.rows("b")) == ["weat-6"]
    assert audit.rows("c") == {}
    first = rows(audit)[0]
    assert first == Row("weat-6", Question("weat", "weat-6"), table["weat-6"])
    assert (first.original.value, first.info.id) == (1.0, "weat")
    assert [Row("x", Question(m.measure, ""), {"original": m}).arrow for m in (measured("mweat", 1.0, score="lean"), measured("similarity", 1.0))] == [
        eh.measures.registry.ARROWS["zero"], eh.measures.registry.ARROWS["higher"]
    ]  # fmt: skip


def test_numbers_for_dashboards(audit: eh.Audit) -> None:
    a = {"weat-6": 1.0, "weat-6.low": 0.5, "weat-6.high": 1.5, "weat-6@linear": 0.25, "weat-7": 2.0}
    a |= {"direct-bias:professions:old": 0.1, "direct-bias:professions:new": 0.1}
    assert audit.scalars() == {f"a/{name}": value for name, value in a.items()} | {"b/weat-6": 3.0}
    assert audit.scalars("a") == only(audit, "a").scalars() == a
    assert audit.scalars("b") == {"weat-6": 3.0}
    with pytest.raises(UnknownNameError, match="subject 'c'"):
        audit.scalars("c")


def test_a_frame_has_a_line_for_each_measurement(audit: eh.Audit) -> None:
    lines = audit.to_frame("polars").to_dicts()
    assert len(lines) == 8
    assert lines[0] == {
        "subject": "a", "stage": "original", "label": "weat-6", "measure": "weat", "query": "weat-6", "score": "",
        "value": 1.0, "low": 0.5, "high": 1.5, "p_value": None, "n": 8, "words_missing": 0, "status": "ok", "reason": "",
        "note": "",
    }  # fmt: skip
    assert [lines[2][name] for name in ("low", "high", "p_value", "words_missing")] == [None, None, 0.01, 2]
    assert (lines[3]["status"], lines[3]["reason"]) == ("undefined", "no words")


def test_a_result_comes_back_from_plain_data() -> None:
    one = result("linear", weat(1.0, 0.5), variant="old", sample=3)
    plain = one.to_dict()
    assert {name: plain[name] for name in ("subject", "stage", "label", "variant", "options", "only_query")} == {
        "subject": "v", "stage": "linear", "label": "weat-6:old", "variant": "old", "options": {"sample": 3},
        "only_query": False,
    }  # fmt: skip
    assert Result.from_dict(plain) == one
    alone = replace(one, question=replace(one.question, only_query=True))
    assert Result.from_dict(alone.to_dict()) == alone != one


def vectors(name: str) -> eh.Vectors:
    return eh.Vectors(["she", "he"], [[1.0, 0.2], [-1.0, 0.2]], name=name)


def test_measurements_that_were_made_elsewhere() -> None:
    subject = eh.open(vectors("v"))
    asked = [(Question("weat", "weat-6"), (weat(1.0), weat(2.0, score="x"))), (Question("weat", "weat-7"), ())]
    call = Invocation(command="evenhand x", given={"a": 1})
    made = record_measured(subject, asked, eh.concept("religion"), seed=4, warnings=["take care"], invocation=call)
    assert [(one.subject, one.stage, one.label, one.measurement.value) for one in made.results] == [
        ("v", "original", "weat-6", 1.0), ("v", "original", "weat-6:x", 2.0)
    ]  # fmt: skip
    assert [(stage.name, stage.subject, stage.report) for stage in made.stages] == [("original", "v", {})]
    assert (made.concept, made.seed, made.manifest["cells_computed"]) == ("religion", 4, 2)
    assert (made.manifest["warnings"], made.manifest["seconds"]) == (["take care"], 0.0)
    arguments = made.manifest["arguments"]
    assert (arguments["command"], arguments["given"]) == ("evenhand x", {"a": 1})
    effective = dict(arguments["effective"])
    assert effective["question"] == [{"measure": "weat", "query": "weat-6"}, {"measure": "weat", "query": "weat-7"}]
    assert (effective["subjects"], effective["concept"], effective["engine"]) == (["v"], "religion", "local")
    several = record_measured(subject, asked, None)
    assert (several.concept, several.seed, several.manifest["arguments"]["effective"]["concept"]) == (
        "social",
        0,
        "social",
    )
    assert several.manifest["concept"]["digest"] == ""


def test_subjects_of_one_name_are_told_apart_by_their_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        vectors("v").save(tmp_path / folder / "v.vec")
    addresses = [str(tmp_path / folder / "v.vec") for folder in ("a", "b")]
    asked = {"methods": [], "measures": ["direct-bias"]}
    audit = eh.Audit.run([*addresses, vectors("w")], **asked)
    assert audit.subjects == (*addresses, "w")
    assert eh.Audit.run(addresses[:1], **asked).subjects == ("v.vec",)
    with pytest.raises(UsageError, match="two subjects have the same name: v, v"):
        eh.Audit.run([vectors("v"), vectors("v")], **asked)
    with pytest.raises(UsageError, match="nothing to audit"):
        eh.Audit.run([], **asked)


def test_a_run_hands_on_what_it_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    handed: list[tuple[list[Any], Plan, dict[str, Any]]] = []
    monkeypatch.setattr(runner, "run", lambda subjects, plan, **rest: handed.append((subjects, plan, rest)))
    v, tell = vectors("v"), print
    eh.Audit.run(v, methods=(), measures=("gipe",), queries=("vocabulary",), concept="gender", seed=3, folder=str(tmp_path),
                 jobs=2, memory=1.5, skip_failing=True, full_probes=True, limit=9, budget=60.0, progress=tell, announce=tell)  # fmt: skip
    eh.Audit.run([v])
    plan = Plan.default([eh.open(v)], methods=[], only=["direct-bias"], seed=8)
    eh.Audit.run((v,), plan=plan, invocation=Invocation(call="mine"))
    (subjects, made, rest), (_, usual, plain), (_, given, last) = handed
    assert [one.name for one in subjects] == ["v"]
    question = Question("gipe", "vocabulary", {"sample": 9}, only_query=True)
    assert made == Plan((question,), (), "gender", 3, ("v",), True, 60.0)
    call = rest.pop("invocation")
    assert rest == {
        "concept": eh.concept("gender"), "folder": tmp_path, "jobs": 2, "memory": 1.5, "progress": tell, "announce": tell
    }  # fmt: skip
    assert call.given == {
        "methods": [], "measures": ["gipe"], "queries": ["vocabulary"], "concept": "gender", "seed": 3, "jobs": 2,
        "memory": 1.5, "skip_failing": True, "full_probes": True, "limit": 9, "budget": 60.0,
    }  # fmt: skip
    assert call.call.startswith("evenhand.Audit.run(")
    assert usual == Plan.default([eh.open(v)])
    assert plain["invocation"].given == {"methods": None, "measures": [], "queries": [], "concept": "gender", "seed": 0}
    assert (plain["folder"], plain["jobs"], plain["memory"]) == (None, 1, None)
    assert (given, last["invocation"]) == (plan, Invocation(call="mine"))


@pytest.fixture(scope="module")
def saved() -> dict[str, Any]:
    return eh.Audit.run(vectors("v"), methods=[], measures=["direct-bias"]).to_dict()


def test_a_record_of_the_schema_before_is_read_with_a_warning(saved: dict[str, Any]) -> None:
    old = {**{name: value for name, value in saved.items() if name != "sha256"}, "schema": 2}
    with pytest.warns(EvenhandWarning, match="kept no digest"):
        assert from_dict(old).to_dict()["results"] == saved["results"]
    assert from_dict(saved).to_dict() == saved


@pytest.mark.parametrize("schema", [1, 4, None, "3"])
def test_another_schema_is_refused(saved: dict[str, Any], schema: object) -> None:
    with pytest.raises(FormatError, match="this version reads 2 and 3"):
        from_dict({**saved, "schema": schema})
    with pytest.raises(FormatError, match="schema None"):
        from_dict([])  # type: ignore[arg-type]


def test_a_result_of_a_stage_that_is_not_listed_is_refused(saved: dict[str, Any]) -> None:
    for name, value in (("stage", "linear"), ("subject", "w")):
        record = copy.deepcopy(saved)
        record["results"][-1][name] = value
        with pytest.raises(FormatError, match="which is not listed"):
            from_dict(signed(record))
    with pytest.raises(FormatError, match="edited or damaged"):
        from_dict(record)


def test_views_are_asked_for_the_record(audit: eh.Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "evenhand.audit.record.VIEWS", SimpleNamespace(get=lambda name: lambda *given: (name, *given[1:]))
    )
    assert audit.plot() == ("plot", "", "")
    assert audit.plot("weat", "b") == ("plot", "weat", "b")
    assert audit.__rich__() == ("terminal",)
    assert audit._repr_html_() == ("tables",)
    assert audit.to_html("x.html") == ("html", Path("x.html"))
