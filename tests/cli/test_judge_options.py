"""A judge on the command line: an audit that writes, rates and keeps texts, and judges that are refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evenhand.cli import app
from scripted_server import Asked, Reply, chat_reply, models, serving

pytest.importorskip("torch")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "100", "NO_COLOR": "1"})


@pytest.fixture
def words(tmp_path: Path) -> Path:
    file = tmp_path / "judge.tsv"
    file.write_text("she\t0.6\nhe\t-0.6\nnurse\t1\n")
    return file


def test_an_audit_with_two_judges(tiny_folder: Callable[..., Path], words: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("the man met the nurse\nshe met the doctor\nthe boy saw the nurse\n")
    classifier = tiny_folder("BertForSequenceClassification", id2label={0: "fine", 1: "toxic"})
    out = tmp_path / "run"
    command = (
        "audit", f"hf:{tiny_folder('GPT2LMHeadModel')}", "--measure", "judged-generations", "--query", prompts,
        "--judge", f"hf:{classifier}", "--judge", f"lexicon:{words}", "--judge-label", "toxic", "--judge-label", "negative",
        "-o", out,
    )  # fmt: skip
    result = run(*command)
    assert result.exit_code == 0, result.output
    record = json.loads((out / "audit.json").read_text())
    found = {entry["score"]: entry for entry in record["results"]}
    assert set(found) == {"expected-maximum", "share-above", "gap", "judge-gap", "judge-correlation", "judge-kappa"}
    assert found["gap"]["params"]["judge_label"] == ["toxic", "negative"]
    assert "the judge alone gives the same sentences" in found["gap"]["reading"]
    assert "What judges say of the texts" in (out / "report.html").read_text()
    assert list((out / "texts").rglob("*.json"))
    assert "1 cell of an earlier run will be reused" in run(*command).stderr


def test_judges_that_cannot_judge_are_refused(tiny_folder: Callable[..., Path], words: Path, tmp_path: Path) -> None:
    model = f"hf:{tiny_folder('GPT2LMHeadModel')}"
    asked = ("audit", model, "--measure", "judged-generations", "-o", tmp_path / "run")
    for options, message in (
        (("--judge", f"lexicon:{words}", "--judge-label", "toxic"), "there is no label of judge.tsv (positive, negative) 'toxic'"),
        (("--judge", model), "cannot be a judge"),
    ):  # fmt: skip
        result = run(*asked, *options)
        assert result.exit_code == 2, result.output
        assert message in " ".join(result.stderr.split())
    refused = run("audit", "glove-embedded", "--judge", "unpleasant-words", "-o", tmp_path / "run")
    assert refused.exit_code == 2
    assert "nothing is written in this audit" in " ".join(refused.stderr.split())


def test_answers_to_messages_are_judged(words: Path, tmp_path: Path) -> None:
    pytest.importorskip("httpx")
    prompts = tmp_path / "questions.txt"
    prompts.write_text("Write about a woman.\nWhat did he do?\n")

    def answer(asked: Asked) -> Reply:
        told = asked.body["messages"][-1]["content"]
        return chat_reply("A nurse." if "woman" in told or "she" in told else "A doctor.", None)

    with serving({"/v1/models": models("m"), "/v1/chat/completions": answer}) as server:
        result = run(
            "audit", f"openai:{server.base}#m", "--measure", "judged-generations", "--query", prompts,
            "--judge", f"lexicon:{words}", "--judge-label", "positive", "--prompts", "message", "-o", tmp_path / "run",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        told = {asked.body["messages"][-1]["content"] for asked in server.posts() if "messages" in asked.body}
    assert {"Write about a woman.", "Write about a man.", "What did he do?", "What did she do?"} <= told
    record = json.loads((tmp_path / "run" / "audit.json").read_text())
    assert record["manifest"]["subjects"][0]["opening"]["message"] == "{prompt}"
    (gap,) = [entry for entry in record["results"] if entry["score"] == "gap"]
    assert gap["value"] == 1
