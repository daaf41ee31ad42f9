"""The commands and examples of docs/how-to/audit.md run in the order of the page."""

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from page_runner import commands
from stand_in_data import write_texts, write_vectors
from stand_ins import MODELS
from typer.testing import CliRunner

import evenhand
from evenhand.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "audit.md").read_text(encoding="utf-8")
OWN_MODELS = {  # what is asked of each model in its test, where the page asks everything
    "hf:./my-nli-model": "--measure nli-neutrality --limit 20",
    "hf:./my-gpt": "--measure crows-pairs --measure weat",
    "my-nli-model.safetensors": "--measure nli-neutrality --limit 20 --no-methods",
    "corpus:articles/*.txt": "",
    "a.vec": "--measure weat",
}
BLOCKS = re.findall(r"```(toml|sh|python)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
def test_the_page_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for language, text in BLOCKS:
        if language == "toml":
            name = text.partition("\n")[0].removeprefix("# ")
            (tmp_path / name).write_text(text, encoding="utf-8")
        elif language == "python":
            exec(compile(text, "audit.md", "exec"), {})
        else:
            for line in text.splitlines():
                _run(line)
    assert (tmp_path / "runs/grow/audit.json").is_file()
    assert (tmp_path / "runs/own/report.html").is_file()


def _run(line: str) -> None:
    arguments = shlex.split(line)
    result = CliRunner().invoke(app, arguments[1:], env={"COLUMNS": "80", "NO_COLOR": "1"})
    allowed = (0, 3) if arguments[1] == "check" else (0,)
    assert result.exit_code in allowed, f"{line}: {result.output}"
    if arguments[1] == "check":
        assert "limits hold" in result.stdout


def test_the_plan_on_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = next(text for language, text in BLOCKS if language == "toml" and "own-plan" in text)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own-plan.toml").write_text(text.replace(', "hard.vec"', ""), encoding="utf-8")
    _run("evenhand audit --plan own-plan.toml --out runs/own")
    assert "hard.misp" in (tmp_path / "runs/own/audit.json").read_text(encoding="utf-8")


@pytest.mark.slow
def test_models_of_your_own_are_audited(
    tmp_path: Path, tiny_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    write_texts(tmp_path)
    write_vectors(tmp_path)
    for name, model in {"my-nli-model": "my-nli-model", "my-gpt": "my-gpt2", "my-bert": "my-bert"}.items():
        (tmp_path / name).symlink_to(tiny_folder(MODELS[model][0], **MODELS[model][1]))
    packaged = Path(evenhand.__file__).parent / "data" / "embedded" / "nli" / "original-0.safetensors"
    shutil.copy(packaged, "my-nli-model.safetensors")
    (block,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    lines = commands(block)
    assert len(lines) == len(OWN_MODELS)
    for line, (address, smaller) in zip(lines, OWN_MODELS.items(), strict=True):
        assert address in line
        _run(f"{line.partition('#')[0].replace('--jobs 4', '--jobs 2')} {smaller}")
