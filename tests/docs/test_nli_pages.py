"""The tables of the NLI pages are those that the kept results give."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "reproductions"
RUNS = json.loads((PAGES / "nli.json").read_text())["runs"]


@pytest.fixture(scope="module")
def nli_pages(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("nli_pages")


@pytest.mark.parametrize("name", ["dev2019.md", "dawkins2021.md"])
def test_tables_come_from_the_kept_results(name: str, nli_pages: ModuleType) -> None:
    page = (PAGES / name).read_text()
    assert nli_pages.filled(page, RUNS) == page
    assert page.count("<!-- table") == page.count("<!-- end -->") >= 4


def test_a_changed_result_changes_the_page(nli_pages: ModuleType) -> None:
    page = (PAGES / "dev2019.md").read_text()
    changed = [{**row, "test": row["test"] / 2} for row in RUNS]
    assert nli_pages.filled(page, changed) != page


def test_conditions_have_the_seeds_that_the_page_says(nli_pages: ModuleType) -> None:
    assert len(nli_pages.chosen(RUNS, "decomposable", "original")) == 5
    assert len(nli_pages.chosen(RUNS, "decomposable", "random")) == 16
    assert {row["seed"] for row in nli_pages.chosen(RUNS, "bilstm", "linear")} == {0, 1, 2, 3, 4}
