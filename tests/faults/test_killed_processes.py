"""An audit in two processes, killed from outside at random moments: its parent, or one of its workers.

The other scenarios kill one process at a file event. Here the processes are real, so the moments are drawn at random; a
kill counts only where it ended a process that was at work. `FAULT_TRIALS` is the number of kills that count, and
`FAULT_RECORD=1` adds them to `results.json`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fault_results import add
from fault_scenario import write_corpus, write_vectors
from test_faults import _descendants, _title

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


@pytest.mark.parametrize(
    ("name", "kill"), [("audit-spawned-parent", kill_parent), ("audit-spawned-worker", kill_worker)]
)
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
        if name == "audit-spawned-worker" and hit and process.returncode:
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


KILLS_OF_ONE_COUNT = 3  # Ray tries a job four times


class Killer(threading.Thread):
    """Kills workers of a Ray cluster on this machine while they do a job, at random moments."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.killed, self.over, self.choose = 0, threading.Event(), random.Random()

    def run(self) -> None:
        while self.killed < KILLS_OF_ONE_COUNT and not self.over.wait(self.choose.uniform(0.0, 0.3)):
            working = [pid for pid in sorted(_descendants(os.getpid())) if _title(pid).startswith("ray::_run_job")]
            if working:
                os.kill(self.choose.choice(working), signal.SIGKILL)
                self.killed += 1


def test_ray_workers_that_are_killed_while_they_count(tmp_path: Path) -> None:
    """Every count is that of one process. A kill counts if the worker was doing a job."""
    ray = pytest.importorskip("ray")
    from evenhand.engines import RayEngine

    write_corpus(tmp_path, 1)
    text = (tmp_path / "texts" / "0.txt").read_text() * 40
    for number in range(24):
        (tmp_path / "texts" / f"more-{number}.txt").write_text(text)
    options = {"bootstrap": 0, "permutations": 0}
    begun, expected = time.monotonic(), eh.corpus.bias([tmp_path / "texts"], **options)
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    counts, killed = 0, 0
    try:
        while killed < TRIALS:
            counts += 1
            assert counts < 10 * TRIALS + 20, "nearly all counts ended before a kill"
            killer = Killer()
            killer.start()
            found = eh.corpus.bias([tmp_path / "texts"], engine=RayEngine(), **options)
            killer.over.set()
            killer.join()
            killed += killer.killed
            assert repr(found.scores) == repr(expected.scores)
    finally:
        ray.shutdown()
    if os.environ.get("FAULT_RECORD"):
        numbers = {"trials": {"kill": killed}, "killed": {"after": killed}}  # the result is always the whole one
        add(
            [{"scenario": "ray-workers-count", **numbers, "problems": [], "seconds": round(time.monotonic() - begun)}],
            more=True,
        )


# A machine whose disk is full ---------------------------------------------------------------------------------------


def test_a_machine_whose_disk_is_full(tmp_path: Path) -> None:
    """Home, temporary files, cache and results lie on one small disk; commands run one after the other as it fills."""
    script = Path(__file__).with_name("full_machine.py")
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("file systems cannot be mounted here")
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert result["problems"] == []
    assert result["trials"]["disk"] >= 6
    if os.environ.get("FAULT_RECORD"):
        add([result])
