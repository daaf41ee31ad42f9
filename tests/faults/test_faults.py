"""Commands that write, killed, on a full disk, in read-only folders, side by side and interrupted.

The default run has a few trials of the quick commands; `make faults` kills each 100 times and writes RESULTS.md.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fault_injection import unavailable
from fault_results import add
from fault_scenario import WORDS, write_corpus, write_vectors
from fault_scenarios import SCENARIOS

HERE = Path(__file__).parent
TRIALS = int(os.environ.get("FAULT_TRIALS", "100"))
QUICK = ("convert-npy",)
needs_library = pytest.mark.skipif(bool(unavailable()), reason=unavailable() or "available")


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "EVENHAND_CACHE": str(folder / "cache"), "EVENHAND_OFFLINE": "1"}


def run_trials(folder: Path, kills: int, *names: str) -> list[dict[str, object]]:
    command = [sys.executable, str(HERE / "fault_trials.py"), str(folder), str(kills), *names]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(folder), check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@needs_library
def test_quick_commands_survive_a_few_faults(tmp_path: Path) -> None:
    results = run_trials(tmp_path, 2, *QUICK)
    assert [result["scenario"] for result in results] == list(QUICK)
    assert [problem for result in results for problem in result["problems"]] == []  # type: ignore[attr-defined]
    assert all(result["events"] for result in results)


@needs_library
@pytest.mark.faults
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_command_survives_every_fault(name: str, tmp_path: Path) -> None:
    (result,) = run_trials(tmp_path, TRIALS, name)
    if os.environ.get("FAULT_RECORD"):
        add([result])
    if "skipped" in result:
        pytest.skip(str(result["skipped"]))
    assert result["problems"] == []


def evenhand(folder: Path, *arguments: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "evenhand", *arguments]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen(command, cwd=folder, env=environment(folder), **options)  # type: ignore[call-overload, no-any-return]


AUDIT = (
    "audit",
    "in.txt",
    "--measure",
    "direct-bias",
    "--measure",
    "clustering",
    "-m",
    "linear",
    "-m",
    "hard",
    "-o",
    "run",
)


@pytest.mark.faults
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_audit_says_so_and_goes_on_when_it_is_run_again(number: int, code: int, tmp_path: Path) -> None:
    write_vectors(tmp_path / "in.txt", 1)
    running = evenhand(tmp_path, *AUDIT)
    deadline = time.monotonic() + 600
    while not list(tmp_path.glob("run/cells/*.json")) and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    running.send_signal(number)
    _, told = running.communicate()
    if running.returncode != 0:  # it may have been done already
        assert running.returncode == code, told
        assert "run the same command again" in told
        assert "Traceback" not in told
    assert not list(tmp_path.rglob("*.partial"))
    again = evenhand(tmp_path, *AUDIT, "--json")
    out, told = again.communicate()
    assert again.returncode == 0, told
    record = json.loads(out)
    assert record["manifest"]["cells_computed"] < len({(row["stage"], row["label"]) for row in record["results"]})


@pytest.mark.faults
def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path: Path) -> None:
    with evenhand(tmp_path, "list", "data", "--json") as running:
        assert running.stdout is not None
        running.stdout.read(1)
        running.stdout.close()
        assert running.stderr is not None
        told = running.stderr.read()
    assert running.returncode == 0
    assert "Traceback" not in told


@pytest.mark.faults
def test_processes_share_one_run_folder_and_one_cache(tmp_path: Path) -> None:
    write_vectors(tmp_path / "in.txt", 1, tuple(dict.fromkeys((*WORDS, *(f"w{n}" for n in range(2000))))))
    alone = tmp_path / "alone"
    alone.mkdir()
    write_vectors(alone / "in.txt", 1, tuple(dict.fromkeys((*WORDS, *(f"w{n}" for n in range(2000))))))
    first = evenhand(alone, *AUDIT, "--json")
    expected = json.loads(first.communicate()[0])["results"]
    several = [evenhand(tmp_path, *AUDIT, "--json") for _ in range(4)]
    for process in several:
        out, told = process.communicate()
        assert process.returncode == 0, told
        assert json.loads(out)["results"] == expected
    assert not list(tmp_path.rglob("*.partial"))
    assert json.loads((tmp_path / "run" / "audit.json").read_text())["results"] == expected


@pytest.mark.faults
def test_a_cluster_that_loses_workers_and_itself(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    write_corpus(tmp_path, 1)
    for number in range(40):  # more shards than workers
        (tmp_path / "texts" / f"more-{number}.txt").write_text((tmp_path / "texts" / "0.txt").read_text() * 20)
    command = ("corpus", "bias", "texts", "--bootstrap", "0", "--permutations", "0", "--json")
    local = evenhand(tmp_path, *command)
    expected = json.loads(local.communicate()[0])
    for victim, several in (("ray::", False), ("raylet", True)):
        running = evenhand(tmp_path, *command, "--engine", "ray", "--workers", "2", start_new_session=True)
        killed = kill_descendants(running, victim, several=several)
        out, told = running.communicate(timeout=1200)
        assert "Traceback" not in told
        if running.returncode == 0:
            assert json.loads(out)["scores"] == expected["scores"]
        else:
            assert killed
            assert running.returncode == 1, told
            assert "error:" in told


def kill_descendants(running: subprocess.Popen[str], name: str, *, several: bool) -> bool:
    """Kill processes of this name below a process, once they are there; only those, by their ids."""
    deadline = time.monotonic() + 900
    while running.poll() is None and time.monotonic() < deadline:
        found = [pid for pid in _descendants(running.pid) if name in _title(pid)]
        if found:
            for pid in found if several else found[:1]:
                os.kill(pid, signal.SIGKILL)
            return True
        time.sleep(0.05)
    return False


def _descendants(root: int) -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
    found = {root}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root}


def _title(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
