"""Tables of predictions on the command line: audit, measure, check, and every option."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from evenhand.cli import app

ROWS = 200


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "100", "NO_COLOR": "1"})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    lines = ["sex,race,income,score,hired"]
    for number in range(ROWS):
        sex, race = "fm"[number % 2], "ab"[number // 2 % 2]
        income, score = (">50K", "<=50K")[number // 4 % 2], (number * 7 % 20) / 20
        lines.append(f"{sex},{race},{income},{score},{'<=50K' if sex == 'f' and number % 5 else '>50K'}")
    file = tmp_path / "people.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def measured(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return {m["score"]: m for m in json.loads(result.stdout)["measurements"]}


def test_an_audit_is_written_checked_and_repeated(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = (
        "audit", f"table:{table}", "--group", "sex", "--group", "sex,race", "--label", "income", "--prediction", "hired",
        "--positive", ">50K", "-o", out,
    )  # fmt: skip
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert "shows sex, sex x race bias" in " ".join(result.stdout.split())
    assert "Rates by sex" in (out / "report.html").read_text()
    record = json.loads((out / "audit.json").read_text())
    assert record["manifest"]["subjects"][0]["opening"]["group"] == "sex; sex x race"
    assert "0 cells to measure; 3 cells of an earlier run will be reused" in run(*command).stderr
    row = "group-metrics:sex:demographic-parity-difference"
    assert run("check", out, "--max", f"{row}=0.9").exit_code == 0
    assert run("check", out, "--max", f"{row}=0.1").exit_code == 3


def test_a_table_of_scores(table: Path, tmp_path: Path) -> None:
    address = f"table:{table}"
    chosen = ("--group", "sex", "--label", "income", "--positive", ">50K", "--score", "score")
    low = measured("measure", "group-metrics", address, *chosen, "--threshold", "0.2")
    high = measured("measure", "group-metrics", address, *chosen, "--threshold", "0.9")
    assert (
        low["demographic-parity-difference"]["items"][0]["value"]
        > high["demographic-parity-difference"]["items"][0]["value"]
    )
    assert low["calibration-error-difference"]["value"] == high["calibration-error-difference"]["value"]
    given = measured("measure", "group-metrics", address, *chosen, "--prediction", "hired")
    assert given["demographic-parity-difference"]["value"] == pytest.approx(0.8)
    out = tmp_path / "run"
    result = run("audit", address, *chosen, "--threshold", "0.3", "-o", out)
    assert result.exit_code == 0, result.output


def test_the_command_of_the_record_repeats_the_audit(table: Path, tmp_path: Path) -> None:
    import shlex

    import evenhand as eh

    audit = eh.Audit.run(eh.open(f"table:{table}", group="sex;race", label="income", positive=">50K", score="score"))
    command = shlex.split(audit.manifest["arguments"]["command"])
    assert command[:2] == ["evenhand", "audit"]
    result = run(*command[1:], "-o", tmp_path / "again", "--json")
    assert result.exit_code == 0, result.output
    again = [r["value"] for r in json.loads(result.stdout)["results"]]
    assert again == [r["value"] for r in audit.to_dict()["results"]]


def test_what_is_refused_has_the_code_of_misuse(table: Path) -> None:
    address = f"table:{table}"
    for arguments, message in (
        (("audit", address, "--concept", "religion", "--group", "sex", "--prediction", "hired", "--positive", ">50K"), "--concept does not apply"),
        (("audit", address, "--prediction", "hired"), "could have its group in sex or race"),
        (("audit", address, "--group", "sex", "--prediction", "hired"), "--positive"),
        (("audit", address, "--group", "sex", "--method", "linear", "--score", "score"), "linear works on"),
        (("audit", "glove-embedded", "--group", "sex"), "does not apply to word vectors"),
    ):  # fmt: skip
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        assert message in " ".join(result.stderr.split())
    assert run("audit", "table:none.csv").exit_code == 4
