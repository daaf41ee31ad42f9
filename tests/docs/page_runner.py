"""Run the Python and shell blocks of a Markdown page from top to bottom, as a reader would type them.

A block that cannot run in the tests has a comment above it that says why: `<!-- not run: needs SNLI -->`. A page that
takes long has `<!-- slow page -->` in it and runs with `-m slow`. A trailing comment of a `print` is its expected output.
A block whose first line is `# file: NAME` is written to that file.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from types import MappingProxyType
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from evenhand.cli import app
from evenhand.data import catalog, locate

if TYPE_CHECKING:
    from evenhand.web.server import RequestGuard

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
BLOCK = re.compile(r"(?:<!-- not run: (?P<reason>[^>]+) -->\n+)?^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.M | re.S)
SHELL = ("sh", "console", "bash")
EXPECTED = re.compile(r"^\s*print\(.*\)  # (.*)$")
NAMED = re.compile(r"# file: (\S+)\n")
VARIABLE = re.compile(r"[A-Z_]+=")
EXIT_CODE = re.compile(r"#.*\bexit code (\d+)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line it starts at, and why it is not run."""

    language: str
    code: str
    line: int
    reason: str

    @property
    def runs(self) -> bool:
        return not self.reason and self.language in ("python", *SHELL)


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["language"], found["code"], text.count("\n", 0, found.start("code")) + 1, found["reason"] or "")
        for found in BLOCK.finditer(text)
    ]


def commands(code: str) -> list[str]:
    """Return the commands of a shell block; in a console block other lines are output."""
    lines = code.replace("\\\n", " ").splitlines()
    if any(line.startswith("$ ") for line in lines):
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def run_page(
    page: Path,
    languages: Collection[str] = ("python", *SHELL),
    *,
    smaller: Mapping[str, str] = MappingProxyType({}),
    names: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Run the blocks of a page in the working directory. Python blocks share their names, as in a notebook.

    Args:
        page: the page.
        languages: of the blocks that are run.
        smaller: what the tests replace in commands: numbers by smaller ones, and addresses by that of a server of theirs.
        names: what the page calls yours.
    """
    known: dict[str, object] = {"__name__": "__main__", **names}
    for block in blocks(page):
        named = NAMED.match(block.code)
        if named:
            Path(named[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(named[1]).write_text(block.code, encoding="utf-8")
        if not block.runs or block.language not in languages:
            continue
        if block.language == "python":
            run_python(block, page, known)
        else:
            for line in commands(block.code):
                run_command(_replaced(line, smaller), page)


def _replaced(line: str, smaller: Mapping[str, str]) -> str:
    for pattern, other in smaller.items():
        line = re.sub(pattern, other, line)
    return line


def run_python(block: Block, page: Path, names: dict[str, object]) -> None:
    """Run a block and compare what it prints with the comments behind the calls of `print`."""
    source = page.read_text(encoding="utf-8").splitlines()

    def checked_print(*values: object, **options: object) -> None:
        line = sys._getframe(1).f_lineno
        expected = EXPECTED.match(source[line - 1])
        printed = " ".join(map(str, values))
        if expected:
            assert printed == expected[1], f"{page.name}, line {line}: printed {printed!r}, page says {expected[1]!r}"

    names["print"] = checked_print
    code = "\n" * (block.line - 1) + block.code
    exec(compile(code, str(page), "exec"), names)


def run_command(line: str, page: Path) -> None:
    """Run a command of evenhand, or a Python script; `# exit code 3` behind it is its expected exit code.

    What is not run is checked: `pip install` names extras that exist, and what `fetch` brings is in the catalog. `serve` answers
    one request, and the start files of a shell are those of an empty home. Variables may stand before the command.
    """
    expected = EXIT_CODE.search(line)
    variables, arguments = _without_variables(_expanded(line))
    if arguments[0] == "bash":
        _run_in_bash(line)
        return
    if arguments[0] == "python":
        script = Path(arguments[1])
        exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), {"__name__": "__main__"})
        return
    if arguments[:2] == ["pip", "install"]:
        assert set(re.findall(r"\[(\w+)\]", line)) <= set(EXTRAS), f"{page.name}: {line!r} names no extra"
        return
    assert arguments[0] == "evenhand", f"{page.name}: {line!r} is no command of evenhand; say why it is not run"
    if arguments[1] == "fetch" and any(name in catalog() and not locate(name) for name in arguments[2:]):
        assert {name for name in arguments[2:] if name[0] != "-"} <= set(catalog()), f"{page.name}: {line!r}"
        return
    if "completion" in line:
        _run_in_bash(line)
        return
    output = arguments[-1] if arguments[-2:-1] == [">"] else ""
    environment = {"COLUMNS": "80", "NO_COLOR": "1", **variables}
    with _one_request_served():
        result = CliRunner().invoke(app, arguments[1:-2] if output else arguments[1:], env=environment)
    wanted = int(expected[1]) if expected else 0
    assert result.exit_code == wanted, f"{page.name}: {line}\n{result.output}\n{result.exception!r}"
    if output:
        Path(output).write_text(result.stdout, encoding="utf-8")


def _without_variables(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that are set before a command, and the command."""
    start = next((place for place, argument in enumerate(arguments) if not VARIABLE.match(argument)), len(arguments))
    return {name: value for name, _, value in (a.partition("=") for a in arguments[:start])}, arguments[start:]


def _expanded(line: str) -> list[str]:
    """Return the arguments of a command; a pattern without quotation marks becomes the files that fit it, as in a shell."""
    arguments = []
    for argument in shlex.split(line, comments=True):
        files = sorted(map(str, Path().glob(argument))) if "*" in argument and f"'{argument}'" not in line else []
        arguments += files or [argument]
    return arguments


def _run_in_bash(line: str) -> None:
    """Run a command in a shell whose home is the working directory."""
    command = (
        f'evenhand() {{ {shlex.quote(sys.executable)} -m evenhand "$@"; }}; export -f evenhand\n'
        f"mkdir -p ~/.config/fish/completions; {line}"
    )
    environment = {**os.environ, "HOME": str(Path.cwd()), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


@contextmanager
def _one_request_served() -> Iterator[None]:
    """Let `evenhand serve` answer a request for its first page, and end."""
    from starlette.testclient import TestClient

    from evenhand.web import server

    def answer(app: RequestGuard, listening: socket, *, browser: str = "") -> None:
        listening.close()
        with TestClient(app, base_url="http://127.0.0.1") as client:
            assert client.get("/").status_code == 200

    kept, server.serve = server.serve, answer
    try:
        yield
    finally:
        server.serve = kept
