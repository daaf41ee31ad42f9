"""An audit in two processes, killed from outside at random moments: its parent, or one of its workers.

The other scenarios kill one process at a file event. Here the processes are real, so the moments are drawn at random; a
kill counts only where it ended a process that was at work. `FAULT_TRIALS` is the number of kills that count, and
`FAULT_RECORD=1` adds them to `results.json`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fault_results import add
from fault_scenario import write_vectors

import evenhand as eh
from evenhand.audit.cells import CellStore

TRIALS = int(os.environ.get("FAULT_TRIALS", "100"))
pytestmark = [pytest.mark.faults, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


def workers(parent: int) -> list[int]:
    """Return the processes that an audit has started for its cells."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, above = status.read_text().rpartition(")")[2].split()[:2]
            if (
                int(above) == parent
                and state != "Z"
                and "resource_tracker" not in (status.parent / "cmdline").read_text()
            ):
                found.append(int(status.parent.name))
        except OSError:
            continue
    return sorted(found)


def start(folder: Path, seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "evenhand", "audit", "in.txt", "--jobs", "2", "--seed", str(seed), "-o", "run"]
    command += ["--measure", "weat", "--measure", "direct-bias", "--measure", "ripa", "--measure", "neighbours"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> None:
    text = process.communicate(timeout=600)[1]
    assert process.returncode == 0, text


def values(folder: Path) -> list[tuple[str, str, float | None]]:
    return [(row.label, row.stage, row.measurement.value) for row in eh.Audit.load(folder / "run").results]


def kill_parent(process: subprocess.Popen[str]) -> bool:
    process.kill()
    return True


def kill_worker(process: subprocess.Popen[str]) -> bool:
    running = workers(process.pid)
    for pid in running[:1]:
        os.kill(pid, signal.SIGKILL)
    return bool(running)


@pytest.mark.parametrize(("name", "kill"), [("audit-jobs-parent", kill_parent), ("audit-jobs-worker", kill_worker)])
def test_a_killed_audit_of_several_processes(
    name: str, kill: Callable[[subprocess.Popen[str]], bool], tmp_path: Path
) -> None:
    write_vectors(tmp_path / "in.txt", 1)
    begun = time.monotonic()
    finish(start(tmp_path, 0))
    whole = time.monotonic() - begun
    choose, effective, attempts, half, new = random.Random(), 0, 0, 0, 0
    earlier = values(tmp_path)
    while effective < TRIALS:
        attempts += 1
        assert attempts < 10 * TRIALS + 20, "nearly all kills came too late"
        process = start(tmp_path, attempts)
        time.sleep(choose.uniform(0.2, 1.0) * whole)
        children = workers(process.pid)
        hit = process.poll() is None and kill(process)
        text = process.communicate(timeout=300)[1]
        counts_now = bool(hit and process.returncode != 0)
        effective += counts_now
        if name == "audit-jobs-worker" and hit and process.returncode:
            assert "Traceback" not in text
            assert "error: a worker process ended by signal 9" in text
        deadline = time.monotonic() + 20
        while any(Path(f"/proc/{pid}").exists() and pid in workers(1) for pid in children):
            assert time.monotonic() < deadline, "a worker outlives its parent"
            time.sleep(0.05)
        store = CellStore(tmp_path / "run")
        for file in (tmp_path / "run" / "cells").glob("*.json"):
            half += store.cell(file.stem) is None
        now = values(tmp_path)  # the earlier record, or the whole new one
        assert len(now) == len(earlier)
        new += counts_now and eh.Audit.load(tmp_path / "run").seed == attempts
    assert half == 0
    finish(start(tmp_path, attempts))
    after = values(tmp_path)
    for file in (tmp_path / "run" / "cells").glob("*.json"):
        file.unlink()
    finish(start(tmp_path, attempts))
    assert values(tmp_path) == after
    if os.environ.get("FAULT_RECORD"):
        counts = {"trials": {"kill": attempts}, "killed": {"before": effective - new, "after": new}}
        add([{"scenario": name, **counts, "problems": [], "seconds": round(time.monotonic() - begun)}], more=True)
