"""The run: what it records, that it resumes, that limits are held."""

import json
from pathlib import Path

import pytest

import evenhand as eh
from evenhand.audit import Case, Plan, check, runner, store

FEW = ["weat", "direct-bias"]


@pytest.fixture(scope="module")
def audit(glove: eh.Vectors) -> eh.Audit:
    return eh.Audit.run(glove, methods=["linear"], measures=FEW, seed=3)


def test_every_case_is_measured_on_every_stage(audit: eh.Audit) -> None:
    assert [stage.name for stage in audit.stages] == ["original", "linear"]
    assert len(audit.results) == 2 * len(audit.cases)
    assert {result.stage for result in audit.results} == {"original", "linear"}


def test_a_value_is_what_the_measure_itself_says(audit: eh.Audit, glove: eh.Vectors) -> None:
    assert audit.get("weat-6").value == eh.measures.weat(glove, "weat-6", seed=3).value
    projected = eh.mitigations.LinearProjection().fit(glove, "gender")(glove)
    assert audit.get("weat-6", "linear").value == eh.measures.weat(projected, "weat-6", seed=3).value


def test_the_manifest_tells_given_from_effective(audit: eh.Audit, glove: eh.Vectors) -> None:
    arguments = audit.manifest["arguments"]
    assert arguments["given"] == {"methods": ["linear"], "measures": FEW, "concept": "gender", "seed": 3}
    assert len(arguments["effective"]["cases"]) == len(audit.cases)
    assert audit.manifest["vectors"]["words"] == len(glove)
    assert len(audit.manifest["vectors"]["sha256"]) == 64
    assert "numpy" in audit.manifest["packages"]


def test_save_and_load_give_the_same_record(audit: eh.Audit, tmp_path: Path) -> None:
    file = audit.save(tmp_path / "run")
    assert eh.Audit.load(tmp_path / "run").to_dict() == audit.to_dict() == eh.Audit.load(file).to_dict()


def test_the_saved_file_is_strict_json(audit: eh.Audit, tmp_path: Path) -> None:
    def refuse(text: str) -> None:
        raise AssertionError(text)

    json.loads(audit.save(tmp_path).read_text(), parse_constant=refuse)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"manifest": {}}', '{"manifest": {"schema": 99}}'])
def test_a_broken_record_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(text)
    with pytest.raises(eh.EvenhandError, match=r"audit"):
        eh.Audit.load(tmp_path)


def test_no_audit_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no audit"):
        eh.Audit.load(tmp_path)


def test_an_interrupted_run_goes_on_where_it_stopped(
    glove: eh.Vectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    true_measured = runner.measured

    def stopping(vectors: eh.Vectors, case: Case, **rest: object) -> eh.Measurement:
        seen.append(case.label)
        if len(seen) == 4:
            raise KeyboardInterrupt
        return true_measured(vectors, case, **rest)

    monkeypatch.setattr(runner, "measured", stopping)
    with pytest.raises(KeyboardInterrupt):
        eh.Audit.run(glove, methods=[], measures=["weat"], folder=tmp_path)
    resumed = eh.Audit.run(glove, methods=[], measures=["weat"], folder=tmp_path)
    assert len(seen) == 4 + len(resumed.results) - 3  # the three finished ones were not measured again
    whole = eh.Audit.run(glove, methods=[], measures=["weat"])
    assert [r.to_dict() for r in resumed.results] == [r.to_dict() for r in whole.results]
    resumed.save(tmp_path)
    assert not (tmp_path / store.UNDER_WAY).exists()


def test_another_plan_does_not_resume(glove: eh.Vectors, tmp_path: Path) -> None:
    eh.Audit.run(glove, methods=[], measures=["weat"], folder=tmp_path, seed=0)
    journal = store.Journal(tmp_path, "another key")
    assert journal.done == {}


def test_a_half_written_line_is_dropped(glove: eh.Vectors, tmp_path: Path) -> None:
    audit = eh.Audit.run(glove, methods=[], measures=["direct-bias"], folder=tmp_path)
    path = tmp_path / store.UNDER_WAY
    key = json.loads(path.read_text().split("\n")[0])["key"]
    path.write_text(path.read_text() + '{"stage": "orig')
    assert len(store.Journal(tmp_path, key).done) == len(audit.results)


def test_chains_apply_from_left_to_right(glove: eh.Vectors) -> None:
    chained, report = runner.apply("linear.span", glove, "gender")
    first = eh.mitigations.LinearProjection().fit(glove, "gender")(glove)
    second = eh.mitigations.Span().fit(first, "gender")(first)
    assert chained == second
    assert [step["method"] for step in report["chain"]] == ["linear", "span"]


def test_limits(audit: eh.Audit) -> None:
    value = audit.get("weat-6").value
    assert value is not None
    assert check(audit, maximum=[f"weat-6={abs(value) + 0.1}"]) == []
    assert check(audit, maximum=["weat-6=0.1"])[0].value == value
    assert check(audit, minimum=[f"weat-6@original={value + 0.1}"])[0].why == "below its minimum"


@pytest.mark.parametrize("text", ["weat-6", "weat-6=", "=1", "weat-6=x"])
def test_a_bad_limit_is_misuse(audit: eh.Audit, text: str) -> None:
    with pytest.raises(eh.EvenhandError, match="limit"):
        check(audit, maximum=[text])


def test_an_unknown_row_is_named(audit: eh.Audit) -> None:
    with pytest.raises(eh.EvenhandError, match="weat-99"):
        check(audit, maximum=["weat-99=1"])


def test_plans_differ_by_seed() -> None:
    assert Plan.default(only=["weat"], seed=0).digest != Plan.default(only=["weat"], seed=1).digest


def test_warnings_land_in_the_record() -> None:
    words = ["she", "he", "woman", "man"]
    vectors = eh.Vectors(words, [[1.0, 0.2], [-1.0, 0.2], [0.8, 0.1], [-0.7, 0.3]])
    audit = eh.Audit.run(vectors, methods=[], measures=["weat"])
    assert all(result.measurement.status == "undefined" for result in audit.results)
    assert all(result.measurement.reason for result in audit.results)
    assert check(audit, maximum=["weat-6=5"])[0].why.startswith("undefined")
