"""The arithmetic of `make bench` on fixed numbers, and one tiny run of it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import arithmetic  # noqa: E402
import results_page  # noqa: E402
from operation import Work  # noqa: E402

MACHINE = {
    "flop_per_s": 100.0,
    "copied_bytes_per_s": 10.0,
    "read_bytes_per_s": 20.0,
    "lookups_per_s": 5.0,
    "start_seconds": 0.5,
    "bare_start_seconds": 0.25,
}


def test_a_ratio_is_that_of_the_medians_and_its_spread_that_of_the_pairs() -> None:
    assert arithmetic.ratio([1.0, 2.0, 4.0], [10.0, 30.0, 20.0]) == (10.0, 5.0, 15.0)


def test_runs_of_both_sides_must_be_paired() -> None:
    with pytest.raises(ValueError, match="zip"):
        arithmetic.ratio([1.0], [1.0, 2.0])


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_the_exponent_of_a_power_is_found(power: float) -> None:
    sizes = [100, 200, 400, 800]
    found = arithmetic.exponent(sizes, [[3.0 * size**power for size in sizes]])
    assert found == pytest.approx((power,) * 3)


def test_the_spread_of_an_exponent_is_that_of_the_repeats() -> None:
    sizes = [1, 2, 4, 8]
    middle, low, high = arithmetic.exponent(sizes, [[1, 2, 4, 8], [1, 4, 16, 64], [1, 2, 4, 8]])
    assert (middle, low, high) == pytest.approx((1.0, 1.0, 2.0))


def test_the_floor_is_the_slowest_part_of_the_work() -> None:
    assert arithmetic.floor(Work(flop=100.0, copied=30.0), MACHINE) == (3.0, "copied")
    assert arithmetic.floor(Work(flop=400.0, copied=30.0), MACHINE) == (4.0, "flop")
    assert arithmetic.floor(Work(read=20.0, lookups=10.0), MACHINE) == (2.0, "lookups")
    assert arithmetic.floor(Work(starts=3.0), MACHINE) == (1.5, "starts")
    assert arithmetic.floor(Work(bare_starts=2.0), MACHINE) == (0.5, "bare_starts")


def test_results_are_compared_number_by_number() -> None:
    assert arithmetic.difference([1.0, 200.0], [1.0, 202.0]) == pytest.approx(2 / 202)
    assert arithmetic.difference(0.5, 0.25) == 0.25
    assert arithmetic.difference([1.0], [1.0, 2.0]) == math.inf
    assert arithmetic.difference(math.nan, 1.0) == math.inf
    assert arithmetic.difference(None, 1.0) == math.inf


def test_the_quick_set_compares_with_a_peer_in_each_area() -> None:
    import bench

    modules = [bench.load(str(path)) for path in sorted((BENCHMARKS / "operations").glob("*.py"))]
    known = {id for module in modules for id in module.OPERATIONS}
    assert set(bench.QUICK_SET) <= known
    for module in modules:
        chosen = [module.OPERATIONS[id] for id in bench.QUICK_SET if id in module.OPERATIONS]
        compared = [each for each in module.OPERATIONS.values() if each.theirs]
        assert len(chosen) == 1 or not compared, module.ABOUT
        assert all(bool(each.theirs) == bool(compared) for each in chosen), module.ABOUT
        assert set(getattr(module, "QUICK", {})) <= set(module.SIZES)


def test_one_operation_runs_from_start_to_page_and_keeps_other_text(tmp_path: Path) -> None:
    page, out = tmp_path / "RESULTS.md", tmp_path / "bench.json"
    page.write_text("# Speed\n\nWritten by hand.\n")
    command = [sys.executable, str(BENCHMARKS / "bench.py"), "import", "--tiny", "--work", str(tmp_path / "work")]
    subprocess.run([*command, "--out", str(out), "--page", str(page)], check=True, capture_output=True)
    row = json.loads(out.read_text())["rows"]["import"]
    assert row["ratio"][0] == pytest.approx(row["theirs"]["seconds"] / row["ours"]["seconds"], rel=1e-3)
    assert row["floor"]["share"] == pytest.approx(row["floor"]["seconds"] / row["ours"]["seconds"])
    text = page.read_text()
    assert text.startswith("# Speed\n\n" + results_page.BEGIN)
    assert "`import evenhand`" in text
    assert text.endswith("Written by hand.\n")
    results_page.write_page(json.loads(out.read_text()), page)
    assert page.read_text() == text
