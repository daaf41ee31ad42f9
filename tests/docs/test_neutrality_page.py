"""The page on neutrality is made from its kept results."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

PAGES = Path(__file__).parents[2] / "reproductions"
KEPT = json.loads((PAGES / "neutrality.json").read_text())
EARLIER = json.loads((PAGES / "nli.json").read_text())["runs"]


@pytest.fixture
def neutrality_page(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("neutrality_page")


def test_tables_come_from_the_kept_results(neutrality_page: ModuleType) -> None:
    page = neutrality_page.PAGE.read_text()
    assert neutrality_page.filled(page, KEPT, EARLIER) == page
    changed = copy.deepcopy(KEPT)
    changed["settings"]["base"]["runs"][0]["gender-occupation"]["net_neutral"] += 0.01
    assert neutrality_page.filled(page, changed, EARLIER) != page


def test_no_setting_with_several_seeds_reaches_the_published_rise(neutrality_page: ModuleType) -> None:
    for comparison in neutrality_page.comparisons(KEPT, EARLIER):
        if len(comparison.seeds) > 1:
            mean, low, high, _ = neutrality_page.paired(comparison.differences())
            assert low <= mean <= high < neutrality_page.PUBLISHED


def test_holm_multiplies_by_the_tests_that_are_left(neutrality_page: ModuleType) -> None:
    assert neutrality_page.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
