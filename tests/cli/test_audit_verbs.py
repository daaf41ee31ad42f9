"""The verbs on runs: plans, several subjects, comparisons of runs, baselines, and options that do not apply."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

import evenhand as eh
from evenhand.cli import app

FAST = ("--measure", "weat", "--no-methods")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, glove: eh.Vectors) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("vectors")
    small = glove.head(12_000)
    before = small.save(folder / "before.safetensors")
    after = eh.mitigations.get("linear")().fit(small, "gender")(small).save(folder / "after.safetensors")
    return before, after


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, files: tuple[Path, Path]) -> tuple[Path, Path]:
    folders = tuple(tmp_path_factory.mktemp(name) for name in ("run-a", "run-b"))
    for file, folder in zip(files, folders, strict=True):
        assert run("audit", file, *FAST, "-o", folder).exit_code == 0
    return folders


def test_the_terminal_shows_findings_and_ends_with_the_report(files, tmp_path) -> None:
    done = run("audit", files[0], *FAST, "-o", tmp_path / "run")
    assert "What was found" in done.stdout
    assert "Score card" in done.stdout
    assert done.stderr.splitlines()[-1] == f"report {tmp_path / 'run' / 'report.html'}"
    every = run("audit", files[0], *FAST, "-o", tmp_path / "run", "--tables")
    assert "Under each value its 95 % interval" in " ".join(every.stdout.split())


def test_a_plan_is_written_and_run(files: tuple[Path, Path], tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    done = run("audit", files[0], *FAST, "--write-plan", plan, "-o", tmp_path / "run")
    assert done.exit_code == 0
    assert not (tmp_path / "run").exists()
    assert run("audit", "--plan", plan, "-o", tmp_path / "run").exit_code == 0
    refused = run("audit", "--plan", plan, "--measure", "weat", "-o", tmp_path / "other")
    assert refused.exit_code == 2
    assert not (tmp_path / "other").exists()


def test_a_plan_with_a_typo_is_misuse_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text('[[question]]\nmeasur = "weat"\n')
    done = run("audit", "--plan", tmp_path / "plan.toml", "-o", tmp_path / "run")
    assert done.exit_code != 0
    assert "measure" in str(done.exception) + done.stderr
    assert not (tmp_path / "run").exists()


def test_a_sweep_ranks_the_methods_by_measures_of_vectors(
    glove: eh.Vectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out = [id for id in eh.mitigations.ids("vectors") if id not in ("linear", "random")]  # to be quick
    monkeypatch.setattr("evenhand.cli.verbs.debias.slow_methods", lambda: left_out)
    few = glove.head(400)
    eh.Vectors(few.words, few.matrix[:, :10]).save(tmp_path / "few.safetensors")
    done = run("debias", tmp_path / "few.safetensors", "--sweep", "-o", tmp_path / "run", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert {place["method"] for place in found["ranking"]} == {"original", "linear", "random"}
    assert set(left_out) <= found["skipped"].keys()
    asked = {row["measure"] for row in json.loads((tmp_path / "run" / "audit.json").read_text())["results"]}
    assert "direct-bias" in asked
    assert {eh.measures.info(name).view for name in asked} == {"vectors"}


def test_two_runs_are_compared(runs: tuple[Path, Path]) -> None:
    done = run("compare", *runs, "--json")
    assert done.exit_code == 0
    rows = {row["label"]: row for row in json.loads(done.stdout)["rows"]}
    weat = rows["weat-6"]
    assert weat["change"] == pytest.approx(weat["after"]["value"] - weat["before"]["value"])
    assert weat["verdict"] in ("better", "worse", "other sign", "unclear", "same")
    assert max(map(len, run("compare", *runs).stdout.splitlines())) <= 80


def test_a_run_and_a_file_are_not_compared(runs: tuple[Path, Path], files: tuple[Path, Path]) -> None:
    assert run("compare", runs[0], files[0]).exit_code == 2


def test_a_baseline_decides_the_exit_code(runs: tuple[Path, Path]) -> None:
    assert run("check", runs[0], "--baseline", runs[0]).exit_code == 0
    done = run("check", runs[1], "--baseline", runs[0], "--json")
    limits = json.loads(done.stdout)["limits"]
    assert done.exit_code == (0 if all(limit["holds"] for limit in limits) else 3)


def test_check_writes_junit(runs: tuple[Path, Path]) -> None:
    done = run("check", runs[0], "--max", "weat-6=0.001", "--max", "weat-6=5", "--format", "junit")
    assert done.exit_code == 3
    suites = ElementTree.fromstring(done.stdout)
    assert (suites.get("tests"), suites.get("failures")) == ("2", "1")
    first, second = suites.iter("testcase")
    assert first.get("classname") == eh.Audit.load(runs[0]).subjects[0]
    assert first.get("name") == "weat-6 (original) <= 0.001"
    assert "above its maximum" in first.find("failure").get("message")
    assert second.find("failure") is None


def test_check_writes_markdown(runs: tuple[Path, Path]) -> None:
    done = run("check", runs[1], "--baseline", runs[0], "--format", "markdown")
    assert done.exit_code in (0, 3)
    assert done.stdout.startswith("## Bias limits: ")
    assert "| weat-6 | original |" in done.stdout


def test_check_narrows_to_a_stage_and_to_the_interval(runs: tuple[Path, Path]) -> None:
    m = eh.Audit.load(runs[0]).get("weat-6")
    limit = f"weat-6={abs(m.value) + 1e-4}"
    assert run("check", runs[0], "--max", limit, "--stage", "original").exit_code == 0
    assert run("check", runs[0], "--max", limit, "--by", "interval").exit_code == 3
    assert run("check", runs[0], "--max", limit, "--stage", "linear").exit_code == 2
    assert run("check", runs[0], "--max", limit, "--by", "luck").exit_code == 2
    assert run("check", runs[0], "--max", limit, "--format", "pdf").exit_code == 2
    assert run("check", runs[0], "--max", limit, "--format", "junit", "--json").exit_code == 2


def test_a_comparison_of_runs_is_paired(runs: tuple[Path, Path]) -> None:
    """The vectors after `linear` have the same words, and weat-6 is clearly lower on them."""
    rows = {row["label"]: row for row in json.loads(run("compare", *runs, "--json").stdout)["rows"]}
    assert rows["weat-6"]["paired"]
    assert rows["weat-6"]["verdict"] == "better"
    assert rows["weat-6"]["p_value"] < 0.01


def test_check_prints_what_it_compared(runs: tuple[Path, Path]) -> None:
    done = run("check", runs[0], "--max", "weat-6=0.001")
    assert done.exit_code == 3
    value = eh.Audit.load(runs[0]).get("weat-6").value
    assert f"{value:.2f}" in done.stdout
    assert "0.001" in done.stdout


def test_several_subjects_show_ranks(files: tuple[Path, Path], tmp_path: Path) -> None:
    assert "Side by side" in run("audit", *files, *FAST, "-o", tmp_path).stdout
    done = run("audit", *files, *FAST, "-o", tmp_path, "--tables")
    assert done.exit_code == 0
    assert "Ranks" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("measure", "corpus-bias", "{vectors}"), "needs the view 'text'"),
        (("measure", "weat", "{vectors}", "--concept", "gendre"), "gender"),
        (("measure", "weat", "{vectors}", "--device", "cpu"), "--device does not apply"),
        (("audit", "{vectors}", "--labels", "e,n,c"), "--labels does not apply"),
        (("debias", "{vectors}", "--method", "linear", "--set", "kk=2", "-o", "{out}"), "k"),
        (("audit", "{vectors}", "--memory", "4"), "--memory limits the processes of --jobs"),
        (("audit", "{vectors}", "--method", "linear", "--no-methods"), "--method and --no-methods"),
        (("audit", "{vectors}", "--measure", "weat", "--full-probes"), "--full-probes is for inference models"),
        (("audit", "{vectors}", "--write-plan", "{out}", "--jobs", "2"), "--write-plan runs nothing"),
        (("audit", "{vectors}", "--write-plan", "{out}", "--tables"), "--tables has no effect"),
        (("audit", "--plan", "p.toml", "--concept", "religion", "--seed", "1"), "--plan replaces --concept, --seed"),
        (("measure", "mab", "{vectors}", "--reference", "{vectors}"), "mab takes no --reference"),
        (("debias", "{vectors}", "--sweep", "--save-map", "m.safetensors", "-o", "{out}"), "--save-map needs --method"),
        (("debias", "{vectors}", "--method", "hard.misp", "--set", "k=2", "-o", "{out}"), "which method"),
    ],
)
def test_what_does_not_apply_is_refused(
    arguments: tuple[str, ...], says: str, files: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out.vec"
    done = run(*(text.format(vectors=files[0], out=out) for text in arguments))
    assert done.exit_code == 2
    assert says in str(done.exception) + done.stderr
    assert not out.exists()


def test_method_parameters_reach_the_method(files: tuple[Path, Path], tmp_path: Path) -> None:
    done = run("debias", files[0], "-m", "linear", "--set", "k=2", "--set", "subspace=pairs", "-o", tmp_path / "o.vec",
               "--json")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["report"]["rank_removed"] == 2


def test_one_query_or_several_give_the_same_kind_of_document(files: tuple[Path, Path]) -> None:
    one = json.loads(run("measure", "weat", files[0], "-q", "weat-6", "--json").stdout)
    two = json.loads(run("measure", "weat", files[0], "-q", "weat-6", "-q", "weat-7", "--json").stdout)
    assert one["measurements"][0] == two["measurements"][0]
    assert one["value"] == one["measurements"][0]["value"]


def test_replacing_another_record_is_said(files: tuple[Path, Path], tmp_path: Path) -> None:
    run("audit", files[0], *FAST, "-o", tmp_path)
    assert "note: replacing" not in run("audit", files[0], *FAST, "-o", tmp_path).stderr
    assert "replacing the record of" in run("audit", files[1], *FAST, "-o", tmp_path).stderr


def test_an_audit_is_made_small_and_says_so(tmp_path: Path) -> None:
    small = ["audit", "--no-methods", "--measure", "retention", "--limit", "50", "-o", str(tmp_path / "run")]
    result = CliRunner().invoke(app, [*small, "--budget", "10min"])
    assert result.exit_code == 0, result.output
    assert "1 cell to measure: 1 of vectors" in result.output
    assert "a sample of at most 50 items, drawn with seed 0, was asked by retention" in result.output
    plan = tmp_path / "plan.toml"
    assert CliRunner().invoke(app, [*small, "--budget", "10min", "--write-plan", str(plan)]).exit_code == 0
    assert "budget = 600.0" in plan.read_text()
    assert "options = { sample = 50 }" in plan.read_text()
    for wrong in (["--budget", "soon"], ["--full-probes"], ["--samples", "5"], ["--plan", str(plan)]):
        assert CliRunner().invoke(app, [*small, *wrong]).exit_code == 2
