"""A measure, a method and a chart of another package stand in every verb, on the page, in figures, and in `check` and `compare`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_extend import DEFINITIONS, MODULES

ROOT = Path(__file__).parents[2]
POINTS = """
[evenhand.measures]
centroid-gap = other_package.centroid_gap:centroid_gap
[evenhand.mitigations]
first-pair = other_package.first_pair:FirstPair
neutral-titles = other_package.neutral_titles:NeutralTitles
[evenhand.charts]
words-found = other_package.words_found:words_found
[evenhand.judges]
shouting = other_package.shouting:Shouting
"""
RUN = """
import json, sys
from typer.testing import CliRunner
from evenhand.cli import app

for line in json.load(open("lines.json")):
    done = CliRunner().invoke(app, line.split(), env={"COLUMNS": "200", "NO_COLOR": "1"})
    print(json.dumps({"line": line, "code": done.exit_code, "output": done.output}))
"""
LINES = (
    "list measures",
    "list methods",
    "show centroid-gap",
    "show first-pair",
    "measure centroid-gap glove-embedded",
    "debias glove-embedded --method first-pair --set share=0.5 --out half.vec",
    "audit glove-embedded --measure centroid-gap --measure ect --method first-pair --method first-pair(share=0.5) --tables --out runs/one",
    "audit glove-embedded --measure centroid-gap --method first-pair.span --out runs/two",
    "report runs/one --figure words-found -o words.svg",
    "report runs/one --figure effect-sizes -o effects.json",
    "report runs/one --format markdown -o one.md",
    "compare runs/one runs/two",
    "check runs/one --max centroid-gap:weat-6=0.0001",
    "check runs/one --max centroid-gap:weat-6@first-pair=2",
    "check runs/one --baseline runs/two",
    "audit glove-embedded --method neutral-titles",
    "audit corpus:text.txt --method neutral-titles --out runs/text",
    "measure centroid-gab glove-embedded",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as pip would install it, and a text."""
    folder = tmp_path_factory.mktemp("site")
    package = folder / "other_package"
    package.mkdir()
    (package / "__init__.py").touch()
    for module, definition in zip(MODULES, DEFINITIONS, strict=True):
        definition = definition.replace("arity=(2, 2),", 'arity=(2, 2),\n    charts=("effect-sizes",),')
        (package / f"{module}.py").write_text(definition, encoding="utf-8")
    information = folder / "other_package-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(POINTS)
    (folder / "text.txt").write_text("Mrs. Hill said that he is a doctor and she is a nurse.\n" * 30)
    return folder


@pytest.fixture(scope="module")
def done(place: Path) -> dict[str, tuple[int, str]]:
    """The exit code and the output of every line, run in a process that knows the package by its entry points only."""
    (place / "lines.json").write_text(json.dumps(LINES))
    path = os.pathsep.join([str(ROOT / "src"), str(place)])
    command = [sys.executable, "-W", "error", "-c", RUN]
    environment = {**os.environ, "PYTHONPATH": path}
    run = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    results = [json.loads(line) for line in run.stdout.splitlines()]
    return {result["line"]: (result["code"], result["output"]) for result in results}


def said(done: dict[str, tuple[int, str]], beginning: str, code: int = 0) -> str:
    """Return the output of the only line that begins so."""
    (found,) = [result for line, result in done.items() if line.startswith(beginning)]
    assert found[0] == code, found[1]
    return found[1]


def test_it_is_listed_and_shown(done: dict[str, tuple[int, str]]) -> None:
    assert "centroid-gap" in said(done, "list measures")
    assert "first-pair" in said(done, "list methods")
    assert "two outliers can produce the gap" in " ".join(said(done, "show centroid-gap").split())
    assert "Knows one pair of words only" in said(done, "show first-pair")
    assert "centroid-gab" in said(done, "measure centroid-gab", 2)
    assert "centroid-gap" in said(done, "measure centroid-gab", 2)  # did you mean


def test_it_measures_and_changes(done: dict[str, tuple[int, str]], place: Path) -> None:
    assert "weat-6" in said(done, "measure centroid-gap")
    said(done, "debias")
    assert (place / "half.vec").stat().st_size > 10_000
    assert "works on corpora only" in said(done, "audit glove-embedded --method neutral-titles", 2)
    said(done, "audit corpus:text.txt")


def test_it_stands_on_the_page_and_in_every_format(done: dict[str, tuple[int, str]], place: Path) -> None:
    tables = said(done, "audit glove-embedded --measure centroid-gap --measure ect")
    for text in (tables, (place / "runs/one/report.html").read_text(), (place / "one.md").read_text()):
        assert "weat-6" in text
        assert "first-pair" in text
    page = (place / "runs/one/report.html").read_text()
    assert "Centroid gap" in page
    assert "two outliers can produce the gap" in page
    assert "Words found" in page


def test_it_is_drawn(done: dict[str, tuple[int, str]], place: Path) -> None:
    said(done, "report runs/one --figure words-found")
    assert (place / "words.svg").read_text().startswith("<svg")
    said(done, "report runs/one --figure effect-sizes")
    assert "first-pair" in (place / "effects.json").read_text()


def test_it_is_checked_and_compared(done: dict[str, tuple[int, str]]) -> None:
    said(done, "audit glove-embedded --measure centroid-gap --method first-pair.span")
    assert "centroid-gap" in said(done, "compare")
    assert "centroid-gap" in said(done, "check runs/one --max centroid-gap:weat-6=0.0001", 3)
    said(done, "check runs/one --max centroid-gap:weat-6@first-pair=2")
    assert "centroid-gap" in said(done, "check runs/one --baseline")
