"""`evenhand debias hf:FOLDER`, `evenhand show hf:FOLDER` and audits of models before and after methods."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from evenhand.cli import app  # noqa: E402
from evenhand.models.huggingface import SITE_MAPS  # noqa: E402

Folder = Callable[..., Path]
CONCEPT = """
[concept.sex]
positive = "female"

[concept.sex.groups]
female = ["she", "woman", "girl", "mother", "daughter", "queen"]
male = ["he", "man", "boy", "father", "son", "king"]

[concept.sex.pairs]
pairs = [["she", "he"], ["woman", "man"], ["girl", "boy"], ["mother", "father"], ["daughter", "son"], ["queen", "king"]]
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.fixture
def bert(tiny_folder: Folder) -> str:
    return f"hf:{tiny_folder('BertForMaskedLM')}"


def test_a_model_is_changed_at_its_table_and_loads_in_transformers(bert: str, tmp_path: Path) -> None:
    done = run("debias", bert, "--method", "linear", "-o", tmp_path / "out", "--device", "cpu", "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["folded"] == {"embeddings": ["bert.embeddings.word_embeddings"]}
    assert record["reports"][0]["examples"]["words_averaged_over_pieces"]
    assert "split by the tokenizer" in done.stderr
    transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "evenhand.json").read_text())["changes"][0]["method"] == "linear"
    again = run("debias", bert, "-m", "linear", "--decoder", "tied", "-o", tmp_path / "out", "--device", "cpu")
    assert again.exit_code == 0
    assert "measures of likelihood say nothing" in again.stderr


def test_a_site_that_cannot_be_folded_needs_hook(bert: str, tmp_path: Path) -> None:
    command = ("debias", bert, "-m", "leace", "--site", "layer:2", "--set", "labels=groups", "--device", "cpu")
    refused = run(*command, "-o", tmp_path / "out")
    assert refused.exit_code == 2
    assert "residual connection" in refused.stderr
    assert not (tmp_path / "out").exists()
    done = run(*command, "-o", tmp_path / "out", "--hook", "--save-map", tmp_path / "change.safetensors")
    assert done.exit_code == 0, done.output
    assert "layer:2: kept beside the weights" in done.stdout
    assert "plain transformers ignores" in done.stderr
    assert (tmp_path / "out" / SITE_MAPS).is_file()
    assert (tmp_path / "change.safetensors").is_file()


def test_methods_in_a_chain_name_their_sites(bert: str, tmp_path: Path) -> None:
    chain = "linear.leace@mlp:2"
    done = run(
        "debias", bert, "-m", chain, "--set", "leace.labels=groups", "-o", tmp_path / "out", "--device", "cpu", "--json"
    )
    assert done.exit_code == 0, done.output
    assert set(json.loads(done.stdout)["folded"]) == {"embeddings", "mlp:2"}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("debias", "{bert}", "-m", "linear", "--site", "layer:0", "-o", "{out}"), 2, "numbered from 1"),
        (("debias", "{bert}", "-m", "linear", "--site", "layer:9", "-o", "{out}"), 2, "has 3 layers"),
        (("debias", "{bert}", "-m", "linear", "--decoder", "both", "-o", "{out}"), 2, "--decoder both"),
        (("debias", "{bert}", "-m", "scrubbing", "--site", "layer:1", "-o", "{out}"), 2, "does not act at one site"),
        (("debias", "{bert}", "-m", "linear", "-o", "{folder}"), 1, "is the model itself"),
        (("debias", "glove-embedded", "-m", "linear", "--site", "layer:1", "-o", "{out}.vec"), 2, "applies to a model"),
        (
            ("debias", "glove-embedded", "-m", "sentence-debias", "-o", "{out}.vec"),
            2,
            "works on transformers only; glove-embedded is word vectors",
        ),
        (("audit", "{bert}", "--site", "layer:1", "-o", "{out}"), 2, "no method was named"),
        (("show", "hf:{out}"), 4, "no folder"),
    ],
)
def test_misuse_is_explained(arguments: tuple[str, ...], code: int, says: str, bert: str, tmp_path: Path) -> None:
    places = {"bert": bert, "out": tmp_path / "out", "folder": bert.removeprefix("hf:")}
    done = run(*(argument.format(**places) for argument in arguments))
    assert done.exit_code == code, done.output
    assert says in done.stderr.replace("\n", " ")


def test_show_lists_the_sites_of_a_model(bert: str) -> None:
    done = run("show", bert, "--json")
    assert done.exit_code == 0, done.output
    sites = json.loads(done.stdout)["sites"]
    assert list(sites)[:4] == ["embeddings", "attention:1", "mlp:1", "layer:1"]
    assert "hook only: the residual connection" in sites["layer:1"]
    assert sites["layer:3"].endswith("a linear map can be folded")


def test_an_audit_measures_a_model_before_and_after_methods_at_sites(bert: str, tmp_path: Path) -> None:
    (tmp_path / "sex.toml").write_text(CONCEPT)
    methods = ("-m", "linear", "-m", "sentence-debias@layer:-1", "-m", "leace")
    command = ("audit", bert, *methods, "--site", "layer:2", "--measure", "seat")
    command = (
        *command,
        "--query",
        "weat-6",
        "--concept",
        tmp_path / "sex.toml",
        "--device",
        "cpu",
        "-o",
        tmp_path / "run",
    )
    done = run(*command, "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert [stage["name"] for stage in record["stages"]] == [
        "original",
        "linear@layer:2",
        "sentence-debias@layer:-1",
        "leace@layer:2",
    ]
    assert record["stages"][1]["report"]["site"] == "layer:2"
    values = [result["value"] for result in record["results"]]
    assert len(set(values)) == 4
    again = run(*command, "--json")
    assert json.loads(again.stdout)["manifest"]["cells_computed"] == 0
