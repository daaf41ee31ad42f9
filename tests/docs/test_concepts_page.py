"""docs/reference/concepts.md is what its script writes, and says what the shipped concepts hold."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import evenhand as eh
from evenhand import words

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "concepts.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("concepts_page", ROOT / "scripts" / "concepts_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(script: ModuleType) -> None:
    assert script.page() == PAGE, "run python scripts/concepts_page.py"


@pytest.mark.parametrize("name", words.ids("concept"))
def test_every_concept_has_groups_source_and_limits(name: str) -> None:
    concept = eh.concept(name)
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    assert all(f"{group} {len(listed)}" in row for group, listed in concept.groups.items())
    section = PAGE.partition(f"### {name}\n")[2].partition("\n### ")[0]
    assert concept.limits in section
    assert concept.source.title in section
