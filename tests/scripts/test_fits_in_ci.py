"""What CI systems, containers and packagers read: the action is run, the rest is compared with the project."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
yaml = pytest.importorskip("yaml")


def act(folder: Path, **inputs: str) -> tuple[subprocess.CompletedProcess[str], str, dict[str, str]]:
    """Run the script of the action as GitHub would, and return the process, the summary and the outputs."""
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    command = bin_folder / "evenhand"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m evenhand "$@"\n')
    command.chmod(0o755)
    files = {"GITHUB_STEP_SUMMARY": str(folder / "summary.md"), "GITHUB_OUTPUT": str(folder / "outputs")}
    env = os.environ | files | inputs | {"PATH": f"{bin_folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    for file in files.values():
        Path(file).write_text("")
    done = subprocess.run(
        ["bash", str(ROOT / ".ci" / "action")], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    outputs = dict(line.split("=", 1) for line in (folder / "outputs").read_text().splitlines())
    return done, (folder / "summary.md").read_text(), outputs


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_action_audits_checks_and_writes_the_summary(tmp_path: Path) -> None:
    options = "--no-methods\n--measure\nweat\n--query\nweat-6\n"
    done, summary, outputs = act(tmp_path, SUBJECT="glove-embedded", AUDIT_OPTIONS=options, MAX="weat-6=3\n")
    assert done.returncode == 0, done.stderr
    assert outputs == {"report": "runs/action/report.html", "passed": "true"}
    assert "weat-6" in summary
    done, summary, outputs = act(tmp_path, MAX="weat-6=0.1", BY="interval")  # the run of before
    assert done.returncode == 3
    assert outputs["passed"] == "false"
    done, summary, _ = act(tmp_path, BASELINE="runs/action")
    assert done.returncode == 0, done.stderr
    done, summary, outputs = act(tmp_path)  # no limit: the report is the summary
    assert done.returncode == 0, done.stderr
    assert "Bias audit of glove-embedded" in summary
    done, _, outputs = act(tmp_path, RUN="$(touch pwned)", MAX="weat-6=1; touch pwned")
    assert done.returncode in (2, 4)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    "inputs",
    [
        {"RUN": "r\npassed=true"},
        {"RUN": "--help"},
        {"SUBJECT": "--help"},
        {"SUBJECT": "--write-plan\npwned"},
        {"SUBJECT": "`touch pwned`\n$(touch pwned)"},
        {"RUN": "r", "MAX": "$(touch pwned)\n--help", "BASELINE": "; touch pwned"},
    ],
)
def test_an_input_of_the_action_is_no_option_no_output_and_no_command(inputs: dict[str, str], tmp_path: Path) -> None:
    done, _, outputs = act(tmp_path, **inputs)
    assert done.returncode in (2, 4)
    assert not outputs
    assert not (tmp_path / "pwned").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("extras", "installed"),
    [("models,web", "[models,web]"), ("", ""), ("x] @ https://evil.example/a.zip", None), ("a\n--index-url=x", None)],
)
def test_only_names_of_extras_reach_pip(extras: str, installed: str | None, tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    (tmp_path / "python").write_text('#!/bin/sh\nprintf "%s" "$4" > "$GITHUB_ACTION_PATH.log"\n')
    (tmp_path / "python").chmod(0o755)
    variables = {
        "EXTRAS": extras,
        "GITHUB_ACTION_PATH": str(tmp_path / "a"),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-c", action["runs"]["steps"][0]["run"]], env=variables, capture_output=True, check=False
    )
    log = tmp_path / "a.log"
    assert (log.read_text() if log.exists() else None) == (None if installed is None else f"{tmp_path}/a{installed}")
    assert done.returncode == (2 if installed is None else 0)


def test_the_inputs_of_the_action_reach_the_script() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    script = (ROOT / ".ci" / "action").read_text(encoding="utf-8")
    steps = action["runs"]["steps"]
    given = {name: re.findall(r"inputs\.([\w-]+)", value) for step in steps for name, value in step["env"].items()}
    assert sorted(used for names in given.values() for used in names) == sorted(action["inputs"])
    assert all("${{" not in step["run"] for step in steps)  # an input in the text of a script would be run
    assert all(f"${{{name}" in script or f"${name}" in script for name in given if name != "EXTRAS")


def test_the_hook_names_a_command_and_files() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["entry"] == "evenhand concept check"
    files = re.compile(hook["files"])
    assert files.search("concepts/mine.toml")
    assert files.search("words/mine.concept.toml")
    assert not files.search("pyproject.toml")


def test_the_container_is_closed_and_has_no_root() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert "USER 10001" in lines
    assert 'CMD ["serve", "--no-browser", "--port", "8000"]' in lines
    assert not any("0.0.0.0" in line or line.startswith("EXPOSE") for line in lines)
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    copied = {name for names in copies for name in names}
    assert all((ROOT / name).exists() for name in copied)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{name}" for name in copied} <= set(ignored)
    json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))


def test_the_groups_are_the_extras() -> None:
    for name in ("dev", "docs"):
        assert PROJECT["dependency-groups"][name] == PROJECT["project"]["optional-dependencies"][name]


def test_the_conda_recipe_has_the_dependencies_of_the_project() -> None:
    recipe = yaml.safe_load((ROOT / ".ci" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    needed = {entry.replace(" ", "") for entry in recipe["requirements"]["run"] if not entry.startswith("python ")}
    assert needed == set(PROJECT["project"]["dependencies"])
    assert recipe["context"]["version"] == PROJECT["project"]["version"]
    assert f">={recipe['context']['python_min']}" == PROJECT["project"]["requires-python"]
    assert recipe["build"]["python"]["entry_points"] == ["evenhand = evenhand.cli:main"]
