"""The same seed gives the same numbers in another process, whatever order sets and dictionaries have there.

Processes differ in PYTHONHASHSEED. With the same number of threads, results are equal in every digit. Another number of
threads changes the order of sums, so that numbers agree to 1e-5 only, and digests of fitted maps differ.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seeded_results import PARTS, results

SCRIPT = Path(__file__).with_name("seeded_results.py")
QUICK = ["statistics", "quick_methods", "few_measures", "texts"]
NEED_TORCH = {"models", "training"}


def in_another_process(hash_seed: str, parts: list[str], threads: str = "1") -> dict[str, Any]:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *parts], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def differing(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    assert first.keys() == second.keys()
    return [name for name in first if first[name] != second[name]]


def test_seeded_functions_agree_between_processes() -> None:
    first, second = results(QUICK), in_another_process("4242", QUICK)  # this process has a random hash seed
    assert len(first) > 30
    assert differing(first, second) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", sorted(PARTS.keys() - set(QUICK)))
def test_all_seeded_functions_agree_between_processes(part: str) -> None:
    if part in NEED_TORCH:
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
    first, second = (in_another_process(seed, [part]) for seed in ("1", "4242"))
    assert first
    assert differing(first, second) == []


@pytest.mark.slow
def test_measures_agree_whatever_the_number_of_threads() -> None:
    one, two = (in_another_process("1", ["all_measures"], threads) for threads in ("1", "2"))
    assert one.keys() == two.keys()
    assert [name for name in one if not _close(one[name], two[name])] == []


def _close(one: Any, two: Any) -> bool:
    if isinstance(one, list):
        return isinstance(two, list) and len(one) == len(two) and all(map(_close, one, two))
    if isinstance(one, float) and isinstance(two, float):
        return math.isclose(one, two, rel_tol=1e-3, abs_tol=1e-4)
    return bool(one == two)
