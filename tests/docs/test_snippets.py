"""Every Python and shell block of the documentation runs, or the page says why it cannot run in the tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from page_runner import ROOT, SHELL, blocks, run_page
from stand_ins import MODELS, TEXTS, write_data

DOCS = ROOT / "docs"
FOLDERS = ("measures", "methods", "tutorials")
PAGES = [path for folder in FOLDERS for path in sorted((DOCS / folder).glob("*.md")) if blocks(path)]
SLOW = "<!-- slow page -->"


@pytest.fixture(scope="module")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def workplace(tmp_path: Path, small_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with the small data sets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENHAND_DATA", str(small_data))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(path, id=path.relative_to(DOCS).as_posix(), marks=[pytest.mark.slow] if SLOW in path.read_text(encoding="utf-8") else [])
        for path in PAGES
    ],
)  # fmt: skip
def test_the_page_runs_from_top_to_bottom(page: Path, workplace: Path, tiny_folder: Callable[..., Path]) -> None:
    text = page.read_text(encoding="utf-8")
    for name, (class_name, options) in MODELS.items():
        if name in text and "<!-- own models -->" not in text:
            (workplace / name).symlink_to(tiny_folder(class_name, **options))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*its content differs from the catalog")
        run_page(page)


@pytest.mark.parametrize("folder", ["measures", "methods"])
def test_every_page_of_a_measure_or_method_has_an_example(folder: str) -> None:
    for path in (DOCS / folder).glob("*.md"):
        if path.name != "README.md":
            assert any(block.language == "python" and block.runs for block in blocks(path)), path.name


@pytest.mark.parametrize("page", [path.name for path in sorted((DOCS / "tutorials").glob("*.md"))])
def test_a_tutorial_runs_all_its_blocks(page: str) -> None:
    left = [
        block for block in blocks(DOCS / "tutorials" / page) if block.language in ("python", *SHELL) and not block.runs
    ]
    assert not left, left
