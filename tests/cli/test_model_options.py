"""The options of the verbs that need torch, each with its effect; see `test_options`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("torch")
pytest.importorskip("transformers")

import evenhand as eh
from evenhand.cli import app
from evenhand.engines import RayEngine

Folder = Callable[..., Path]
PAIRS = [("The man ate.", "The man ate.", 0), ("The man ate.", "The man slept.", 2), ("The girl ate.", "A dog ate.", 1)]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


def ok(*arguments: object) -> Any:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in arguments else None


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Labelled pairs whose labels are numbers."""
    path = tmp_path / "pairs.jsonl"
    rows = [json.dumps({"premise": p, "hypothesis": h, "label": label}) for p, h, label in PAIRS * 8]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    words = ["the", "man", "girl", "a", "dog", "ate", "slept", ".", "she", "he", "woman", "boy"]
    return eh.Vectors(words, np.random.default_rng(0).normal(size=(len(words), 6))).save(tmp_path / "v.txt")


NAMES = ("--labels", "entailment,neutral,contradiction")


def test_nli_models_are_trained_and_evaluated_as_the_options_say(pairs: Path, vectors: Path, tmp_path: Path) -> None:
    out, fitted = tmp_path / "out", tmp_path / "map.safetensors"
    ok("debias", vectors, "-m", "linear", "-o", tmp_path / "w.vec", "--save-map", fitted)
    size = ("--hidden", "4", "--batch", "8", "--epochs", "1", "--seeds", "1", "--device", "cpu", "--stack", "1")
    made = ("--optimiser", "adagrad", "--learning-rate", "0.01", "--weight-decay", "0.001", "--dropout", "0.1")
    more = ("--intra-attention", "--no-lower", "--normalise", "--precision", "float32", "--max-record", "1")
    found = ok("nli", "train", "--train", pairs, "--dev", pairs, "--test", pairs, "--vectors", vectors, "--map", fitted,
               "--out", out, *size, *made, *more, *NAMES, "--json")  # fmt: skip
    (model,) = found["models"]
    settings = model["settings"]
    assert {name: settings[name] for name in ("optimiser", "learning_rate", "weight_decay", "dropout")} == {
        "optimiser": "adagrad", "learning_rate": 0.01, "weight_decay": 0.001, "dropout": 0.1,
    }  # fmt: skip
    assert (settings["intra_attention"], settings["lower"], settings["normalise"]) == (True, False, True)
    asked = ok("nli", "eval", out / model["file"], pairs, "--vectors", vectors, "--map", fitted, *NAMES, "--max-record", "1",
               "--device", "cpu", "--json")  # fmt: skip
    assert asked["results"][0]["accuracy"] == model["test"][0]["accuracy"]
    query = ("--query", "mab-explicit", "--json")
    measured = run("measure", "nli-neutrality", out / model["file"], "--vectors", vectors, *query)
    assert measured.exit_code in (0, 4), measured.output  # the tiny vectors lack most words of the probe


def test_nli_fine_tuning_follows_its_options(pairs: Path, tiny_folder: Folder, tmp_path: Path) -> None:
    body = tiny_folder("BertModel")
    files = ("--train", pairs, "--dev", pairs, "--test", pairs, "--out", tmp_path / "out")
    size = ("--seeds", "1", "--epochs", "1", "--batch", "8", "--device", "cpu", "--precision", "float32")
    made = ("--learning-rate", "0.001", "--weight-decay", "0.1", "--dropout", "0.2", "--dtype", "float16")
    more = ("--when", "train+test", "--head", "linear")
    (model,) = ok("nli", "fine-tune", f"hf:{body}", *files, *size, *made, *more, *NAMES, "--json")["models"]
    recorded = json.dumps(model)
    for text in ('"learning_rate": 0.001', '"weight_decay": 0.1', '"dropout": 0.2'):
        assert text in recorded
    folder = f"hf:{tmp_path / 'out' / model['file']}"
    same = tmp_path / "entailed.jsonl"
    same.write_text("".join(line + "\n" for line in pairs.read_text().splitlines() if '"label": 0' in line))
    orders = ("e,n,c", "n,c,e", "c,e,n")
    results = [ok("nli", "eval", folder, same, *NAMES, "--outputs", order, "--json")["results"][0] for order in orders]
    assert [result["n"] for result in results] == [8, 8, 8]
    assert sum(result["accuracy"] for result in results) == pytest.approx(1)  # each output is entailment once


def test_precision_of_a_model(tiny_folder: Folder, tmp_path: Path) -> None:
    folder = f"hf:{tiny_folder('GPT2LMHeadModel')}"
    asked = ("perplexity", folder, "--device", "cpu", "--json")
    exact, rounded = (ok("measure", *asked, "--precision", precision)["value"] for precision in ("float32", "bfloat16"))
    assert exact != rounded
    assert exact == pytest.approx(rounded, rel=0.1)
    audited = ok("audit", folder, "--measure", "perplexity", "--no-methods", "--precision", "bfloat16", "--device", "cpu",
                 "-o", tmp_path / "run", "--json")  # fmt: skip
    assert audited["results"][0]["value"] == pytest.approx(rounded)


def test_compare_runs_models_on_a_device(tiny_folder: Folder) -> None:
    folder = f"hf:{tiny_folder('GPT2LMHeadModel')}"
    rows = ok("compare", folder, folder, "--device", "cpu", "--measure", "perplexity", "--json")["rows"]
    assert rows[0]["before"]["value"] == rows[0]["after"]["value"]


def test_texts_are_sampled_as_the_options_say(tiny_folder: Folder, tmp_path: Path) -> None:
    folder = tiny_folder("GPT2LMHeadModel")
    shared = ("--samples", "4", "--tokens", "8", "--device", "cpu", "--seed", "1")
    ok("lm", "generate", folder, *shared, "-o", tmp_path / "a.txt", "--precision", "float32", "--batch", "2")
    ok("lm", "generate", folder, *shared, "-o", tmp_path / "b.txt", "--temperature", "0.1", "--start", "the nurse")
    first, cold = ((tmp_path / name).read_text().splitlines() for name in ("a.txt", "b.txt"))
    assert len(first) == len(cold) == 4
    assert first != cold
    (tmp_path / "b.txt").write_text("mine", encoding="utf-8")
    assert run("lm", "generate", folder, *shared, "-o", tmp_path / "b.txt").exit_code == 1
    ok("lm", "generate", folder, *shared, "-o", tmp_path / "b.txt", "--overwrite")
    refused = run("lm", "generate", folder, *shared, "-o", tmp_path / "c.txt", "--burn-in", "3")
    assert refused.exit_code == 2  # for models of evenhand


def test_an_awd_lstm_is_trained_sampled_and_measured(tmp_path: Path) -> None:
    lines = [
        "she saw the nurse in the town",
        "he met the doctor in the house",
        "the woman knew her",
        "the man knew him",
    ]
    text = tmp_path / "text.txt"
    text.write_text("\n".join(lines * 60) + "\n", encoding="utf-8")
    size = [part for name in ("embedding=8", "hidden=8", "layers=1", "batch=4", "bptt=8") for part in ("--set", name)]
    train = (
        "lm",
        "train",
        text,
        "--valid",
        text,
        "--test",
        text,
        "-o",
        tmp_path / "model",
        "--epochs",
        "1",
        "--device",
        "cpu",
    )
    trained = run(*train, "--precision", "float32", *size, "--json")
    assert trained.exit_code == 0, trained.output
    assert json.loads(trained.stdout)["test_perplexity"] > 1
    shared = ("--samples", "40", "--tokens", "30", "--device", "cpu")
    ok("lm", "generate", tmp_path / "model", *shared, "-o", tmp_path / "s.txt", "--start", "eos", "--burn-in", "5")
    page = tmp_path / "page.html"
    page.write_text("mine", encoding="utf-8")
    measured = ok("lm", "measure", tmp_path / "model", "--train", text, *shared, "--pairs", "bordia2019-ptb", "--seed", "3",
                  "--permutations", "0", "--tokenizer", "whitespace", "--stop-words", "none", "--min-count", "2",
                  "--temperature", "0.9", "--batch", "8", "--precision", "float32", "--html", page, "--overwrite",
                  "--out", tmp_path / "run", "--json")  # fmt: skip
    assert measured["seed"] == 3
    assert measured["fixed"]["second"]["params"]["min_count"] == 2
    assert page.read_text() != "mine"
    assert eh.Audit.load(tmp_path / "run").results


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_models_on_a_cluster_of_a_given_address(tiny_folder: Folder, ray_engine: RayEngine, tmp_path: Path) -> None:
    import ray

    list(ray_engine.map(str, [1]))
    folder, address = f"hf:{tiny_folder('GPT2LMHeadModel')}", ray.get_runtime_context().gcs_address
    local = ok("measure", "perplexity", folder, "--device", "cpu", "--json")["value"]
    on_ray = ("--engine", "ray", "--address", address, "--workers", "2", "--device", "cpu")
    assert ok("measure", "perplexity", folder, *on_ray, "--json")["value"] == pytest.approx(local, rel=1e-6)
    found = ok("audit", folder, "--measure", "perplexity", "--no-methods", *on_ray, "-o", tmp_path / "run", "--json")
    assert found["results"][0]["value"] == pytest.approx(local, rel=1e-6)


def test_a_classifier_is_audited_as_an_nli_model(tiny_folder: Folder, tmp_path: Path) -> None:
    folder = f"hf:{tiny_folder('BertForSequenceClassification', num_labels=3)}"
    asked = ("--no-methods", "--measure", "nli-neutrality", "--query", "mab-explicit", "-o", tmp_path / "run", "--json")
    assert (
        ok("audit", folder, "--labels", "e,n,c", "--device", "cpu", *asked)["results"][0]["measure"] == "nli-neutrality"
    )


def test_an_audit_writes_as_many_texts_of_as_many_tokens_as_asked(tiny_folder: Folder, tmp_path: Path) -> None:
    sizes = ("--measure", "corpus-bias", "--samples", "6", "--tokens", "5", "--device", "cpu")
    found = ok("audit", f"hf:{tiny_folder('GPT2LMHeadModel')}", *sizes, "-o", tmp_path / "run", "--json")
    (question,) = found["manifest"]["arguments"]["effective"]["question"]
    assert question["options"] == {"samples": 6, "tokens": 5}
