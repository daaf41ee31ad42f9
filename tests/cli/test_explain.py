"""`evenhand explain`: the screen, JSON and the page; every kind of model; what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("torch")
pytest.importorskip("transformers")

from evenhand.cli import app

Folder = Callable[..., Path]
PAIR = ("--pair", "the man is a nurse and he likes art.", "the woman is a nurse and she likes art.")
NLI = {"num_labels": 3, "id2label": {0: "contradiction", 1: "neutral", 2: "entailment"}}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


def test_the_screen_has_80_columns_and_the_page_both_charts(tiny_folder: Folder, tmp_path: Path) -> None:
    model, page = f"hf:{tiny_folder('GPT2LMHeadModel')}", tmp_path / "pair.html"
    done = run("explain", model, *PAIR, "-o", page, "--device", "cpu", "--precision", "float32")
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "*man | woman" in done.stdout
    assert "% of the difference" in done.stdout
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 2
    assert text.count("The same as a table") == 2
    page.write_text("mine", encoding="utf-8")
    assert run("explain", model, *PAIR, "--out", page).exit_code == 1
    assert page.read_text(encoding="utf-8") == "mine"
    assert run("explain", model, *PAIR, "--out", page, "--overwrite").exit_code == 0


def test_json_has_every_layer_and_the_checks(tiny_folder: Folder) -> None:
    done = run("explain", f"hf:{tiny_folder('BertForMaskedLM')}", *PAIR, "--json")
    record = json.loads(done.stdout)
    assert record["sites"] == ["embeddings", "layer:1", "layer:2", "layer:3"]
    assert len(record["effects"]) == 4
    assert {len(row) for row in record["effects"]} == {len(record["tokens"])}
    assert record["checks"]["nothing"] == pytest.approx(0, abs=1e-5)
    assert record["checks"]["everything"] == pytest.approx([record["difference"]] * 4, abs=1e-5)


def test_answers_labels_and_inference(tiny_folder: Folder) -> None:
    asked = ("--pair", "the man said that", "the woman said that", "--answers", "he", "she", "--json")
    record = json.loads(run("explain", f"hf:{tiny_folder('GPT2LMHeadModel')}", *asked).stdout)
    assert (record["score"], record["label"]) == ("log-odds", "he / she")
    classifier = f"hf:{tiny_folder('BertForSequenceClassification')}"
    record = json.loads(run("explain", classifier, *PAIR, "--label", "LABEL_0", "--json", "--allow-pickle").stdout)
    assert (record["score"], record["label"]) == ("log-odds", "LABEL_0")
    nli = f"hf:{tiny_folder('BertForSequenceClassification', **NLI)}"
    for more in (("--premise", "the nurse is here"), ("--hypothesis", "a man is here", "--labels", "c,n,e")):
        record = json.loads(run("explain", nli, *PAIR, *more, "--json").stdout)
        assert record["label"] == "entailment"
    refused = run("explain", nli, *PAIR)
    assert refused.exit_code == 2
    assert "name one of them" in refused.stderr


@pytest.mark.parametrize(
    ("model", "more", "message"),
    [
        ("GPT2LMHeadModel", ("--pair", "the man", "the man"), "no token"),
        ("GPT2LMHeadModel", (*PAIR, "--premise", "x"), "for inference models"),
        ("GPT2LMHeadModel", (*PAIR, "--label", "x"), "no labels"),
        ("BertModel", PAIR, "needs likelihood, labels or inference"),
    ],
)
def test_misuse_is_refused_in_a_sentence(model: str, more: tuple[str, ...], message: str, tiny_folder: Folder) -> None:
    done = run("explain", f"hf:{tiny_folder(model)}", *more)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


def test_vectors_are_not_explained() -> None:
    done = run("explain", "glove-embedded", *PAIR)
    assert done.exit_code == 2
    assert "needs likelihood, labels or inference" in " ".join(done.stderr.split()) or "transformer" in done.stderr
