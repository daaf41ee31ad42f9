"""No verb and no option without a test, and the page that names the tests is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from scripts import option_table  # noqa: E402

pytestmark = pytest.mark.xdist_group("options")  # so that its fixtures are made once


@pytest.fixture(scope="module")
def known() -> dict[option_table.Verb, option_table.Command]:
    return option_table.commands()


@pytest.fixture(scope="module")
def found(known: dict[option_table.Verb, option_table.Command]) -> option_table.Uses:
    return option_table.uses(known)


def test_every_option_is_used_by_a_test(
    known: dict[option_table.Verb, option_table.Command], found: option_table.Uses
) -> None:
    assert len(known) > 20
    assert option_table.gaps(known, found) == []


def test_the_page_is_up_to_date(known: dict[option_table.Verb, option_table.Command], found: option_table.Uses) -> None:
    written = option_table.PAGE.read_text(encoding="utf-8")
    assert written == option_table.page(known, found), "run python scripts/option_table.py"


def test_an_option_without_a_test_is_found(
    known: dict[option_table.Verb, option_table.Command], found: option_table.Uses
) -> None:
    new = option_table.Command(("convert",), {**known["convert",].options, "--new": ("--new",)})
    used = {key: tests for key, tests in found.items() if key != (("convert",), "--limit")}
    assert option_table.gaps({**known, ("convert",): new}, used) == ["convert --limit", "convert --new"]


def test_only_arguments_of_the_verb_count() -> None:
    known = option_table.commands()
    file = option_table.ROOT / "tests" / "cli" / "test_made_up.py"
    source = (
        'MORE = ("--limit", "3")\n'
        "def call(*more):\n    return run('convert', 'a', *more)\n"
        "def test_one():\n    call('b', '--json', *MORE)\n    other('--to', 'x')\n"
        "def test_two():\n    run('list', '--json')\n    run('show', 'x')\n    loose = ('--format', 'x')\n"
    )
    found: option_table.Uses = {}
    option_table._Module(file, known, source).collect(found)
    convert = {option for verb, option in found if verb == ("convert",)}
    assert {"", "--json", "--limit", "--to"} <= convert
    assert "--format" not in convert
    assert list(found[("list",), "--json"]) == ["tests/cli/test_made_up.py::test_two"]
