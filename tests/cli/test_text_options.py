"""Labelled texts on the command line: audit, measure, debias, serve, and what is refused."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenhand.cli import app

pytest.importorskip("torch")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "100", "NO_COLOR": "1"})


@pytest.fixture
def model(tiny_folder: Callable[..., Path]) -> str:
    names: dict[str, Any] = {"id2label": {0: "fine", 1: "bad"}, "label2id": {"fine": 0, "bad": 1}}
    return f"hf:{tiny_folder('BertForSequenceClassification', **names)}"


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    people, doing = ["the woman", "the man", "she", "he", "mary", "john"], ["is here", "saw the door", "likes math"]
    rows = [
        {"said": f"{who} {what}", "sex": "fm"[n % 2], "age": "ab"[m % 2], "truth": ["ok", "rude"][(n + m) % 2]}
        for n, who in enumerate(people)
        for m, what in enumerate([*doing, "is nice", "met the nurse"])
    ]
    file = tmp_path / "texts.csv"
    pl.DataFrame(rows).write_csv(file)
    return file


def test_an_audit_leads_with_decisions_and_can_be_repeated(model: str, texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = (
        "audit", model, "--texts", texts, "--text-column", "said", "--group", "sex", "--group", "sex,age", "--label", "truth",
        "--positive", "rude", "--positive-label", "bad", "--threshold", "0.4", "--measure", "group-metrics",
        "--measure", "decision-accuracy", "--measure", "counterfactual", "-m", "equalised-odds", "-o", out,
    )  # fmt: skip
    result = run(*command)
    assert result.exit_code == 0, result.output
    record = json.loads((out / "audit.json").read_text())
    (subject,) = record["manifest"]["subjects"]
    assert subject["groups"]["sex"] == ["f", "m"]
    assert subject["opening"] | {"device": "", "precision": "", "texts_sha256": ""} == {
        "texts": str(texts), "text_column": "said", "group": "sex; sex x age", "label": "truth", "positive": "rude",
        "positive_label": "bad", "threshold": "0.4", "texts_sha256": "", "device": "", "precision": "",
    }  # fmt: skip
    assert record["manifest"]["concept"]["name"] == "gender"  # the other measures ask about a concept
    assert "Rates by sex" in (out / "report.html").read_text()
    again = run(*shlex.split(record["manifest"]["arguments"]["command"])[1:], "-o", out)
    assert again.exit_code == 0, again.output
    assert "0 cells to measure" in again.stderr
    assert run("check", out, "--max", "group-metrics:sex:demographic-parity-difference=1").exit_code == 0


def test_debias_writes_decisions_and_thresholds(model: str, texts: Path, tmp_path: Path) -> None:
    line = (
        "debias", model, "--texts", texts, "--text-column", "said", "--label", "truth", "--positive", "rude", "--group", "sex",
        "--positive-label", "bad", "-m", "equalised-odds",
    )  # fmt: skip
    result = run(*line, "-o", tmp_path / "out.csv", "--save-map", tmp_path / "rules.json", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 30
    assert pl.read_csv(tmp_path / "out.csv").columns == ["said", "sex", "age", "truth", "score", "prediction"]
    assert json.loads((tmp_path / "rules.json").read_text())["state"]["grouping"] == "sex"
    refused = run(*line, "-o", tmp_path / "folder")
    assert refused.exit_code == 2
    assert "name a table for the decisions" in " ".join(refused.stderr.split())


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--texts", "none.csv"), 4, "does not exist"),
        (("--texts", "{texts}", "--group", "sex", "--text-column", "words"), 4, "there is no column of texts.csv 'words'"),
        (("--texts", "{texts}", "--group", "sex", "--text-column", "said", "--label", "truth"), 4, "the classifier has the labels fine, bad"),
        (("--texts", "{texts}", "--group", "sex", "--text-column", "said", "--positive-label", "awful"), 4, "has no label 'awful'"),
        (("--group", "sex"), 2, "no file of them is named"),
        ((), 2, "name labelled texts: --texts"),
    ],
)  # fmt: skip
def test_bad_input_is_a_sentence(model: str, texts: Path, options: tuple[str, ...], code: int, message: str) -> None:
    result = run("measure", "group-metrics", model, *(part.replace("{texts}", str(texts)) for part in options))
    assert result.exit_code == code, result.output
    assert message in " ".join(result.stderr.split())


def test_one_measure_alone(model: str, texts: Path) -> None:
    options = (
        "--text-column",
        "said",
        "--group",
        "sex",
        "--label",
        "truth",
        "--positive",
        "rude",
        "--positive-label",
        "bad",
    )
    result = run("measure", "decision-accuracy", model, "--texts", texts, *options, "--json")
    assert result.exit_code == 0, result.output
    assert [m["score"] for m in json.loads(result.stdout)["measurements"]] == ["accuracy", "balanced-accuracy"]
