"""Models that are damaged, incomplete or unusual, from the command line: each says what is wrong, and what to do."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("torch")
pytest.importorskip("transformers")

from evenhand.cli import app

Folder = Callable[..., Path]
LABELS = {"num_labels": 3, "id2label": {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}}
LONG = "she saw the nurse and he said that " * 20


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def measured(*arguments: object) -> list[dict[str, Any]]:
    done = run("measure", *arguments, "--device", "cpu", "--json")
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)["measurements"]
    return found


def changed_config(folder: Path, target: Path, **settings: object) -> Path:
    """Copy a model and change its configuration."""
    shutil.copytree(folder, target)
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | settings))
    return target


def with_nan(folder: Path, target: Path) -> Path:
    """Copy a model and spoil the last layer norm of its body."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, target)
    weights = load_file(target / "model.safetensors")
    spoiled = [name for name in weights if name.endswith(("layer.2.output.LayerNorm.weight", "ln_f.weight"))]
    assert spoiled
    weights[spoiled[0]][:] = float("nan")
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    return target


@pytest.mark.parametrize(
    "verb", [["measure", "perplexity"], ["audit"], ["debias", "--method", "linear"]], ids=lambda v: v[0]
)
def test_a_folder_without_a_tokenizer(tiny_folder: Folder, tmp_path: Path, verb: list[str]) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder("BertForMaskedLM"), folder)
    for file in folder.glob("tokenizer*"):
        file.unlink()
    out = [] if verb[0] == "measure" else ["--out", tmp_path / "out"]
    done = run(*verb, f"hf:{folder}", *out)
    assert done.exit_code == 4
    assert "model: no tokenizer (none of tokenizer.json, vocab.txt, vocab.json, *.model)" in done.stderr
    assert "tokenizer.save_pretrained(folder)" in done.stderr
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("*.json"))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"hidden_size": 32}, "has the shape (214, 16), and the model needs (214, 32)"),
        ({"num_hidden_layers": 5}, "no weights for bert.encoder.layer.3.attention.output.LayerNorm.bias"),
        (
            {"num_hidden_layers": 2},
            "the weights have more layers than config.json gives BertForMaskedLM: bert.encoder.layer.2.",
        ),
        (
            {"vocab_size": 500},
            "bert.embeddings.word_embeddings.weight has the shape (214, 16), and the model needs (500, 16)",
        ),
    ],
    ids=["wider", "deeper", "shallower", "more words"],
)
def test_weights_that_do_not_fit_the_configuration(
    tiny_folder: Folder, tmp_path: Path, settings: dict[str, int], says: str
) -> None:
    folder = changed_config(tiny_folder("BertForMaskedLM"), tmp_path / "model", **settings)
    done = run("measure", "perplexity", f"hf:{folder}")
    assert done.exit_code == 4
    assert says in done.stderr
    assert "hint: use" in done.stderr


def test_a_model_without_the_expected_structure(tiny_folder: Folder, tmp_path: Path) -> None:
    out = ["--method", "linear", "-o", tmp_path / "out", "--site"]
    done = run("debias", f"hf:{tiny_folder('GPT2LMHeadModel')}", *out, "pooled")
    assert done.exit_code == 2
    assert "GPT2LMHeadModel has no pooler (none of pooler_activation, pooler)" in done.stderr
    assert "hint: use layer:3" in done.stderr
    done = run("debias", f"hf:{tiny_folder('BertForMaskedLM')}", *out, "layer:9")
    assert done.exit_code == 2
    assert "there is no layer:9: the model has 3 layers" in done.stderr
    done = run("measure", "crows-pairs", f"hf:{tiny_folder('BertModel')}")
    assert done.exit_code == 2
    assert "needs the view 'likelihood'" in done.stderr
    assert "offers vectors, sentences" in done.stderr
    assert not (tmp_path / "out").exists()


def test_labels_in_an_unknown_order(tiny_folder: Folder) -> None:
    folder = f"hf:{tiny_folder('BertForSequenceClassification', **LABELS)}"
    done = run("probe", folder, "--sample", "50")
    assert done.exit_code == 4
    assert "the order of its labels is unknown: its labels are LABEL_0, LABEL_1, LABEL_2" in done.stderr
    assert "--labels contradiction,neutral,entailment" in done.stderr
    question = [
        "measure",
        "nli-neutrality",
        folder,
        "--query",
        "gender-occupation",
        "--set",
        "sample=60",
        "--device",
        "cpu",
    ]
    done = run(*question)
    assert done.exit_code == 2
    assert "so it is read as a text classifier; for an NLI model name their order: --labels c,n,e" in done.stderr
    done = run(*question, "--labels", "c,n,e", "--json")
    assert done.exit_code == 0, done.output
    assert 0 < json.loads(done.stdout)["value"] < 1
    assert run(*question, "--labels", "a,b,c").exit_code == 2


def test_a_tokenizer_that_splits_a_filler(tiny_folder: Folder) -> None:
    folder = f"hf:{tiny_folder('BertForMaskedLM')}"
    (found,) = measured("log-probability", folder, "--query", "weat-8")
    assert found["coverage"]["missing"] == ["brother", "uncle", "grandfather", "sister", "aunt", "grandmother"]
    pearson, *_ = measured("pronoun-share", folder)
    assert pearson["details"]["sentences_with_split_pronouns"] == 0


@pytest.mark.parametrize(
    ("class_name", "question", "reason"),
    [
        ("BertForMaskedLM", "perplexity", "a log-probability is NaN or infinite"),
        ("GPT2LMHeadModel", "perplexity", "the log-probability of text 0 is nan"),
        ("GPT2LMHeadModel", "seat", "a sentence vector contains NaN or infinity"),
        ("BertForSequenceClassification", "counterfactual", "a probability is NaN or infinite"),
    ],
)
def test_logits_that_are_not_numbers(
    tiny_folder: Folder, tmp_path: Path, class_name: str, question: str, reason: str
) -> None:
    folder = with_nan(tiny_folder(class_name), tmp_path / "spoiled")
    query = ["--query", "weat-6"] if question == "seat" else []
    for found in measured(question, f"hf:{folder}", *query):
        assert (found["status"], found["value"]) == ("undefined", None)
        assert found["reason"] == f"spoiled: {reason}"


@pytest.mark.parametrize(("class_name", "longest"), [("BertForMaskedLM", 62), ("GPT2LMHeadModel", 63)])
def test_a_text_longer_than_the_window_is_scored_in_windows(
    tiny_folder: Folder, tmp_path: Path, class_name: str, longest: int
) -> None:
    text = tmp_path / "long.txt"
    text.write_text(f"{LONG}\nhe was here\n", encoding="utf-8")
    done = run("measure", "perplexity", f"hf:{tiny_folder(class_name)}", "--query", text, "--device", "cpu", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["n"] == 163
    assert f"1 of 2 texts have more than the {longest} tokens that the model reads at once" in done.stderr


def test_a_text_longer_than_the_window_of_a_classifier_is_refused(tiny_folder: Folder, tmp_path: Path) -> None:
    text = tmp_path / "long.txt"
    text.write_text(f"{LONG}\nhe was here\n", encoding="utf-8")
    for found in measured("counterfactual", f"hf:{tiny_folder('BertForSequenceClassification')}", "--query", text):
        assert found["status"] == "undefined"
        assert found["reason"] == "text 0 has 162 tokens, and the model reads 64"
