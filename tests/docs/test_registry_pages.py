"""Every measure and method has a page, its facts are those of the registry, and no page is left over."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from evenhand import measures, mitigations

DOCS = Path(__file__).parents[2] / "docs"
IDS = {"measures": measures.ids(), "methods": mitigations.ids()}
SECTIONS = {
    "measures": ["What it computes", "Criticism", "When to use it", "Example", "Parameters", "References"],
    "methods": ["How it works", "Criticism", "When to use it", "Example", "Parameters", "References"],
}
ALL = [(folder, id) for folder, ids in IDS.items() for id in ids]


@pytest.fixture(scope="module")
def registry_pages(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("registry_pages")


def test_the_facts_are_those_of_the_registry(registry_pages: ModuleType) -> None:
    for path, text in registry_pages.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run `python scripts/registry_pages.py`"


@pytest.mark.parametrize(("folder", "id"), ALL)
def test_a_page_has_every_section(folder: str, id: str) -> None:
    text = (DOCS / folder / f"{id}.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS[folder]
    for heading in SECTIONS[folder]:
        body = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        assert len(body.split()) >= 8, f"{id}: {heading}"


@pytest.mark.parametrize("folder", IDS)
def test_no_page_is_left_over(folder: str) -> None:
    assert {path.stem for path in (DOCS / folder).glob("*.md")} == {*IDS[folder], "README"}


def test_arguments_are_read_from_a_docstring(registry_pages: ModuleType) -> None:
    text = "Do.\n\nArgs:\n    one: the first\n        of two.\n    two: the second.\n\nReturns:\n    three: no."
    assert registry_pages.documented(text) == {"one": "the first of two.", "two": "the second."}
