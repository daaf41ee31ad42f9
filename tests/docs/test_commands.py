"""Every command in the documentation names verbs and options that exist, and the README's Python runs."""

import re
import shlex
from pathlib import Path

import pytest
import zstandard
from typer.testing import CliRunner

import evenhand as eh
from evenhand.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "reproductions").rglob("*.md"))]
FENCED = re.compile(r"```(?:sh|console|bash)\n(.*?)```", re.DOTALL)
INLINE = re.compile(r"`(evenhand [a-z][^`]*)`")


def commands(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    joined = "\n".join(FENCED.findall(text)).replace("\\\n", " ")
    lines = [line.strip().removeprefix("$ ") for line in joined.splitlines()]
    lines = [re.sub(r"^(\w+=\S+ )+|^\.venv/bin/", "", line) for line in lines]
    inline = [" ".join(found.split()) for found in INLINE.findall(FENCED.sub("", text))]
    parts = [part.strip() for line in (*lines, *inline) for part in re.split(r"[;|] ", line)]
    return [part for part in parts if part.startswith("evenhand ")]


COMMANDS = sorted({(page.relative_to(ROOT).as_posix(), line) for page in PAGES for line in commands(page)})


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_the_command_exists(page: str, line: str) -> None:
    arguments = [part for part in shlex.split(line, comments=True)[1:] if part not in ("...", "…")]
    if "--show-completion" in arguments:
        pytest.skip("asks which shell runs the tests, and sh has no completion")
    result = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    verb = arguments[0] if not arguments[0].startswith("-") else ""
    assert f"evenhand {verb}".strip() in result.output


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    eh.Vectors.default().save("my.vec")
    text = b'{"text": "she is a nurse and he is a doctor"}\n' * 20
    (tmp_path / "corpus.jsonl.zst").write_bytes(zstandard.compress(text))
    example = example.replace('"hf:./my-nli-model"', '"embedded"')
    example = example.replace('methods=["linear", "span"]', 'methods=["linear"], measures=["weat"]')
    scope: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), scope)
    assert (tmp_path / "report.html").is_file()
    assert isinstance(scope["m"], eh.Measurement)
