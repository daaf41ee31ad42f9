"""lm-eval runs the tasks that evenhand writes, and evenhand reads the log back.

lm-eval has dependencies of its own, so it runs in an environment of its own, named by EVENHAND_LM_EVAL_PYTHON:

    python3.11 -m venv lm-eval-venv && lm-eval-venv/bin/pip install "lm_eval[hf]==0.4.13"
    EVENHAND_LM_EVAL_PYTHON=lm-eval-venv/bin/python pytest -m rivals tests/rivals/test_lm_eval.py
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from evenhand.interop.logs.lm_eval import read_lm_eval, write_lm_eval_tasks

pytestmark = pytest.mark.rivals
PYTHON = os.environ.get("EVENHAND_LM_EVAL_PYTHON", "")


def test_lm_eval_runs_a_concept_and_its_probe(tmp_path: Path, tiny_folder: Callable[..., Path]) -> None:
    if not PYTHON:
        pytest.skip("EVENHAND_LM_EVAL_PYTHON does not name a Python that has lm_eval")
    written = write_lm_eval_tasks("gender", tmp_path / "tasks", sample=48)
    names = [file.stem for file in written]
    assert names == ["evenhand_gender_decisions", "evenhand_gender_occupation"]
    model = tiny_folder("GPT2LMHeadModel", n_positions=512)
    command = [PYTHON, "-m", "lm_eval", "run", "--model", "hf", "--device", "cpu", "--batch_size", "8"]
    command += ["--model_args", f"pretrained={model}", "--include_path", str(tmp_path / "tasks"), "--log_samples"]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(tmp_path / "cache"), "HF_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [*command, "--tasks", ",".join(names), "--output_path", str(tmp_path / "out")],
        env=os.environ | offline, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    (results,) = (tmp_path / "out").rglob("results_*.json")
    found = json.loads(results.read_text())["results"]
    assert all(0 <= found[name]["acc,none"] <= 1 for name in names)
    run = read_lm_eval(tmp_path / "out")
    assert list(run.left_out) == ["evenhand_gender_occupation"]
    gap = run.audit().get("decisions:gap")
    assert gap.n == 48
    assert gap.interval is not None
