"""The default audit gives the recorded numbers, whatever the number of threads and processes.

`golden.json` has value, interval and p-value of every row of `evenhand audit`. Tolerance: 1e-5 of the value or 1e-6,
whichever is larger. Sums of floating-point numbers differ in the last digits between processors, numbers of threads and
versions of numpy; rows that rest on an iteration (a classifier, a clustering) are allowed 100 times as much. A number
that changes on purpose raises the `definition` of its measure, and the file is written again:

    evenhand audit --out run && python tests/audit/test_golden.py run
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import evenhand as eh

GOLDEN = Path(__file__).with_name("golden.json")
RELATIVE, ABSOLUTE = 1e-5, 1e-6
ITERATED = ("clustering", "recoverability", "nli", "mab", "rnsb")
QUICK = ("weat", "ect", "mac", "ripa", "same", "direct-bias")


def rows(audit: eh.Audit) -> dict[str, list[float | None]]:
    return {
        f"{result.label} @ {result.stage}": [
            result.measurement.value, *(result.measurement.interval or (None, None)), result.measurement.p_value,
        ]
        for result in audit.results
    }  # fmt: skip


def differences(found: dict[str, list[float | None]]) -> list[str]:
    """Return the rows that are not as recorded, or not recorded."""
    golden: dict[str, list[float | None]] = json.loads(GOLDEN.read_text())
    return [
        f"{name}: {numbers}, recorded {golden.get(name)}"
        for name, numbers in found.items()
        if name not in golden or not all(map(_close, numbers, golden[name], [name] * len(numbers)))
    ]


def _close(one: float | None, other: float | None, name: str) -> bool:
    if one is None or other is None:
        return one is other
    factor = 100 if name.startswith(ITERATED) else 1
    return math.isclose(one, other, rel_tol=factor * RELATIVE, abs_tol=factor * ABSOLUTE)


def test_quick_rows_are_as_recorded() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audit = eh.Audit.run("glove-embedded", methods=["linear"], measures=QUICK)
    found = rows(audit)
    assert len(found) > 15
    assert differences(found) == []


@pytest.mark.slow
@pytest.mark.parametrize(("threads", "jobs"), [("1", "1"), ("4", "1"), ("1", "2")])
def test_the_default_audit_is_as_recorded(threads: str, jobs: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evenhand", "audit", "--jobs", jobs, "--out", str(tmp_path / "run")]
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = rows(eh.Audit.load(tmp_path / "run"))
    assert found.keys() == json.loads(GOLDEN.read_text()).keys()
    assert differences(found) == []


if __name__ == "__main__":
    recorded = rows(eh.Audit.load(sys.argv[1]))
    rounded = {
        name: [number if number is None else float(f"{number:.10g}") for number in numbers]
        for name, numbers in recorded.items()
    }
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in sorted(rounded.items()))
    GOLDEN.write_text(f"{{\n{lines}\n}}\n")
