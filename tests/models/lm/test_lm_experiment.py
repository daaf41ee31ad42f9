"""The script that trains many language models side by side: stopped and taken up, it comes to the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "lm_experiment.py"
LINES = ("he saw the king and his son", "she saw the queen and her daughter", "the man met a woman with N <unk> words")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "ptb").mkdir()
    for part, times in (("train", 150), ("valid", 40), ("test", 40)):
        (folder / "ptb" / f"ptb.{part}.txt").write_text("\n".join(LINES * times) + "\n")
    return folder


def command(texts: Path, out: Path, *rest: str) -> subprocess.CompletedProcess:
    common = ["--device", "cpu", "--tiny", "--corpora", "ptb", "--runs", "2", "--jobs", "1", "--reserve", "0"]
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--data", str(texts), "--out", str(out), *common, "--seconds", "600", *rest],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def numbers(run: dict) -> tuple:
    history = [(one["train_loss"], one["valid_perplexity"], one["regulariser"]) for one in run["manifest"]["history"]]
    return history, run["test_perplexity"], run["energies"], run["gradients"]


@pytest.mark.slow
def test_two_commands_give_the_same_result_as_one(texts: Path, tmp_path: Path) -> None:
    whole, parted, kept = tmp_path / "whole", tmp_path / "parted", tmp_path / "kept"
    for done in (
        command(texts, whole, "--epochs", "2", "--finish"),
        command(texts, parted, "--epochs", "1", "--checkpoints", str(kept)),
    ):
        assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in parted.iterdir()) == ["progress.json"]
    done = command(texts, parted, "--epochs", "2", "--checkpoints", str(kept), "--finish")
    assert done.returncode == 0, done.stderr
    one, two = (json.loads((folder / "runs.json").read_text()) for folder in (whole, parted))
    assert [run["name"] for run in two["runs"]] == ["ptb_none_0_1111", "ptb_released_0.01_1111"]
    assert [numbers(run) for run in one["runs"]] == [numbers(run) for run in two["runs"]]
    assert [len(run["manifest"]["history"]) for run in two["runs"]] == [2, 2]
    assert one["about"]["training_tokens"] == two["about"]["training_tokens"] > 0
    assert len(two["about"]["commands"]) == 2
    regularised = two["runs"][1]
    assert regularised["gradients"]["term"] > 0
    assert regularised["energies"]["released"] < two["runs"][0]["energies"]["released"]
    assert "normalise=True" in regularised["manifest"]["regulariser"]


def test_a_command_that_would_lose_its_work_is_refused(texts: Path, tmp_path: Path) -> None:
    done = command(texts, tmp_path / "out")
    assert done.returncode == 2
    assert "--checkpoints or --finish" in done.stderr


def test_the_plan_has_four_strengths_of_each_corpus_and_three_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import lm_experiment

    jobs = lm_experiment.planned(list(lm_experiment.PLAN))
    assert len({job.name for job in jobs}) == len(jobs)
    for corpus in lm_experiment.PLAN:
        runs = [job for job in jobs if job.corpus == corpus and job.definition in ("none", "released")]
        assert len({job.strength for job in runs}) >= 4
        assert all((job.strength == 0) == (job.definition == "none") for job in runs)
    assert len({job.seed for job in jobs if job.corpus == "ptb" and job.definition == "released"}) == 3
