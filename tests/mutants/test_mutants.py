"""What decides the results of the campaign of mutants: which changes there are, which tests they run, how a share is stated."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import block_map
import mutations
import pytest
from block_map import Instrument
from mutations import Mutant, Mutations, changed_code, functions

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def campaign() -> ModuleType:
    """The campaign; the fuzz campaign has a module of the same name."""
    spec = importlib.util.spec_from_file_location("mutants_campaign", HERE / "campaign.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SOURCE = '''
LIMIT = 3

def half(x: int = 1) -> float:
    """Halve what is positive."""
    if x > 0:
        return x / 2
    return -x
'''


def changes(source: str) -> list[tuple[int, int, bool, str, str]]:
    search = Mutations()
    search.visit(ast.parse(source))
    return search.found


def test_each_place_is_found_with_its_line_and_its_block() -> None:
    assert changes(SOURCE) == [
        (2, 0, True, "3", "4"),
        (4, 5, True, "1", "2"),
        (6, 5, False, "0", "1"),
        (6, 5, False, "x > 0", "x >= 0"),
        (7, 7, False, "2", "3"),
        (7, 7, False, "x / 2", "x * 2"),
        (8, 5, False, "-x", "x"),
    ]


def test_messages_types_and_texts_are_left_alone() -> None:
    assert changes('def f(x: "Literal[1]") -> None:\n    raise ValueError(f"{x + 1}", x - 1)\n') == []


def test_what_decides_no_number_is_left_alone() -> None:
    assert changes("CELLS_AT_ONCE = 4 << 20\nx = zip(a, b, strict=True)\ny = a.reshape(-1, b)\n") == []
    assert len(changes("CELLS = 4\nx = zip(a, b, key=True)\ny = a.reshape(-1, 2).sum(-1)\n")) == 5


def test_only_the_chosen_place_changes() -> None:
    changed = Mutations(5).visit(ast.parse(SOURCE))
    names: dict[str, object] = {}
    exec(compile(ast.fix_missing_locations(changed), "changed", "exec"), names)
    assert names["half"](3) == 6  # type: ignore[operator]
    assert names["half"](-3) == 3  # type: ignore[operator]


def test_an_instrumented_function_reports_the_blocks_that_run_and_keeps_its_docstring() -> None:
    ran: set[int] = set()
    names: dict[str, object] = {"__ran__": ran.add}
    exec(compile(ast.fix_missing_locations(Instrument().visit(ast.parse(SOURCE))), "changed", "exec"), names)
    assert names["half"](-1) == 1
    assert ran == {5}
    assert names["half"](1) == 0.5
    assert ran == {5, 7}
    assert names["half"].__doc__ == "Halve what is positive."


def test_functions_of_an_imported_module_get_the_changed_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "halves.py"
    path.write_text(SOURCE)
    names: dict[str, object] = {"__name__": "evenhand.halves"}
    exec(changed_code(path), names)
    monkeypatch.setitem(sys.modules, "evenhand.halves", ModuleType("evenhand.halves"))
    monkeypatch.setattr(mutations, "SOURCE", tmp_path)
    monkeypatch.setattr(mutations, "live", lambda: [names["half"]])
    mutations.apply(Mutant("halves", 5, 7, 7, False, "x / 2", "x * 2"))
    assert names["half"](3) == 6  # type: ignore[operator]
    assert {name for name, _ in functions(changed_code(path))} == {"half"}


def test_a_sample_has_its_share_of_each_folder(campaign: ModuleType) -> None:
    every = [Mutant(f"stats/{n}", n, 1, 1, False, "1", "2") for n in range(30)]
    every += [Mutant(f"audit/{n}", n, 1, 1, False, "1", "2") for n in range(10)]
    drawn = campaign.sample(every, 8, seed=1)
    assert Counter(mutant.module.split("/")[0] for mutant in drawn) == {"stats": 6, "audit": 2}
    assert drawn == campaign.sample(every, 8, seed=1) != campaign.sample(every, 8, seed=2)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> block_map.Index:
    monkeypatch.setattr(block_map, "MAP", tmp_path)
    for name, seconds in (("stats/test_means", 5.0), ("audit/test_audit", 1.0), ("audit/test_golden", 40.0)):
        path = block_map.ROOT / "tests" / f"{name}.py"
        tests = {f"tests/{name}.py::test": {"seconds": seconds, "ran": {"stats/means": [7]}}}
        block_map.entry_of(path).write_text(json.dumps({"stamp": "", "modules": {}, "tests": tests}))
    return block_map.Index(
        block_map.ROOT / "tests" / f"{name}.py"
        for name in ("stats/test_means", "audit/test_audit", "audit/test_golden")
    )


def test_mirrored_tests_come_first_and_the_budget_ends_the_list(index: block_map.Index) -> None:
    mutant = Mutant("stats/means", 0, 8, 7, False, "1", "2")
    first = ["tests/stats/test_means.py::test", "tests/audit/test_audit.py::test"]
    assert index.tests(mutant, budget=30) == first
    assert index.tests(mutant, budget=100) == [*first, "tests/audit/test_golden.py::test"]


def test_a_block_that_no_test_runs_has_no_tests(index: block_map.Index) -> None:
    assert index.tests(Mutant("stats/means", 0, 9, 9, False, "1", "2")) == []


def test_a_change_of_a_file_of_tests_is_traced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_map, "MAP", tmp_path)
    path = HERE / "test_mutants.py"
    assert not block_map.is_current(path)
    block_map.write_entry(path, {"test": {"seconds": 0.1, "ran": {"stats/means": [7]}}})
    assert block_map.is_current(path)
    kept = json.loads(block_map.entry_of(path).read_text())
    for changed in (kept | {"stamp": "other"}, kept | {"modules": {"stats/means": "other"}}):
        block_map.entry_of(path).write_text(json.dumps(changed))
        assert not block_map.is_current(path)


@pytest.mark.parametrize(
    ("status", "told", "expected"),
    [
        (0, "", ("survived", "")),
        (1 << 8, "test", ("noticed", "test")),
        (4 << 8, "", ("noticed", "the import fails")),
        (3 << 8, "KeyError: 1", ("unclear", "KeyError: 1")),
        (24, "", ("noticed", "takes more than five times as long")),
        (14, "", ("unclear", "waits for something")),
        (11, "", ("noticed", "the process ends with -11")),
    ],
)
def test_how_a_run_ends(campaign: ModuleType, status: int, told: str, expected: tuple[str, str]) -> None:
    assert campaign.ending(status, told) == expected


def test_wilsons_interval_by_hand(campaign: ModuleType) -> None:
    low, high = campaign.interval(8, 10)  # (0.8 + z²/20 ± z √(0.016 + z²/400)) / (1 + z²/10), z² = 3.8415
    assert (low, high) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)
    assert campaign.interval(0, 0) == (0, 1)


def test_equivalent_changes_are_not_counted_and_a_later_test_does_not_change_the_first_share(
    campaign: ModuleType,
) -> None:
    records = [
        {
            "module": "stats/means",
            "key": "a",
            "outcome": "noticed",
            "line": 1,
            "by": "tests/test_declared_values.py::a",
        },
        {"module": "stats/means", "key": "b", "outcome": "survived", "line": 2},
        {"module": "audit/plan", "key": "c", "outcome": "survived", "line": 3, "again": "noticed"},
        {"module": "audit/plan", "key": "d", "outcome": "survived", "line": 4},
    ]
    text = campaign.page({"1": records}, {"b": "for a reason"})
    assert "| stats | 2 | 1 | 1 | 0 | 100 % |" in text
    assert "| all | 4 | 1 | 1 | 2 | 33 % |" in text
    assert "**33.3 %** of 3 changes that are not equivalent" in text
    assert "1 were noticed by the record of constants and defaults" in text
    assert "With the tests that were written for the others since, 66.7 %." in text
    assert text.endswith("## Not noticed today\n\n- line 4 of `d`\n")
    assert campaign.page({"1": records}, {"b": "for a reason"}, there={"a"}).endswith("## Not noticed today\n\nNone.\n")


def test_a_change_that_occurs_twice_is_told_apart_by_its_number(
    campaign: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutations, "source_line", lambda path, line: "x")
    first, second = (Mutant("stats/means", number, number, 1, False, "1", "2") for number in (3, 4))
    moved = {"module": "stats/means", "key": first.key, "number": 9}
    assert campaign.is_of(first, moved, [first])
    assert not campaign.is_of(first, moved, [first, second])
    assert campaign.is_of(second, {**moved, "number": 4}, [first, second])
