"""The default audit gives the recorded numbers, whatever the number of threads and processes.

Ray shares the texts of models and corpora; word vectors are measured by the process itself. That both engines give the
same numbers there is tested in tests/engines, tests/corpus/test_corpus_ray.py and tests/subjects/test_sharded_views.py.

`golden.json` has value, interval and p-value of every row of `evenhand audit`. The tolerance is that of
scripts/compare_audits.py: 1e-5 of the value or 1e-6, whichever is larger. Sums of floating-point numbers differ in the last
digits between processors, numbers of threads and versions of numpy; rows that rest on an iteration (a classifier, a
clustering) are allowed 100 times as much. A number that changes on purpose raises the `definition` of its measure, and the
file is written again:

    evenhand audit --out run && python tests/audit/test_golden.py run
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import evenhand as eh

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from compare_audits import exceeding, numbers

GOLDEN = Path(__file__).with_name("golden.json")
QUICK = ("weat", "ect", "mac", "ripa", "same", "direct-bias")


def recorded() -> dict[str, list[float | None]]:
    golden: dict[str, list[float | None]] = json.loads(GOLDEN.read_text())
    return golden


def test_quick_rows_are_as_recorded() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audit = eh.Audit.run("glove-embedded", methods=["linear"], measures=QUICK)
    found = numbers(audit)
    assert len(found) > 15
    assert exceeding(found, recorded()) == []


def test_a_difference_above_the_tolerance_is_found() -> None:
    found = {name: list(values) for name, values in recorded().items()}
    name = next(name for name, values in found.items() if name.startswith("weat-") and values[0])
    found[name][0] *= 1 + 5e-6
    assert exceeding(found, recorded()) == []
    found[name][0] *= 1 + 5e-5
    assert [row.partition(": [")[0] for row in exceeding(found, recorded())] == [name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("threads", "options"),
    [("1", ()), ("2", ()), ("4", ()), ("1", ("--jobs", "2"))],
    ids=["one thread", "two threads", "four threads", "two processes"],
)
def test_the_default_audit_is_as_recorded(threads: str, options: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evenhand", "audit", *options, "--out", str(tmp_path / "run")]
    more_data = ("EVENHAND_DATA", "EVENHAND_CACHE")  # data sets on this disk would add rows
    environment = {name: value for name, value in os.environ.items() if name not in more_data}
    environment |= {
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "EVENHAND_CACHE": str(tmp_path / "cache"),
    }
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = numbers(eh.Audit.load(tmp_path / "run"))
    assert found.keys() == recorded().keys()
    assert exceeding(found, recorded()) == []


if __name__ == "__main__":
    rounded = {
        name: [number if number is None else float(f"{number:.10g}") for number in values]
        for name, values in numbers(eh.Audit.load(sys.argv[1])).items()
    }
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(values)}" for name, values in sorted(rounded.items()))
    GOLDEN.write_text(f"{{\n{lines}\n}}\n")
