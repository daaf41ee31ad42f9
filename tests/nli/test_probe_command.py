"""The verb: exported pairs, predictions, model files, JSON on stdout."""

import json

import pytest
import typer
from typer.testing import CliRunner

import evenhand as eh
from evenhand.cli.probe import probe
from evenhand.models.nli import DecomposableAttention
from evenhand.models.nli.weights import Weights

app = typer.Typer()
app.command()(probe)
runner = CliRunner()


def test_export_predict_and_score(tmp_path):
    pairs, predictions = tmp_path / "pairs.jsonl", tmp_path / "out.jsonl"
    options = ["--probe", "mab-explicit", "--sample", "50"]
    assert runner.invoke(app, ["-", *options, "--export", str(pairs)]).exit_code == 0
    rows = [json.loads(line) for line in pairs.read_text(encoding="utf-8").splitlines()]
    answer = {"entailment": 0.2, "neutral": 0.7, "contradiction": 0.1}
    predictions.write_text("\n".join(json.dumps({**row, **answer}) for row in rows), encoding="utf-8")
    found = json.loads(runner.invoke(app, [str(predictions), *options, "--json"]).stdout)
    assert found["n_pairs"] == 48
    assert found["net_neutral"] == pytest.approx(0.7)
    assert found["threshold"]["0.5"] == 1


def test_a_model_file_over_the_embedded_vectors(tmp_path, glove: eh.Vectors):
    path = DecomposableAttention(Weights.random(glove.dim, 8), glove, name="tiny").save(tmp_path / "tiny.safetensors")
    done = runner.invoke(app, [str(path), "--probe", "mab-explicit", "--sample", "40"])
    assert done.exit_code == 0, done.output
    assert "net neutral" in done.stdout
    assert "tiny" in done.stdout


def test_what_is_no_model(tmp_path):
    done = runner.invoke(app, [str(tmp_path / "x.bin")])
    assert "no model file" in str(done.exception)
