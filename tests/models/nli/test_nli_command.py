"""`evenhand nli train` and `eval`: files, JSON on stdout, resuming, errors with their exit codes."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import evenhand as eh
from evenhand.cli.app import app
from evenhand.models.nli import DecomposableAttention
from evenhand.models.nli.decomposable import random_arrays

runner = CliRunner()
WORDS = ("the", "man", "dog", "ate", "slept", "not", ".")
ROWS = [
    ("The man ate.", "The man ate.", "entailment"),
    ("The man ate.", "The man not ate.", "contradiction"),
    ("The dog slept.", "The dog ate.", "neutral"),
] * 8


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    eh.Vectors(WORDS, rng.normal(0, 1, (len(WORDS), 6))).save(tmp_path / "v.txt")
    lines = [json.dumps({"premise": p, "hypothesis": h, "label": label}) for p, h, label in ROWS]
    (tmp_path / "pairs.jsonl").write_text("\n".join([*lines, lines[0].replace("entailment", "-")]), encoding="utf-8")
    return tmp_path


def options(folder, *more):
    files = [option for name in ("train", "dev", "test") for option in (f"--{name}", str(folder / "pairs.jsonl"))]
    small = ["--hidden", "4", "--batch", "8", "--epochs", "2", "--device", "cpu", "--seeds", "2"]
    out = ["--vectors", str(folder / "v.txt"), "--out", str(folder / "out")]
    return ["nli", "train", *files, *out, *small, *more]


def training(folder, *more):
    return runner.invoke(app, options(folder, *more))


def test_train_then_eval(folder):
    pytest.importorskip("torch")
    done = training(folder, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [one["seed"] for one in found["models"]] == [0, 1]
    assert found == json.loads((folder / "out" / "train.json").read_text(encoding="utf-8"))
    assert "1 skipped (no decided label)" in done.stderr
    model = folder / "out" / found["models"][1]["file"]
    asked = runner.invoke(app, ["nli", "eval", str(model), str(folder / "pairs.jsonl"), "--vectors", str(folder / "v.txt"), "--json"])  # fmt: skip
    assert asked.exit_code == 0, asked.output
    (result,) = json.loads(asked.stdout)["results"]
    assert result["accuracy"] == found["models"][1]["test"][0]["accuracy"]
    assert result["n"] == 24


def test_the_file_says_what_it_was_made_from(folder):
    pytest.importorskip("torch")
    from safetensors import safe_open

    assert training(folder, "--seeds", "7,", "--dtype", "float16").exit_code == 0
    with safe_open(folder / "out" / "seed-7.safetensors", framework="numpy") as file:
        config = json.loads(file.metadata()["evenhand-nli"])["config"]
        assert file.get_tensor("project.weight").dtype == np.float16
    assert config["seed"] == 7
    assert config["epoch"] in (1, 2)
    assert len(config["data"]["train"]["sha256"]) == 64
    assert config["packages"]["torch"]


def test_table_on_stdout_rest_on_stderr(folder):
    pytest.importorskip("torch")
    done = training(folder)
    assert "seed-0.safetensors" in done.stdout
    assert "wrote 2 models" in done.stderr
    assert "wrote" not in done.stdout


def test_ctrl_c_and_on_again(folder, monkeypatch):
    pytest.importorskip("torch")
    from evenhand.models.nli.training import Stack

    whole = training(folder, "--json")
    expected = [one["history"] for one in json.loads(whole.stdout)["models"]]
    for path in (folder / "out" / "checkpoint").iterdir():
        path.unlink()

    learn = Stack.advance

    def interrupted(self, *args):
        if self.done == 1:
            raise KeyboardInterrupt
        return learn(self, *args)

    monkeypatch.setattr(Stack, "advance", interrupted)
    stopped = training(folder)
    assert stopped.exit_code == 130
    assert "holds epoch 1; rerun the same command" in stopped.stderr
    monkeypatch.setattr(Stack, "advance", learn)
    found = json.loads(training(folder, "--json").stdout)
    assert [one["history"] for one in found["models"]] == expected


def test_map_is_applied_before_training(folder):
    pytest.importorskip("torch")
    from evenhand.mitigations.maps import DropCoordinates

    path = DropCoordinates([0, 3]).save(folder / "map.safetensors")
    done = training(folder, "--map", str(path), "--json")
    assert done.exit_code == 0, done.output
    words = json.loads(done.stdout)["models"][0]["words"]
    assert words["dimensions"] == 4
    assert words["history"]


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        ("", 4, "no labelled pair"),
        ('{"premise": "A", "hypothesis": "B", "label": "maybe"}', 4, "unknown label 'maybe'"),
        ('{"premise": "A", "hypothesis": "B", "label": "neutral"}', 4, "only label of its 1 pair is"),
        ('{"premise": "A", "hypothesis": "B", "label": 1}', 4, "--labels"),
    ],
)
def test_bad_training_files(folder, content, code, message):
    pytest.importorskip("torch")
    (folder / "pairs.jsonl").write_text(content, encoding="utf-8")
    done = training(folder)
    assert done.exit_code == code
    assert message in done.stderr
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("seeds", "message"), [("0", "neither a number of seeds"), ("a,b", "neither a number of seeds"), ("1,1", "seeds")]
)
def test_bad_seeds(folder, seeds, message):
    pytest.importorskip("torch")
    done = training(folder, "--seeds", seeds)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (("--architecture", "bilstm", "--hidden", "7"), 2, "must be even"),
        (("--epochs", "0"), 2, "epochs must be at least 1"),
        (("--out", __file__), 1, "could not be written"),
        (("--out", f"{__file__}/models"), 1, "could not be written"),
    ],
)
def test_what_cannot_be_is_told_before_data_are_read(folder, more, code, message):
    pytest.importorskip("torch")
    (folder / "pairs.jsonl").unlink()
    done = training(folder, *more)
    assert message in done.stderr
    assert done.exit_code == code


def test_another_training_in_the_same_folder(folder):
    pytest.importorskip("torch")
    assert training(folder).exit_code == 0
    fewer = training(folder, "--epochs", "1")
    assert fewer.exit_code == 2
    assert "has 2 epochs, but epochs is 1" in fewer.stderr
    one = training(folder, "--seeds", "1", "--epochs", "3")
    assert "seed-1.safetensors in" in one.stderr
    assert "wrote 1 model and" in one.stderr


def test_eval_tells_of_other_vectors(folder):
    pytest.importorskip("torch")
    assert training(folder, "--seeds", "1").exit_code == 0
    eh.Vectors(WORDS, np.random.default_rng(1).normal(0, 1, (len(WORDS), 6))).save(folder / "other.txt")
    asked = ["nli", "eval", str(folder / "out/seed-0.safetensors"), str(folder / "pairs.jsonl"), "--vectors"]
    assert (
        "trained on the vectors v.txt and reads other.txt"
        in runner.invoke(app, [*asked, str(folder / "other.txt")]).stderr
    )
    assert "trained on the vectors" not in runner.invoke(app, [*asked, str(folder / "v.txt")]).stderr


def test_eval_without_torch(folder):
    model = DecomposableAttention(random_arrays(6, 4), eh.Vectors.load(folder / "v.txt"), name="tiny")
    path = model.save(folder / "tiny.safetensors")
    (folder / "hans.txt").write_text("The man ate.\tThe man slept.\t1\n", encoding="utf-8")
    asked = [str(folder / "hans.txt"), "--vectors", str(folder / "v.txt")]
    done = runner.invoke(app, ["nli", "eval", str(path), *asked])
    assert done.exit_code == 0, done.output
    assert "tiny" in done.stdout
    assert "non-entailment" in done.stdout


def test_eval_of_predictions(folder):
    answer = {"entailment": 0.2, "neutral": 0.7, "contradiction": 0.1}
    rows = [json.dumps({"premise": p, "hypothesis": h, **answer}) for p, h, _ in ROWS]
    (folder / "said.jsonl").write_text("\n".join(rows), encoding="utf-8")
    done = runner.invoke(app, ["nli", "eval", str(folder / "said.jsonl"), str(folder / "pairs.jsonl"), "--json"])
    assert json.loads(done.stdout)["results"][0]["accuracy"] == pytest.approx(1 / 3)


@pytest.mark.slow
def test_a_real_interrupt_keeps_the_checkpoint(folder):
    """The signal of Ctrl-C to a process of its own, after its first epoch; the same command then ends as if never."""
    pytest.importorskip("torch")
    long = ("--epochs", "60", "--patience", "60", "--json")
    expected = [one["history"] for one in json.loads(training(folder, *long).stdout)["models"]]
    first = folder / "out" / "checkpoint" / "stack-0.safetensors"
    for path in first.parent.iterdir():
        path.unlink()
    command = [sys.executable, "-c", "from evenhand.cli.app import main; main()", *options(folder, *long)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        while not first.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "rerun the same command to resume" in said
    assert [one["history"] for one in json.loads(training(folder, *long).stdout)["models"]] == expected
