"""The run: what it records, that cells are reused only when nothing that decides them differs, that limits hold."""

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

import evenhand as eh
from evenhand.audit import Plan, Question, check, compare, rank, runner
from evenhand.audit.cells import CellStore, cell_key, change_key
from evenhand.audit.significance import distance_from_ideal
from evenhand.errors import EvenhandWarning, OutputError, UnknownNameError
from evenhand.subjects import open_subject
from evenhand.words import Concept

FEW = ["weat", "direct-bias"]


@pytest.fixture(scope="module")
def audit(glove: eh.Vectors) -> eh.Audit:
    return eh.Audit.run(glove, methods=["linear"], measures=FEW, seed=3)


def test_every_question_is_asked_on_every_stage(audit: eh.Audit) -> None:
    assert audit.stage_names == ("original", "linear")
    assert len(audit.results) == 2 * len(audit.labels)


def test_a_value_is_what_the_measure_itself_says(audit: eh.Audit, glove: eh.Vectors) -> None:
    assert audit.get("weat-6").value == eh.measures.weat(glove, "weat-6", seed=3).value
    projected = eh.mitigations.LinearProjection().fit(glove, "gender")(glove)
    assert audit.get("weat-6", "linear").value == eh.measures.weat(projected, "weat-6", seed=3).value


def test_the_manifest_tells_given_from_effective(audit: eh.Audit, glove: eh.Vectors) -> None:
    arguments = audit.manifest["arguments"]
    given = {"methods": ["linear"], "measures": FEW, "queries": [], "concept": "gender", "seed": 3}
    assert arguments["given"] == given
    assert arguments["effective"]["methods"] == ["linear"]
    (subject,) = audit.manifest["subjects"]
    assert subject["words"] == len(glove)
    assert len(subject["sha256"]) == 64
    assert "numpy" in audit.manifest["packages"]


def test_the_record_holds_the_words_of_the_concept(glove: eh.Vectors, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[concept.mine.groups]\na = ["king", "prince"]\nb = ["queen", "princess"]\n')
    audit = eh.Audit.run(glove, methods=[], measures=["weat"], concept=file)
    assert audit.manifest["concept"]["groups"]["a"]["words"] == ["king", "prince"]
    assert audit.manifest["concept"]["digest"] == eh.concept(file).digest


def test_save_and_load_give_the_same_record(audit: eh.Audit, tmp_path: Path) -> None:
    file = audit.save(tmp_path / "run")
    assert eh.Audit.load(tmp_path / "run").to_dict() == audit.to_dict() == eh.Audit.load(file).to_dict()


def test_the_saved_file_is_strict_json(audit: eh.Audit, tmp_path: Path) -> None:
    def refuse(text: str) -> None:
        raise AssertionError(text)

    json.loads(audit.save(tmp_path).read_text(), parse_constant=refuse)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"manifest": {}}', '{"manifest": {"schema": 99}}', '{"schema": 3, "manifest": {}}', "[" * 100_000],
)
def test_a_broken_record_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(text)
    with pytest.raises(eh.EvenhandError, match=r"audit"):
        eh.Audit.load(tmp_path)


def test_no_audit_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no audit"):
        eh.Audit.load(tmp_path)
    (tmp_path / "audit.json").mkdir()
    with pytest.raises(FileNotFoundError, match="no audit"):
        eh.Audit.load(tmp_path)


# Cells -------------------------------------------------------------------------------------------------------------


def keys(subject: object = None, **changes: object) -> tuple[str, str]:
    """The keys of a stage and a cell, of a small set-up with some of it changed."""
    settings = {
        "matrix": [[1.0, 0.2], [-1.0, 0.2]], "chain": "linear", "seed": 0, "measure": "weat", "query": "weat-6",
        "options": {}, "concept": "gender",
    } | changes  # fmt: skip
    vectors = eh.Vectors(["she", "he"], settings["matrix"])
    about = eh.concept(settings["concept"])
    stage = change_key(open_subject(vectors).digest, settings["chain"], about, settings["seed"])
    question = Question(settings["measure"], settings["query"], settings["options"])
    return stage, cell_key(stage, question, about, settings["seed"])


OWN = Concept("gender", groups={"female": ["she", "her"], "male": ["he", "him"]}, pairs=[("she", "he")])


@pytest.mark.parametrize(
    "change",
    [
        {"matrix": [[1.0, 0.2], [-1.0, 0.3]]}, {"chain": "span"}, {"seed": 1}, {"measure": "mac"}, {"query": "weat-7"},
        {"options": {"ddof": 1}}, {"concept": OWN},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_no_cell_is_shared_when_anything_that_decides_it_differs(change: dict[str, object]) -> None:
    assert keys()[1] != keys(**change)[1]
    assert keys() == keys()


def test_the_definition_of_a_measure_or_method_and_the_version_are_part_of_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import dataclasses

    before = keys()
    weat = eh.measures.get("weat")
    monkeypatch.setattr(weat, "info", dataclasses.replace(weat.info, definition=weat.info.definition + 1))
    assert keys()[0] == before[0]
    assert keys()[1] != before[1]
    monkeypatch.undo()
    monkeypatch.setattr(eh.mitigations.LinearProjection, "definition", 2)
    assert keys()[0] != before[0]
    monkeypatch.undo()
    monkeypatch.setattr("evenhand.version.__version__", "99")
    assert keys()[0] != before[0]


def test_the_words_of_a_query_are_part_of_the_key() -> None:
    stage = "s"
    one = eh.Concept("c", {"a": ["x"], "b": ["y"]}, queries=[eh.Query("q", [["x"], ["y"]], [["v"], ["w"]])])
    other = eh.Concept("c", {"a": ["x"], "b": ["y"]}, queries=[eh.Query("q", [["x"], ["y"]], [["v"], ["z"]])])
    question = Question("weat", "q")
    assert cell_key(stage, question, one, 0) != cell_key(stage, question, other, 0)


def test_a_finished_run_is_extended_without_measuring_again(glove: eh.Vectors, tmp_path: Path) -> None:
    first = eh.Audit.run(glove, methods=[], measures=["weat"], folder=tmp_path)
    assert first.manifest["cells_computed"] == len(first.results)
    again = eh.Audit.run(glove, methods=[], measures=["weat"], folder=tmp_path)
    assert again.manifest["cells_computed"] == 0
    assert [r.to_dict() for r in again.results] == [r.to_dict() for r in first.results]
    more = eh.Audit.run(glove, methods=["linear"], measures=FEW, folder=tmp_path)
    assert more.manifest["cells_computed"] == 2 * len(more.labels) - len(first.labels)


def test_a_finished_stage_is_not_fitted_again(
    glove: eh.Vectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = eh.Audit.run(glove, methods=["linear"], measures=["weat"], folder=tmp_path)

    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError("fitted again")

    monkeypatch.setattr(eh.mitigations.LinearProjection, "fit", fail)
    again = eh.Audit.run(glove, methods=["linear"], measures=["weat"], folder=tmp_path)
    assert again.stages[1].report == first.stages[1].report


def test_a_damaged_cell_is_measured_again(glove: eh.Vectors, tmp_path: Path) -> None:
    first = eh.Audit.run(glove, methods=[], measures=["weat"], folder=tmp_path)
    damaged = sorted((tmp_path / "cells").iterdir())
    damaged[0].write_text('{"measurements": [')
    damaged[1].write_text('{"measurements": [{"measure": 3}], "warnings": []}')
    again = eh.Audit.run(glove, methods=[], measures=["weat"], folder=tmp_path)
    assert again.manifest["cells_computed"] == 2
    assert [r.to_dict() for r in again.results] == [r.to_dict() for r in first.results]


def test_warnings_land_in_the_record_and_survive_a_resume(glove: eh.Vectors, tmp_path: Path) -> None:
    from evenhand.measures import get

    weat = get("weat")

    def warning_weat(*args: object, **kwargs: object) -> eh.Measurement:
        warnings.warn("take care", EvenhandWarning, stacklevel=2)
        return weat(*args, **kwargs)

    warning_weat.info = weat.info
    from evenhand.measures.registry import MEASURES

    MEASURES._objects["weat"] = warning_weat
    try:
        first = eh.Audit.run(glove, methods=[], measures=["weat"], folder=tmp_path)
    finally:
        MEASURES._objects["weat"] = weat
    assert first.manifest["warnings"] == ["take care"]
    resumed = eh.Audit.run(glove, methods=[], measures=["weat"], folder=tmp_path)
    assert resumed.manifest["cells_computed"] == 0
    assert resumed.manifest["warnings"] == ["take care"]


def test_an_interrupted_run_says_how_to_continue(
    glove: eh.Vectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_ask, asked = runner.ask, []

    def stopping(*args: object, **kwargs: object) -> object:
        asked.append(args)
        if len(asked) == 4:
            raise KeyboardInterrupt
        return true_ask(*args, **kwargs)

    monkeypatch.setattr(runner, "ask", stopping)
    with pytest.raises(KeyboardInterrupt, match=r"3 finished cells in .*run the same command again"):
        eh.Audit.run(glove, methods=[], measures=["weat"], folder=tmp_path)
    resumed = eh.Audit.run(glove, methods=[], measures=["weat"], folder=tmp_path)
    assert len(asked) == 4 + len(resumed.results) - 3


def test_a_killed_run_resumes(tmp_path: Path) -> None:
    script = textwrap.dedent(f"""
        import time, evenhand as eh
        from evenhand.audit import runner
        ask = runner.ask
        def slow(*args, **kwargs):
            time.sleep(0.4)
            return ask(*args, **kwargs)
        runner.ask = slow
        eh.Audit.run(eh.Vectors.default(), methods=[], measures=["weat"], folder={str(tmp_path)!r})
    """)
    process = subprocess.Popen([sys.executable, "-c", script])
    cells = tmp_path / "cells"
    for _ in range(600):
        if cells.is_dir() and len(list(cells.glob("*.json"))) >= 2:
            break
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    stored = len(list(cells.glob("*.json")))
    assert stored >= 2
    audit = eh.Audit.run(eh.Vectors.default(), methods=[], measures=["weat"], folder=tmp_path)
    assert audit.manifest["cells_computed"] == len(audit.results) - stored


def test_a_folder_that_cannot_be_written_is_our_error(glove: eh.Vectors, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="could not be written"):
        eh.Audit.run(glove, methods=[], measures=["weat"], folder=tmp_path / "file")


def test_memory_only_runs_store_nothing() -> None:
    store = CellStore(None)
    assert store.cell("x") is None
    assert store.finished() == "0 finished cells"


@pytest.mark.parametrize("jobs", [2])
def test_several_jobs_give_the_record_of_one(jobs: int) -> None:
    arguments = {"methods": ["linear"], "measures": FEW, "seed": 5}
    one = eh.Audit.run("glove-embedded", **arguments)
    several = eh.Audit.run("glove-embedded", jobs=jobs, **arguments)
    assert [r.to_dict() for r in several.results] == [r.to_dict() for r in one.results]
    assert several.stages == one.stages


def test_jobs_need_an_address_and_fit_the_memory(glove: eh.Vectors) -> None:
    with pytest.raises(eh.EvenhandError, match="address"):
        eh.Audit.run(glove, methods=[], measures=["weat"], jobs=2)
    with pytest.raises(eh.EvenhandError, match="at least 1"):
        eh.Audit.run("glove-embedded", methods=[], measures=["weat"], jobs=0)
    with pytest.warns(EvenhandWarning, match="running 1 at a time"):
        assert runner._workers(2, [open_subject("glove-embedded")], 0.5) == 1


# Concept and seed --------------------------------------------------------------------------------------------------


def test_the_seed_reaches_measures_and_methods(glove: eh.Vectors) -> None:
    cut = eh.Vectors(glove.words[:6_000], glove.matrix[:6_000])
    runs = [eh.Audit.run(cut, methods=["double-hard"], measures=["clustering", "weat"], seed=seed) for seed in (0, 1)]
    first, second = ({(r.label, r.stage): r.measurement for r in run.results} for run in runs)
    assert first["clustering", "original"].interval != second["clustering", "original"].interval
    assert [stage.report.get("params", {}).get("seed") for stage in runs[1].stages] == [None, 1]


# Limits ------------------------------------------------------------------------------------------------------------


def test_chains_apply_from_left_to_right(glove: eh.Vectors) -> None:
    chained, report = runner.apply_chain("linear.span", open_subject(glove), eh.concept("gender"))
    first = eh.mitigations.LinearProjection().fit(glove, "gender")(glove)
    second = eh.mitigations.Span().fit(first, "gender")(first)
    assert chained.view("vectors") == second
    assert [step["method"] for step in report["chain"]] == ["linear", "span"]


def test_limits_apply_to_every_stage_unless_one_is_named(audit: eh.Audit) -> None:
    """The vectors themselves break the limit of the README; only their mitigated copy keeps it."""
    value = audit.get("weat-6", "linear").value
    assert value is not None
    limits = check(audit, maximum=["weat-6=0"])
    assert [limit.stage for limit in limits] == ["original", "linear"]
    assert {limit.subject for limit in limits} == set(audit.subjects)
    between = (value + audit.get("weat-6").value) / 2
    assert [limit.holds for limit in check(audit, maximum=[f"weat-6={between}"])] == [False, True]
    (limit,) = check(audit, maximum=["weat-6=0"], stages=["linear"])
    assert (limit.stage, limit.value, limit.holds, limit.reason) == ("linear", value, False, "above its maximum")
    with pytest.raises(UnknownNameError, match="there is no stage 'hard'"):
        check(audit, maximum=["weat-6=0"], stages=["hard"])
    (limit,) = check(audit, maximum=[f"weat-6@original={abs(audit.get('weat-6').value) + 0.1}"])
    assert (limit.stage, limit.holds) == ("original", True)
    (limit,) = check(audit, minimum=[f"weat-6@original={audit.get('weat-6').value + 0.1}"])
    assert limit.reason == "below its minimum"


def test_a_limit_on_the_interval_is_stricter_than_one_on_the_value(audit: eh.Audit) -> None:
    m = audit.get("weat-6")
    assert m.value is not None
    assert m.interval is not None
    number = m.value + 1e-6
    assert max(map(abs, m.interval)) > number
    by_value, by_interval = (
        check(audit, maximum=[f"weat-6@original={number}"], by=by)[0] for by in ("value", "interval")
    )
    assert (by_value.holds, by_interval.holds) == (True, False)
    assert by_interval.reason == "its interval is above its maximum"
    low = min(m.interval)
    assert check(audit, minimum=[f"weat-6@original={low - 1e-6}"], by="interval")[0].holds
    assert not check(audit, minimum=[f"weat-6@original={low + 1e-6}"], by="interval")[0].holds


def test_a_limit_on_the_interval_of_a_value_without_one_does_not_hold() -> None:
    record = made({"original": 1.0})
    bare = replace(
        record, results=tuple(replace(r, measurement=replace(r.measurement, interval=None)) for r in record.results)
    )
    (limit,) = check(bare, maximum=["weat-6=2"], by="interval")
    assert (limit.holds, limit.reason) == (False, "it has no interval")


def test_limits_on_an_audit_without_methods_read_the_original(glove: eh.Vectors) -> None:
    audit = eh.Audit.run(glove, methods=[], measures=["weat"])
    assert [limit.stage for limit in check(audit, maximum=["weat-6=5"])] == ["original"]


@pytest.mark.parametrize("old", ["direct-bias, old direction", "direct-bias:old-direction"])
def test_labels_of_version_one_still_work(audit: eh.Audit, old: str) -> None:
    assert audit.find_label(old) == "direct-bias:old-direction"
    assert not any("," in label for label in audit.labels)


@pytest.mark.parametrize("text", ["weat-6", "weat-6=", "=1", "weat-6=x"])
def test_a_bad_limit_is_misuse(audit: eh.Audit, text: str) -> None:
    with pytest.raises(eh.EvenhandError, match="limit"):
        check(audit, maximum=[text])


def test_an_unknown_row_is_named(audit: eh.Audit) -> None:
    with pytest.raises(eh.EvenhandError, match="weat-99"):
        check(audit, maximum=["weat-99=1"])
    with pytest.raises(eh.EvenhandError, match="direct-bias:new-direction"):
        audit.find_label("direct-bias")


def test_an_undefined_measurement_does_not_pass(glove: eh.Vectors) -> None:
    vectors = eh.Vectors(["she", "he", "woman", "man"], [[1.0, 0.2], [-1.0, 0.2], [0.8, 0.1], [-0.7, 0.3]])
    audit = eh.Audit.run(vectors, methods=[], measures=["weat"])
    assert all(result.measurement.status == "undefined" and result.measurement.reason for result in audit.results)
    (limit,) = check(audit, maximum=["weat-6=5"])
    assert not limit.holds
    assert limit.reason.startswith("undefined")


def made(values: dict[str, float | None], half: float = 0.1) -> eh.Audit:
    """An audit with given WEAT-6 values by stage."""
    from evenhand.audit import Result, Stage

    results = []
    for stage, value in values.items():
        interval = None if value is None else (value - half, value + half)
        status = "ok" if value is not None else "undefined"
        m = eh.Measurement("weat", value, 8, eh.Coverage(()), query="weat-6", interval=interval, status=status)
        results.append(Result("v", stage, Question("weat", "weat-6"), m))
    manifest = {"concept": {"name": "gender"}, "arguments": {"effective": {"seed": 0}}, "subjects": []}
    return eh.Audit(manifest, tuple(Stage(name, "v") for name in values), tuple(results))


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (1.0, 0.5, "better"), (1.0, 1.5, "worse"), (1.0, 1.05, "unclear"), (1.0, 1.0, "same"), (1.0, None, "undefined"),
        (0.05, -0.05, "unclear"), (0.5, -0.9, "worse"), (0.9, -0.5, "other sign"), (0.9, -0.85, "other sign"),
        (0.9, -0.1, "better"), (-0.9, 0.1, "better"),  # intervals that end at 0 are on no side of it
    ],
)  # fmt: skip
def test_verdicts_need_a_change_beyond_the_intervals(before: float, after: float | None, verdict: str) -> None:
    (change,) = compare(made({"original": before}), made({"original": after}))
    assert change.verdict == verdict


@pytest.mark.parametrize(
    ("measure", "score", "distances"),
    [
        ("crows-pairs", "", (10.0, 5.0)),
        ("stereoset", "intra-ss", (10.0, 5.0)),
        ("stereoset", "intra-lms", (-60, -45)),
        ("ect", "", (59.0, 44.0)),
        ("direct-bias", "", (60.0, 45.0)),
    ],
)
def test_each_score_has_its_own_ideal(measure: str, score: str, distances: tuple[float, float]) -> None:
    values = [eh.Measurement(measure, value, 8, eh.Coverage(()), score=score) for value in (60.0, 45.0)]
    assert tuple(distance_from_ideal(value) for value in values) == distances


def test_a_comparison_of_different_concepts_warns() -> None:
    other = made({"original": 1.0})
    other.manifest["concept"].update(name="religion", digest="x")
    with pytest.warns(EvenhandWarning, match="different concepts: gender and religion"):
        compare(made({"original": 1.0}), other)


def test_a_baseline_fails_only_what_is_worse_beyond_the_intervals() -> None:
    base = made({"original": 1.0})
    assert [limit.holds for limit in check(made({"original": 1.05}), baseline=base)] == [True]
    assert [limit.holds for limit in check(made({"original": 1.5}), baseline=base)] == [False]
    assert [limit.holds for limit in check(made({"original": None}), baseline=base)] == [False]
    other = made({"other": 1.0})
    with pytest.raises(eh.EvenhandError, match="no row in common"):
        check(other, baseline=base)


def test_a_change_that_has_no_test_passes_and_says_so() -> None:
    pair = []
    for audit in (made({"original": 0.0}), made({"original": 1.0})):
        (result,) = audit.results
        bare = replace(result, measurement=replace(result.measurement, interval=None))
        pair.append(replace(audit, results=(bare,)))
    (limit,) = check(pair[1], baseline=pair[0])
    assert (limit.holds, limit.reason) == (True, "the change was not tested")
    (same,) = check(pair[0], baseline=pair[0])
    assert (same.holds, same.reason) == (True, "")


# Plans -------------------------------------------------------------------------------------------------------------


def test_a_plan_comes_back_from_its_file(glove: eh.Vectors, tmp_path: Path) -> None:
    plan = Plan.default([open_subject("glove-embedded")], methods=["hard.misp"], full_probes=True, seed=4)
    (tmp_path / "plan.toml").write_text(plan.to_toml())
    assert Plan.read(tmp_path / "plan.toml") == plan


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('methds = ["linear"]\n[[question]]\nmeasure = "weat"', "methods"),
        ('[[question]]\nmeasure = "waet"', "weat"),
        ('methods = ["liner"]\n[[question]]\nmeasure = "weat"', "linear"),
        ('concept = "gendre"\n[[question]]\nmeasure = "weat"', "gender"),
        ('[[question]]\nmeasure = "direct-bias"\nvariant = "odd"', "variant"),
        ("seed = 0", "question"),
        ("[[question]", "TOML"),
    ],
)
def test_a_plan_with_a_typo_says_where(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(text + "\n")
    with pytest.raises(eh.EvenhandError, match=message) as raised:
        Plan.read(tmp_path / "plan.toml")
    assert "plan.toml" in str(raised.value)


# Several subjects --------------------------------------------------------------------------------------------------


def test_several_subjects_are_ranked(glove: eh.Vectors, tmp_path: Path) -> None:
    hard = eh.mitigations.get("hard")().fit(glove, "gender")(glove)
    linear = eh.mitigations.get("linear")().fit(glove, "gender")(glove)
    for name, vectors in (("hard", hard), ("linear", linear)):
        vectors.save(tmp_path / f"{name}.vec")
    addresses = ["glove-embedded", str(tmp_path / "hard.vec"), str(tmp_path / "linear.vec")]
    audit = eh.Audit.run(addresses, methods=[], measures=["weat", "direct-bias"])
    assert len(audit.subjects) == 3
    ranking = rank(audit)
    for label, ranks in ranking.ranks.items():
        sizes = [abs(audit.get(label, subject=subject).value) for subject in audit.subjects]
        assert sum(ranks) == pytest.approx(6.0)
        assert sizes[ranks.index(min(ranks))] == min(sizes)
    assert all(-1 - 1e-9 <= rho <= 1 + 1e-9 for rho in ranking.agreement.values())
    with pytest.raises(eh.EvenhandError, match="several subjects"):
        audit.get("weat-6")
    assert audit.get("weat-6", subject=audit.subjects[1]).value is not None


def test_ranks_by_hand() -> None:
    from evenhand.audit.tradeoff import mean_ranks

    assert mean_ranks(pytest.importorskip("numpy").array([0.5, 0.1, 0.5, 2.0])).tolist() == [2.5, 1.0, 2.5, 4.0]


# Records to hold ---------------------------------------------------------------------------------------------------


def test_records_are_pleasant_to_hold(audit: eh.Audit) -> None:
    assert repr(audit).startswith("Audit(glove-embedded: ")
    assert "\n" not in repr(audit)
    measurement = audit.get("weat-6")
    assert len(repr(measurement)) < 200
    assert "<b>weat-6</b>" in measurement._repr_html_()
    assert "<table>" in audit._repr_html_()
    frame = audit.to_frame()
    assert frame.height == len(audit.results)
    assert set(frame.columns) >= {"subject", "stage", "label", "value", "low", "high", "p_value"}
    assert measurement.to_frame().height == len(measurement.items)
    from rich.console import Console

    console = Console(width=80, record=True, file=io.StringIO())
    console.print(audit)
    console.print(measurement)
    assert "weat-6" in console.export_text()


def test_the_record_follows_the_published_schema(audit: eh.Audit) -> None:
    from evenhand.audit.schema import record_schema

    jsonschema = pytest.importorskip("jsonschema")
    schema = record_schema()
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    record = json.loads(json.dumps(audit.to_dict()))
    assert list(validator.iter_errors(record)) == []
    record["results"][0]["label"] = "weat, six"
    assert len(list(validator.iter_errors(record))) == 1


def test_workers_are_as_many_as_fit_into_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = open_subject("glove-embedded")
    assert (runner.WORKER_OVERHEAD, runner.COPIES) == (400 * 1024**2, 3)
    each = runner.WORKER_OVERHEAD + runner.COPIES * subject.view("vectors").matrix.nbytes
    gigabytes = each / (1 << 30)
    assert runner._workers(3, [subject], 3.01 * gigabytes) == 3
    with pytest.warns(EvenhandWarning, match=f"3 jobs need about {3 * gigabytes:.1f} GB; running 2 at a time"):
        assert runner._workers(3, [subject], 2.99 * gigabytes) == 2
    monkeypatch.setattr(
        runner, "_free_memory", lambda: 2.01 * each / 0.8
    )  # without a limit, four fifths of what is free
    with pytest.warns(EvenhandWarning, match="running 2 at a time"):
        assert runner._workers(3, [subject], None) == 2
    monkeypatch.setattr(runner, "_free_memory", lambda: 1.99 * each / 0.8)
    with pytest.warns(EvenhandWarning, match="running 1 at a time"):
        assert runner._workers(3, [subject], None) == 1
    monkeypatch.setattr(runner, "_free_memory", lambda: 0.5 * each)
    with pytest.warns(EvenhandWarning, match="running 1 at a time"):
        assert runner._workers(3, [subject], None) == 1  # one always runs
